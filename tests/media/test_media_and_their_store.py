"""A store of media that fails, loses bytes or has no key ends the attempt; it is no outcome of a tool or a model."""

from __future__ import annotations

from typing import cast

import pytest

from pilotage import Agent, AgentExecutionSpec, AgentStatus, ToolEffects, agent_tool
from pilotage.agent import IMediaSource, MediaPart, RecordSealError, RunKey, StoredBlob
from pilotage.errors import MediaBrokenError, MediaRefusedError
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.testing import MemoryBlobs, MemorySealer, ScriptedModel, calls, says
from tests.behaviour.bureau import DURABLE, Bureau, resumed, started
from tests.media.pictures import png
from tests.media.test_media_in_runs import CAT, asks, digest_of


class FlakyBlobs(MemoryBlobs):
    """A store that is away while it `fails`."""

    fails = False

    async def put(
        self, tenant_id: str, digest: str, blob: StoredBlob, *, held_by: RunKey | None = None
    ) -> None:
        if self.fails:
            raise OSError("the store of media is away")
        await super().put(tenant_id, digest, blob, held_by=held_by)

    async def get(self, tenant_id: str, digest: str) -> StoredBlob:
        if self.fails:
            raise OSError("the store of media is away")
        return await super().get(tenant_id, digest)


@Agent(spec=AgentExecutionSpec(name="drawer", recovery=DURABLE))
class Drawer:
    """Draw."""

    @agent_tool(effects=ToolEffects.read_only())
    async def photograph(self) -> MediaPart:
        """Take a picture."""
        return MediaPart.of(png(note=b"photo"))


async def test_a_store_that_is_away_ends_the_attempt_and_not_the_run() -> None:
    bureau = Bureau()
    blobs = FlakyBlobs(bureau.store.tables)

    model = ScriptedModel([calls("photograph"), says("A photo.")], by_transcript=True)
    async with bureau.process(Drawer, None, blobs, model=model) as runs:
        handle = await runs.start(Drawer, asks(MediaPart.of(CAT)))
        blobs.fails = True
        with pytest.raises(StoreUnavailable, match="the store of media is away"):
            await handle.result()
    blobs.fails = False
    async with bureau.process(Drawer, None, blobs, model=model) as runs:
        result = await resumed(runs, handle.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "A photo.")


async def test_bytes_that_are_lost_or_changed_are_a_damage_that_waits_for_a_person() -> None:
    bureau, model = Bureau(), ScriptedModel([calls("photograph"), says("A photo.")], by_transcript=True)
    blobs = FlakyBlobs(bureau.store.tables)
    async with bureau.process(Drawer, None, blobs, model=model) as runs:
        handle = await runs.start(Drawer, asks(MediaPart.of(CAT)))
        bureau.store.tables.media.contents["default", digest_of(CAT)] = StoredBlob(b"another picture")
        result = await handle.result()
        assert (result.status, result.state.transition) == (AgentStatus.INTERRUPTED, "interrupted")
        assert "not those that were stored" in str(result.state.current_activity)
        assert not model.requests


async def test_sealed_bytes_open_in_their_place_alone() -> None:
    bureau = Bureau()
    contents = bureau.store.tables.media.contents
    async with bureau.process(
        Drawer, None, bureau.store.blobs, model=ScriptedModel([says("A cat.")])
    ) as runs:
        result = await started(runs, Drawer, asks(MediaPart.of(CAT)))
        assert (await runs.media(result.state.id, digest_of(CAT))).content == CAT
        sealed = contents["default", digest_of(CAT)]
        for tenant, digest in (("elsewhere", digest_of(CAT)), ("default", digest_of(b"other"))):
            contents[tenant, digest] = sealed
            with pytest.raises(MediaBrokenError):
                await runs.services.media.read(tenant, digest)
    bureau.store.sealer = MemorySealer(b"the key of another house")
    async with bureau.process(Drawer, None, bureau.store.blobs, model=ScriptedModel([])) as runs:
        with pytest.raises(RecordSealError):
            await runs.services.media.read("default", digest_of(CAT))


class StrangeSource(IMediaSource):
    """A source that fails, or gives something else than bytes."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def fetch(self, url: str, most_bytes: int) -> bytes:
        if isinstance(self._answer, Exception):
            raise self._answer
        return cast("bytes", self._answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OSError("no route to https://ada:word@pictures.example"), r"did not fetch media \(OSError\)"),
        ("<html>", "it gave a str"),
        (None, "it gave a NoneType"),
    ],
    ids=["it fails", "a text", "nothing"],
)
async def test_a_source_without_bytes_starts_no_run(answer: object, words: str) -> None:
    bureau = Bureau()
    source, given = StrangeSource(answer), MediaPart("image/png", url="https://pictures.example/cat.png")
    async with bureau.process(Drawer, None, bureau.store.blobs, source, model=ScriptedModel([])) as runs:
        with pytest.raises(MediaRefusedError, match=f"StrangeSource .*{words}"):
            await runs.start(Drawer, asks(given))
        assert (await runs.list()).runs == ()
