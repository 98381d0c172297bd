"""The code of an agent and of its tools reads media, in every mode of running; inputs of any type may have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pilotage import Agent, AgentExecutionSpec, ToolEffects, agent_tool
from pilotage.agent import MediaPart, RunKey
from pilotage.errors import AgentDefinitionError, MediaBrokenError, MediaNotFoundError
from pilotage.runtime import AgentRunner, media_bytes
from pilotage.testing import ScriptedModel, crash_matrix
from tests.behaviour.bureau import DURABLE, Bureau, started
from tests.media.pictures import png
from tests.media.test_media_in_runs import CAT, LARGE, digest_of, journal_of


@dataclass(frozen=True)
class Order:
    """A picture that is to be framed."""

    photo: MediaPart
    copies: int = 1


@dataclass(frozen=True)
class Framed:
    """The picture in its frame."""

    picture: MediaPart
    of: int


class Framing:
    """Frames pictures."""

    @agent_tool(effects=ToolEffects.read_only())
    async def frame(self, photo: MediaPart) -> Framed:
        """Frame a picture."""
        content = await media_bytes(photo)
        return Framed(MediaPart.of(png(note=b"frame " + str(len(content)).encode())), len(content))

    async def execute(self, order: Order) -> Framed:
        first = await self.frame(order.photo)
        return await self.frame(first.picture) if order.copies > 1 else first


@Agent(spec=AgentExecutionSpec(name="framer", recovery=DURABLE))
class Framer(Framing):
    """Frame pictures, and remember it."""


@Agent(spec=AgentExecutionSpec(name="passing-framer"))
class PassingFramer(Framing):
    """Frame pictures, and forget it."""


FRAMED = png(note=b"frame " + str(len(CAT)).encode())
JSON: dict[str, Any] = {"photo": {"media_type": "image/jpeg", "data": MediaPart.of(CAT).data}}


@pytest.mark.parametrize("given", [Order(MediaPart.of(CAT)), JSON, {"order": JSON}])
async def test_an_input_of_any_type_may_have_media(given: object) -> None:
    bureau = Bureau()
    async with bureau.process(Framer, None, bureau.store.blobs) as runs:
        result = await started(runs, Framer, given)
        await runs.verify(result.state.id)
        assert await runs.media(result.state.id, digest_of(FRAMED)) is not None
    assert result.output == Framed(
        MediaPart("image/png", digest=digest_of(FRAMED), size=len(FRAMED)), len(CAT)
    )
    rows = await journal_of(bureau, result.state.id)
    assert "iVBOR" not in rows
    held = await bureau.store.blobs.held(RunKey("default", result.state.id))
    assert held == {digest_of(CAT), digest_of(FRAMED)}


async def test_the_same_in_a_run_that_is_not_recorded() -> None:
    bureau = Bureau()
    async with bureau.process(PassingFramer, None, bureau.store.blobs) as runs:
        runner = AgentRunner.for_agent_instance(runs.services.app.get(PassingFramer))
        framed = (await (await runner.open(Order(MediaPart.of(CAT, "text/plain")))).result()).output
        assert (framed.of, await media_bytes(framed.picture)) == (len(CAT), FRAMED)
        with pytest.raises(MediaBrokenError):
            await runner.open(Order(MediaPart.of(CAT[:30])))
    assert not bureau.store.tables.media.contents


async def test_a_crash_at_any_commit_changes_nothing() -> None:
    report = await crash_matrix(Framer, Order(MediaPart.of(LARGE), copies=2), model=ScriptedModel([]))
    assert report.points > 3
    assert isinstance(report.reference.output, Framed)
    report.assert_no_repeated_effects()


@Agent(spec=AgentExecutionSpec(name="printer", recovery=DURABLE))
class Printer:
    """Answers with a file."""

    async def execute(self, words: str) -> MediaPart:
        return MediaPart.of(words.encode(), "text/csv", "list.csv")


async def test_an_answer_that_is_a_file_is_downloaded() -> None:
    bureau, words = Bureau(), "a,b\n1,2\n" * 500
    async with bureau.process(Printer, None, bureau.store.blobs) as runs:
        result = await started(runs, Printer, words)
        found = await runs.media(result.state.id, digest_of(words.encode()))
    part = MediaPart("text/csv", name="list.csv", digest=digest_of(words.encode()), size=len(words))
    assert (result.output, found.content, found.media_type) == (part, words.encode(), "text/plain")


async def test_outside_of_a_run_only_bytes_are_read() -> None:
    assert await media_bytes(MediaPart.of(CAT)) == CAT
    for part in (
        MediaPart("image/png", digest=digest_of(CAT)),
        MediaPart("image/png", url="https://a.example"),
    ):
        with pytest.raises(MediaNotFoundError):
            await media_bytes(part)


async def test_an_upload_is_the_input_of_a_later_run() -> None:
    bureau = Bureau()
    async with bureau.process(Framer, None, bureau.store.blobs) as runs:
        part = await runs.upload(CAT, name="cat.png")
        assert part == MediaPart("image/png", name="cat.png", digest=digest_of(CAT), size=len(CAT))
        assert (await started(runs, Framer, Order(part))).output.of == len(CAT)
        with pytest.raises(MediaBrokenError):
            await runs.upload(b"")


async def test_without_a_store_of_media_the_rows_have_the_bytes() -> None:
    bureau = Bureau()
    async with bureau.process(Framer) as runs:
        result = await started(runs, Framer, Order(MediaPart.of(CAT)))
        assert result.output.picture.data is not None
        with pytest.raises(MediaNotFoundError, match="nothing provides IBlobs"):
            await runs.upload(CAT)


def test_a_part_has_one_source() -> None:
    for wrong in (
        {"url": "x", "data": "y"},
        {"data": "x", "digest": "0" * 64},
        {"digest": "0"},
        {"data": "x", "size": -1},
    ):
        with pytest.raises(AgentDefinitionError):
            MediaPart("image/png", **wrong)  # type: ignore[arg-type]
