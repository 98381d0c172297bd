"""The promises of the port that stores the bytes of media."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pilotage.agent.ports.blobs import IBlobs, StoredBlob
from pilotage.agent.ports.journal import IAgentJournal, JournalCommit
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError, MediaNotFoundError
from pilotage.testing.conformance.kit import FOREIGN_RUN, OTHER_RUN, RUN, Kit, claim

# Later than the clock of any store under test.
LATER = datetime(2100, 1, 1, tzinfo=UTC)
ONE, OTHER, ABSENT = "1" * 64, "2" * 64, "f" * 64
CONTENT = StoredBlob(bytes(range(256)) * 400)
SEALED = StoredBlob(b"c2VhbGVk", "the key")


def begun(run: RunKey) -> JournalCommit:
    """Return the first commit of a run."""
    state = AgentState(run.run_id, "shop:Helpdesk", AgentStatus.ACTIVE, tenant_id=run.tenant_id)
    return JournalCommit(run, "begun", 0, (claim(1, epoch=1),), state)


class BlobsConformance(Kit):
    """Conformance tests of every store of media.

    Fixtures to give: `blobs`, an empty one, and the `journal` of the store that knows which runs there are.
    """

    async def test_bytes_come_back_as_they_were_put(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT)
        await blobs.put("default", OTHER, SEALED)
        assert await blobs.get("default", ONE) == CONTENT
        assert await blobs.get("default", OTHER) == SEALED

    async def test_the_first_bytes_under_a_digest_stay(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT)
        await blobs.put("default", ONE, SEALED)
        assert await blobs.get("default", ONE) == CONTENT

    async def test_nothing_is_found_in_another_tenant(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT)
        with pytest.raises(MediaNotFoundError):
            await blobs.get("elsewhere", ONE)
        with pytest.raises(MediaNotFoundError):
            await blobs.hold(FOREIGN_RUN, [ONE])
        await blobs.put("elsewhere", ONE, SEALED, held_by=FOREIGN_RUN)
        await blobs.release(FOREIGN_RUN)
        assert await blobs.get("default", ONE) == CONTENT

    async def test_a_run_holds_all_or_nothing(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT)
        with pytest.raises(MediaNotFoundError, match=ABSENT[:12]):
            await blobs.hold(RUN, [ONE, ABSENT])
        assert await blobs.held(RUN) == frozenset()
        await blobs.hold(RUN, [ONE])
        await blobs.hold(RUN, [ONE])
        assert await blobs.held(RUN) == {ONE}
        assert await blobs.held(OTHER_RUN) == frozenset()

    async def test_bytes_stay_until_the_last_run_lets_them_go(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT, held_by=RUN)
        await blobs.put("default", OTHER, SEALED, held_by=RUN)
        await blobs.hold(OTHER_RUN, [ONE])
        await blobs.release(RUN)
        assert await blobs.get("default", ONE) == CONTENT
        with pytest.raises(MediaNotFoundError):
            await blobs.get("default", OTHER)
        assert await blobs.held(RUN) == frozenset()
        assert await blobs.held(OTHER_RUN) == {ONE}
        await blobs.release(OTHER_RUN)
        await blobs.release(OTHER_RUN)
        with pytest.raises(MediaNotFoundError):
            await blobs.get("default", ONE)

    async def test_what_was_removed_can_be_put_again(self, blobs: IBlobs) -> None:
        await blobs.put("default", ONE, CONTENT, held_by=RUN)
        await blobs.release(RUN)
        await blobs.put("default", ONE, SEALED, held_by=RUN)
        assert await blobs.get("default", ONE) == SEALED

    async def test_uploads_stay_until_they_are_pruned(self, blobs: IBlobs, journal: IAgentJournal) -> None:
        await journal.commit([begun(RUN)])
        await blobs.put("default", ONE, CONTENT)
        await blobs.put("default", OTHER, CONTENT, held_by=RUN)
        await blobs.put("elsewhere", ONE, CONTENT)
        long_ago = datetime.now(UTC) - timedelta(days=9_000)
        assert await blobs.prune("default", unused_since=long_ago) == 0
        assert await blobs.get("default", ONE) == CONTENT
        assert await blobs.prune("default", unused_since=LATER) == 1
        with pytest.raises(MediaNotFoundError):
            await blobs.get("default", ONE)
        assert await blobs.get("default", OTHER) == CONTENT
        assert await blobs.get("elsewhere", ONE) == CONTENT

    async def test_a_run_that_never_began_holds_nothing_for_ever(
        self, blobs: IBlobs, journal: IAgentJournal
    ) -> None:
        await blobs.put("default", ONE, CONTENT, held_by=RUN)
        assert await blobs.prune("default", unused_since=LATER) == 1
        await blobs.put("default", ONE, CONTENT, held_by=RUN)
        await journal.commit([begun(RUN)])
        assert await blobs.prune("default", unused_since=LATER) == 0

    async def test_of_holding_and_releasing_at_once_the_bytes_are_whole_or_gone(self, blobs: IBlobs) -> None:
        for number in range(20):
            first, second = RunKey("default", f"first-{number}"), RunKey("default", f"second-{number}")
            await blobs.put("default", ONE, CONTENT, held_by=first)
            _, held = await asyncio.gather(
                blobs.release(first), blobs.hold(second, [ONE]), return_exceptions=True
            )
            if held is None:
                assert await blobs.get("default", ONE) == CONTENT
                await blobs.release(second)
            else:
                assert isinstance(held, MediaNotFoundError)
                assert await blobs.held(second) == frozenset()

    async def test_of_putting_and_releasing_at_once_the_bytes_are_there(self, blobs: IBlobs) -> None:
        for number in range(20):
            first, second = RunKey("default", f"first-{number}"), RunKey("default", f"second-{number}")
            await blobs.put("default", ONE, CONTENT, held_by=first)
            await asyncio.gather(blobs.release(first), blobs.put("default", ONE, CONTENT, held_by=second))
            assert await blobs.get("default", ONE) == CONTENT
            await blobs.release(second)

    async def test_a_moment_without_a_time_zone_is_refused(self, blobs: IBlobs) -> None:
        with pytest.raises(AgentDefinitionError):
            await blobs.prune("default", unused_since=datetime(2100, 1, 1))  # noqa: DTZ001 - that is the point
