"""The promises that leases keep together with the journal: the commit that begins a run, and the one that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    LeaseRequest,
)
from pilotage.agent.ports.leases import IAgentLeases
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    LONG,
    OTHER_RUN,
    RUN,
    UNSTORABLE,
    PassTime,
    TimedKit,
    claim,
    commit_of,
    commit_one,
    row,
)
from pilotage.testing.conformance.leases import span

ENDED = [status for status in AgentStatus if status.is_terminal]
GOING_ON = [status for status in AgentStatus if not status.is_terminal]


def begun(run: RunKey = RUN, owner: str = "ada", seconds: float = LONG) -> JournalCommit:
    """Return the first commit of a run, by its new owner."""
    return replace(commit_of(claim(1, epoch=1), run=run, token=owner), lease=LeaseRequest(owner, seconds))


def moved(status: AgentStatus, run: RunKey = RUN, head: int = 1) -> JournalCommit:
    """Return a commit that puts a run into a status."""
    state = AgentState(run.run_id, "shop:Refunds", status, tenant_id=run.tenant_id)
    return replace(commit_of(row(head + 1), run=run), state=state)


class LeaseCommitConformance(TimedKit):
    """Conformance tests of a journal and its lease port together.

    Fixtures to give: `journal` and `leases` over the same empty store, and `pass_time`, an async function after which
    the store's clock has gone on by that many seconds. Where time can only be waited for, set `short` to less.
    """

    async def test_the_first_commit_of_a_run_takes_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        assert await commit_one(journal, begun()) == Committed(1)
        lease = await leases.holder(RUN)
        assert lease is not None
        assert (lease.run, lease.owner, lease.granted_seconds) == (RUN, "ada", LONG)
        assert await leases.acquire(RUN, "bob", LONG) is None

    async def test_one_that_asks_for_none_takes_none(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, replace(begun(), lease=None))
        assert await leases.holder(RUN) is None

    async def test_it_is_a_lease_like_any_other(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await commit_one(journal, begun(seconds=self.short))
        renewed = await leases.renew(RUN, "ada", self.short)
        assert renewed is not None
        assert await leases.holder(RUN) == renewed
        await pass_time(self.short)
        assert await leases.holder(RUN) is None
        assert await leases.acquire(RUN, "bob", LONG) is not None

    async def test_it_can_be_released(self, journal: IAgentJournal, leases: IAgentLeases) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) is None

    async def test_it_lasts_from_when_it_is_written(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        first = begun()
        before = await leases.acquire(OTHER_RUN, "bob", LONG)
        await pass_time(self.short)
        await commit_one(journal, first)
        assert span(before, await leases.holder(RUN)) >= self.short

    async def test_the_owner_that_begins_the_run_has_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, begun())
        assert await _owners(leases, RUN) == ["ada"]
        assert await leases.renew(RUN, "bob", LONG) is None

    async def test_of_several_who_begin_a_run_the_one_that_the_journal_chooses_has_it(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        assert await commit_one(journal, begun()) == Committed(1)
        assert await commit_one(journal, begun(owner="bob")) == HeadMoved(1, 1)
        assert await _owners(leases, RUN) == ["ada"]

    async def test_a_commit_that_is_refused_takes_none(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        wrong = replace(begun(), rows=(claim(1, epoch=1), row(2, record=UNSTORABLE)))
        good = begun(OTHER_RUN, "bob")
        refused, committed = await journal.commit([wrong, good])
        assert isinstance(refused, CommitRefused)
        assert committed == Committed(1)
        assert await _owners(leases, RUN, OTHER_RUN) == [None, "bob"]

    async def test_a_commit_that_comes_again_does_not_lengthen_it(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await commit_one(journal, begun())
        lease = await leases.holder(RUN)
        await pass_time(self.short)
        assert await commit_one(journal, begun()) == Committed(1)
        assert await leases.holder(RUN) == lease

    async def test_a_commit_that_comes_again_brings_none_back(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        assert await commit_one(journal, begun()) == Committed(1)
        assert await leases.holder(RUN) is None

    @pytest.mark.parametrize("status", ENDED)
    async def test_the_commit_that_ends_a_run_takes_its_lease_away(
        self, journal: IAgentJournal, leases: IAgentLeases, status: AgentStatus
    ) -> None:
        await commit_one(journal, begun())
        assert await commit_one(journal, moved(status)) == Committed(2)
        assert await leases.holder(RUN) is None
        assert await leases.renew(RUN, "ada", LONG) is None

    async def test_the_commit_that_ends_a_run_removes_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, replace(begun(), lease=None))
        await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        assert await leases.holder(RUN) is None

    @pytest.mark.parametrize("status", GOING_ON)
    async def test_a_run_that_has_not_ended_keeps_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases, status: AgentStatus
    ) -> None:
        await commit_one(journal, begun())
        lease = await leases.holder(RUN)
        assert await commit_one(journal, moved(status)) == Committed(2)
        assert await commit_one(journal, commit_of(row(3))) == Committed(3)
        assert await leases.holder(RUN) == lease

    async def test_an_end_that_comes_too_late_takes_nothing_away(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        taken = await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, commit_of(claim(2, epoch=2), token="bob"))
        assert await commit_one(journal, moved(AgentStatus.COMPLETED)) == HeadMoved(2, 2)
        assert await leases.holder(RUN) == taken

    async def test_an_end_that_comes_again_takes_nothing_away(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        taken = await leases.acquire(RUN, "bob", LONG)
        assert await commit_one(journal, moved(AgentStatus.COMPLETED)) == Committed(2)
        assert await leases.holder(RUN) == taken

    async def test_a_commit_without_a_state_changes_no_lease_after_the_end(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        taken = await leases.acquire(RUN, "bob", LONG)
        assert await commit_one(journal, commit_of(row(3))) == Committed(3)
        assert await leases.holder(RUN) == taken

    async def test_runs_that_are_committed_together_keep_their_leases_apart(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        runs = (RUN, OTHER_RUN, FOREIGN_RUN)
        await journal.commit([begun(run, owner) for run, owner in zip(runs, "abc", strict=True)])
        assert await _owners(leases, *runs) == ["a", "b", "c"]
        third = RunKey(RUN.tenant_id, "run-3")
        ends = [moved(AgentStatus.FAILED), moved(AgentStatus.ACTIVE, FOREIGN_RUN)]
        assert len(await journal.commit([*ends, begun(third, "d")])) == 3
        assert await _owners(leases, *runs, third) == [None, "b", "c", "d"]


async def _owners(leases: IAgentLeases, *runs: RunKey) -> Sequence[str | None]:
    held = [await leases.holder(run) for run in runs]
    return [None if lease is None else lease.owner for lease in held]
