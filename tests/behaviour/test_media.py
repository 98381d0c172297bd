"""Media that an agent does not allow, or that its model does not take, are refused before anything is sent."""

from __future__ import annotations

import pytest
from tests.behaviour.bureau import DURABLE, Bureau, started
from tests.media.pictures import png, wav

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RunAgentInput,
)
from pilotage.agent import MediaPart, MediaSafetyLimits, ModelCapability, ModelSelection, TextPart
from pilotage.errors import AgentDefinitionError, MediaTooLargeError, MediaTypeRefusedError, ModelCallError
from pilotage.models import FallbackModel
from pilotage.runtime import AgentRunner
from pilotage.testing import ScriptedModel, crash_matrix, says


def picture(size: int = 100) -> MediaPart:
    padding = size - len(png(note=b"x")) + 1
    return MediaPart.of(png(note=b"x" * padding), "image/png")


SOUND = MediaPart.of(wav(), "audio/wav")


@Agent(spec=AgentExecutionSpec(name="viewer", recovery=DURABLE))
class Viewer:
    """Say what you see."""


@Agent(spec=AgentExecutionSpec(name="frugal", recovery=DURABLE, media_limits=MediaSafetyLimits(1, 100, 100)))
class Frugal:
    """Say what you see, if it is little."""


@Agent(spec=AgentExecutionSpec(name="passer-by", media_limits=MediaSafetyLimits(max_parts=1)))
class PasserBy:
    """Say what you see, and forget it."""


@Agent(spec=AgentExecutionSpec(name="painter", recovery=DURABLE, media_limits=MediaSafetyLimits(max_parts=2)))
class Painter:
    """Shows its model what it likes."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, count: int) -> str:
        shown = [TextPart("What is this?"), *[picture()] * count]
        try:
            reply = await self.model.complete(ModelRequest([ModelMessage.user(shown)]))
        except ModelCallError as error:
            return f"{error.failure}: {error}"
        return reply.content


@Agent(spec=AgentExecutionSpec(name="curator", recovery=DURABLE, media_limits=MediaSafetyLimits(max_parts=1)))
class Curator:
    """Takes the input of a runner."""

    async def execute(self, run_input: RunAgentInput) -> str:
        return str(len(run_input.attachments))


def sees(*types: str, name: str = "eye") -> ScriptedModel:
    capability = ModelCapability(name, media_types=frozenset(types))
    return ScriptedModel([says("A cat.")], capability=capability, by_transcript=True)


def asks(*parts: MediaPart, model: str | None = None, earlier: tuple[MediaPart, ...] = ()) -> RunAgentInput:
    history = [ModelMessage.user([TextPart("Look."), *earlier])] if earlier else ()
    selection = ModelSelection(model) if model else None
    return RunAgentInput(
        "look", "What is this?", attachments=parts, message_history=history, model_selection=selection
    )


async def test_a_model_gets_the_media_that_it_takes() -> None:
    model = sees("image/*")
    async with Bureau().process(Viewer, model=model) as runs:
        assert (await started(runs, Viewer, asks(picture()))).output == "A cat."
    assert model.requests[0].messages[-1].content == (TextPart("What is this?"), picture())


@pytest.mark.parametrize("given", [asks(SOUND), asks(earlier=(SOUND,))])
async def test_other_media_are_refused_before_anything_is_written(given: RunAgentInput) -> None:
    async with Bureau().process(Viewer, model=sees("image/*")) as runs:
        with pytest.raises(MediaTypeRefusedError, match="'eye' does not take media of type 'audio/wav'"):
            await runs.start(Viewer, given)
        assert not (await runs.list()).runs


async def test_a_model_that_declares_nothing_gets_everything() -> None:
    async with Bureau().process(Viewer, model=ScriptedModel([says("A sound.")])) as runs:
        assert (await started(runs, Viewer, asks(SOUND))).output == "A sound."


async def test_the_selected_model_counts() -> None:
    class Ear(ScriptedModel):
        pass

    ear = Ear([says("A song.")], capability=ModelCapability("ear", media_types=frozenset({"audio/*"})))
    async with Bureau().process(Viewer, None, ear, model=sees("image/*")) as runs:
        with pytest.raises(MediaTypeRefusedError, match="'ear' does not take media of type 'image/png'"):
            await runs.start(Viewer, asks(picture(), model="ear"))
        assert (await started(runs, Viewer, asks(picture(), model="eye"))).output == "A cat."


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((picture(), picture()), "there are 2 media parts; 1 are allowed"),
        ((picture(101),), "has 101 bytes; 100 are allowed"),
    ],
)
async def test_more_than_the_agent_allows_is_refused(parts: tuple[MediaPart, ...], why: str) -> None:
    async with Bureau().process(Frugal, model=sees("image/*")) as runs:
        with pytest.raises(MediaTooLargeError, match=why):
            await runs.start(Frugal, asks(*parts))
        assert not (await runs.list()).runs
        assert (await started(runs, Frugal, asks(picture(100)))).output == "A cat."


async def test_ephemeral_runs_have_the_same_limits() -> None:
    async with Bureau().process(PasserBy, model=sees("image/*")) as runs:
        runner = AgentRunner.for_agent_instance(runs.services.app.get(PasserBy))
        with pytest.raises(MediaTooLargeError):
            _ = [item async for item in runner.run(asks(picture(), picture()))]


async def test_the_input_of_an_agent_with_an_execute_of_its_own_is_checked_too() -> None:
    async with Bureau().process(Curator) as runs:
        with pytest.raises(MediaTooLargeError):
            await runs.start(Curator, asks(picture(), picture()))
        assert (await started(runs, Curator, asks(picture()))).output == "1"


@pytest.mark.parametrize(
    ("model", "count", "answer"),
    [
        (sees("image/*"), 2, "A cat."),
        (
            sees("image/*"),
            3,
            "media_too_large: the model call is not made: there are 3 media parts; 2 are allowed.",
        ),
        (
            sees("audio/*"),
            1,
            "media_type_refused: the model call is not made: 'eye' does not take media of type 'image/png'. It takes "
            "'audio/*'.",
        ),
    ],
)
async def test_a_call_of_a_program_is_checked_before_the_model_is_asked(
    model: ScriptedModel, count: int, answer: str
) -> None:
    async with Bureau().process(Painter, model=model) as runs:
        result = await started(runs, Painter, count)
        await runs.verify(result.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, answer)
    assert len(model.requests) == (1 if answer == "A cat." else 0)


async def test_a_refused_call_is_the_same_after_a_crash() -> None:
    report = await crash_matrix(Painter, 3, model=sees("image/*"), second_stops=(1,))
    assert report.points > 3
    assert "media_too_large" in str(report.reference.output)
    report.assert_no_repeated_effects()


async def test_a_fallback_passes_over_a_model_that_does_not_take_the_media() -> None:
    blind, eye = sees(name="blind"), sees("image/*")
    model = FallbackModel([blind, eye])
    async with Bureau().process(Viewer, model=model) as runs:
        assert (await started(runs, Viewer, asks(picture()))).output == "A cat."
    assert (len(blind.requests), len(eye.requests)) == (0, 1)


@pytest.mark.parametrize("messages", ["junk", [{"role": "nobody"}], [{"role": "user", "content": 5}]])
async def test_messages_that_are_none_are_refused_before_anything_is_written(messages: object) -> None:
    async with Bureau().process(Viewer, model=sees("image/*")) as runs:
        with pytest.raises(AgentDefinitionError, match="Viewer: the messages of the input do not fit"):
            await runs.start(Viewer, {"instruction": "What is this?", "messages": messages})
        assert not (await runs.list()).runs
