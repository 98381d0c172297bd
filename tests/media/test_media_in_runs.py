"""Media go through a run by their digest: rows stay small, models get the bytes, and a crash changes nothing."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import (
    JournalStage,
    MediaPart,
    MediaSafetyLimits,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
    RunKey,
    StoredBlob,
    TextPart,
    ToolApprovalRequirement,
)
from pilotage.agent.media import media_in
from pilotage.errors import (
    DamagedEntryError,
    MediaBrokenError,
    MediaNotFoundError,
    MediaTooLargeError,
    MediaTypeRefusedError,
)
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import MemorySealer, MemoryStore, ScriptedModel, calls, crash_matrix, says
from tests.behaviour.bureau import DURABLE, Bureau, started
from tests.media.pictures import png, wav

CAT = png(note=b"cat")
LARGE = png(note=bytes(range(33, 120)) * 20_000)


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def asks(*parts: MediaPart, state_id: str = "look") -> RunAgentInput:
    return RunAgentInput(state_id, "What is this?", attachments=parts)


@Agent(spec=AgentExecutionSpec(name="viewer", recovery=DURABLE))
class Viewer:
    """Say what you see."""

    @agent_tool(effects=ToolEffects.read_only())
    async def photograph(self, count: int) -> MediaPart:
        """Take a picture."""
        return MediaPart.of(png(note=str(count).encode()), name=f"{count}.png")

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=ToolApprovalRequirement.NOT_REQUIRED)
    async def draw(self, what: str) -> list[TextPart | MediaPart]:
        """Draw a picture, and say so."""
        return [TextPart(f"drew {what}"), MediaPart.of(png(note=what.encode()))]

    @agent_tool(effects=ToolEffects.read_only())
    async def fake(self) -> MediaPart:
        """Give what is no picture."""
        return MediaPart.of(b"MZ and more", "image/png")


class Painter(IAgentModel):
    """Answers with a picture."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply = ModelResponse.of([MediaPart.of(CAT, "image/*")], usage=ModelUsage(1, 2, 3))
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=reply)


def media_of(message: ModelMessage) -> list[MediaPart]:
    return [part for part in message.parts if isinstance(part, MediaPart)]


async def journal_of(bureau: Bureau, run_id: str) -> str:
    return "".join(json.dumps([row.record, row.view], default=str) for row in await bureau.rows(run_id))


async def test_rows_have_the_digest_and_the_model_gets_the_bytes() -> None:
    bureau, model = Bureau(), ScriptedModel([says("A cat.")])
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        result = await started(runs, Viewer, asks(MediaPart.of(LARGE, "image/jpeg", "cat.png")))
    (shown,) = media_of(model.requests[0].messages[-1])
    assert (shown.media_type, shown.name) == ("image/png", "cat.png")
    assert b64decode(shown.data or "") == LARGE
    rows = await journal_of(bureau, result.state.id)
    assert digest_of(LARGE) in rows
    assert len(rows) < 6_000
    assert await bureau.store.blobs.held(RunKey("default", result.state.id)) == {digest_of(LARGE)}


async def test_the_journal_does_not_grow_with_the_pictures() -> None:
    async def lengths(size: int) -> list[int]:
        @Agent(spec=AgentExecutionSpec(name="camera", recovery=DURABLE))
        class Camera:
            """Take pictures."""

            @agent_tool(effects=ToolEffects.read_only())
            async def photograph(self, count: int) -> MediaPart:
                """Take a picture."""
                return MediaPart.of(png(note=str(count).encode() + b"x" * size))

        bureau = Bureau()
        model = ScriptedModel(
            [*(calls("photograph", {"count": each}) for each in range(10, 20)), says("Done.")]
        )
        async with bureau.process(Camera, None, bureau.store.blobs, model=model) as runs:
            result = await started(runs, Camera, asks(MediaPart.of(png(note=b"x" * size))))
            await runs.verify(result.state.id)
        assert len(media_in(model.requests[-1].messages)) == 11
        return [len(str((row.record, row.view, row.events))) for row in await bureau.rows(result.state.id)]

    small, large = await lengths(1_000), await lengths(200_000)
    assert len(small) == len(large)
    # The number of bytes has more digits, once in each record and view.
    assert sum(large) - sum(small) < 100 * len(small)
    assert max(large) < 6_000


async def test_what_is_stored_is_sealed() -> None:
    bureau = Bureau()
    async with bureau.process(
        Viewer, None, bureau.store.blobs, model=ScriptedModel([says("A cat.")])
    ) as runs:
        await started(runs, Viewer, asks(MediaPart.of(CAT)))
    stored = await bureau.store.blobs.get("default", digest_of(CAT))
    assert stored.key_id is not None
    assert b"cat" not in stored.content


async def test_media_in_the_result_of_a_tool_reach_the_model() -> None:
    bureau = Bureau()
    script = [calls("photograph", {"count": 7}), calls("draw", {"what": "a tree"}), says("Seen.")]
    model = ScriptedModel(script)
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        result = await started(runs, Viewer, asks())
        await runs.verify(result.state.id)
    assert result.output == "Seen."
    (photo,) = media_of(model.requests[1].messages[-1])
    assert (b64decode(photo.data or ""), photo.media_type, photo.name) == (
        png(note=b"7"),
        "image/png",
        "7.png",
    )
    drawn = model.requests[2].messages[-1]
    assert drawn.text == "drew a tree"
    assert [b64decode(part.data or "") for part in media_of(drawn)] == [png(note=b"a tree")]
    assert len(media_of(model.requests[2].messages[-3])) == 1
    assert "iVBOR" not in await journal_of(bureau, result.state.id)


async def test_a_result_that_is_no_picture_is_an_error_for_the_model() -> None:
    bureau, model = Bureau(), ScriptedModel([calls("fake", {}), says("No picture.")])
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        result = await started(runs, Viewer, asks())
    told = model.requests[1].messages[-1]
    assert told.is_error
    assert "a program" in told.text
    assert result.output == "No picture."


async def test_a_reply_that_is_a_picture_is_an_artifact() -> None:
    bureau = Bureau()
    async with bureau.process(Viewer, None, bureau.store.blobs, model=Painter()) as runs:
        result = await started(runs, Viewer, asks())
        shown = await runs.result(result.state.id)
    given = {"media_type": "image/png", "digest": digest_of(CAT), "size": len(CAT)}
    part = {"media_type": None, "url": None, "data": None, "name": None, **given}
    assert result.artifacts == shown.artifacts == {"media": [part]}
    assert await bureau.store.blobs.held(RunKey("default", result.state.id)) == {digest_of(CAT)}


@pytest.mark.parametrize(
    ("part", "error", "why"),
    [
        (MediaPart.of(b"GIF89a", "image/png"), MediaBrokenError, "it ends within its header"),
        (MediaPart.of(CAT[:-4], "image/png"), MediaBrokenError, "ends within chunk 'IEND'"),
        (MediaPart.of(b"PK\x03\x04rest", "application/pdf"), MediaTypeRefusedError, "an archive"),
        (MediaPart.of(b"<svg onload='x()'/>", "image/png"), MediaTypeRefusedError, "an SVG"),
        (MediaPart.of(png(50_000, 50_000)), MediaTooLargeError, "50,000 x 50,000 pixels"),
        (MediaPart.of(wav(2)), MediaTooLargeError, "of 2 seconds"),
        (MediaPart("image/png", data="no base64!"), MediaBrokenError, "no base64"),
        (MediaPart("image/png", url="https://example.org/a.png"), MediaTypeRefusedError, "at an address"),
    ],
)
async def test_what_is_not_taken_is_refused_before_anything_is_written(
    part: MediaPart, error: type[Exception], why: str
) -> None:
    @Agent(
        spec=AgentExecutionSpec(
            name="strict", recovery=DURABLE, media_limits=MediaSafetyLimits(max_seconds=1)
        )
    )
    class Strict:
        """Say what you see."""

    bureau = Bureau()
    async with bureau.process(Strict, None, bureau.store.blobs, model=ScriptedModel([])) as runs:
        with pytest.raises(error, match=why):
            await runs.start(Strict, asks(part))
        assert not (await runs.list()).runs
    assert not bureau.store.tables.media.contents


async def test_a_second_start_with_the_same_media_attaches() -> None:
    bureau = Bureau()
    async with bureau.process(
        Viewer, None, bureau.store.blobs, model=ScriptedModel([says("A cat.")])
    ) as runs:
        first = await runs.start(Viewer, asks(MediaPart.of(CAT)), id="one")
        second = await runs.start(Viewer, asks(MediaPart.of(CAT, "image/png")), id="one")
        assert first.id == second.id
        await first.result()


async def test_media_that_are_stored_are_given_by_their_digest() -> None:
    bureau, model = Bureau(), ScriptedModel([says("A cat."), says("The same.")])
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        await started(runs, Viewer, asks(MediaPart.of(CAT)))
        again = MediaPart("image/jpeg", digest=digest_of(CAT))
        result = await started(runs, Viewer, asks(again, state_id="again"))
    (shown,) = media_of(model.requests[1].messages[-1])
    assert (shown.media_type, b64decode(shown.data or "")) == ("image/png", CAT)
    assert await bureau.store.blobs.held(RunKey("default", result.state.id)) == {digest_of(CAT)}


@pytest.mark.parametrize("agent", [Viewer])
async def test_a_crash_at_any_commit_repeats_nothing_and_sends_equal_bytes(agent: type[object]) -> None:
    requests: dict[str, set[str]] = {}

    class Recording(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            sent = json.dumps(to_json_value(request.messages))
            requests.setdefault(str(len(request.messages)), set()).add(sent)
            async for event in super().stream(request):
                yield event

    script = [calls("photograph", {"count": 7}), calls("draw", {"what": "a tree"}), says("Seen.")]
    model = Recording(script, by_transcript=True)
    report = await crash_matrix(agent, asks(MediaPart.of(CAT)), model=model)
    assert report.reference.output == "Seen."
    assert report.points > 6
    report.assert_no_repeated_effects()
    assert [len(each) for each in requests.values()] == [1, 1, 1]


@pytest.fixture(params=["memory", "sqlite", "folder"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield MemoryStore()
        return
    folder = str(tmp_path / "blobs") if request.param == "folder" else None
    settings = DatabaseSettings(f"sqlite:///{tmp_path / 'runs.db'}", blobs_folder=folder)
    with SqlAlchemyStore.open(settings) as opened:
        yield opened


@asynccontextmanager
async def application(store: Any, model: IAgentModel) -> AsyncIterator[AgentRuns]:
    app = Application("gallery").add(Viewer, *store.ports, model)
    if not isinstance(store, MemoryStore):
        app.add(MemorySealer(b"the key of the gallery"))
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


async def test_media_that_two_runs_share_are_there_until_both_are_erased(store: Any) -> None:
    model = ScriptedModel([says("A cat."), says("A cat.")])
    async with application(store, model) as runs:
        first = await started(runs, Viewer, asks(MediaPart.of(CAT)))
        second = await started(runs, Viewer, asks(MediaPart.of(CAT), state_id="again"))
        one, other = (RunKey("default", each.state.id) for each in (first, second))
        await store.retention.erase(one)
        assert await store.blobs.held(one) == frozenset()
        assert await store.blobs.get("default", digest_of(CAT))
        await runs.verify(other.run_id)
        await store.retention.erase(other)
        with pytest.raises(MediaNotFoundError):
            await store.blobs.get("default", digest_of(CAT))
        await runs.verify(other.run_id)


async def test_a_fork_has_its_media_after_the_first_run_is_gone(store: Any) -> None:
    model = ScriptedModel([calls("photograph", {"count": 7}), says("Seen."), says("Seen again.")])
    async with application(store, model) as runs:
        first = await started(runs, Viewer, asks(MediaPart.of(CAT)))
        rows = [row async for row in store.journal.read(RunKey("default", first.state.id))]
        at = next(row.seq for row in rows if "tool" in row.action_id and row.stage is JournalStage.AFTER)
        fork = await runs.fork(first.state.id, at=at)
        later = datetime.now(UTC) + timedelta(days=2)
        await store.retention.erase(RunKey("default", first.state.id))
        result = await (await runs.resume(fork.id)).result()
        assert result.output == "Seen again."
        assert await store.retention.prune("default", ended_before=later) == 2
        assert await store.blobs.held(RunKey("default", fork.id)) == frozenset()
    seen = [b64decode(part.data or "") for part in media_in(model.requests[-1].messages)]
    assert seen == [CAT, png(note=b"7")]
    for content in seen:
        with pytest.raises(MediaNotFoundError):
            await store.blobs.get("default", digest_of(content))


async def test_verify_finds_media_that_were_changed(store: Any) -> None:
    async with application(store, ScriptedModel([says("A cat.")])) as runs:
        result = await started(runs, Viewer, asks(MediaPart.of(CAT)))
        await runs.verify(result.state.id)
        run = RunKey("default", result.state.id)
        await store.blobs.release(run)
        with pytest.raises(DamagedEntryError, match=f"there are no media '{digest_of(CAT)[:12]}'"):
            await runs.verify(result.state.id)
        await store.blobs.put("default", digest_of(CAT), StoredBlob(LARGE), held_by=run)
        with pytest.raises(DamagedEntryError, match="not those that were stored"):
            await runs.verify(result.state.id)
