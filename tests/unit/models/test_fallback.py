"""Several models as one: who is asked, and who answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest, ToolCallingSpec
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.models import Condition, FallbackCondition, FallbackModel
from pilotage.models.fallback import joint_capability
from pilotage.testing import ScriptedModel, fails, says
from pilotage.testing.script import ScriptedTurn

On = FallbackCondition


class OverloadedError(ModelCallError):
    """An adapter's own kind of failure."""


class BusyModel(ScriptedModel):
    """Fails in the way of its adapter."""

    def _take(self, request: ModelRequest) -> ScriptedTurn:
        raise OverloadedError("too many requests")


@agent_tool
def lookup(key: str) -> str:
    """Look a word up."""
    return key


HELLO = ModelRequest([ModelMessage.user("hello")])
WITH_TOOLS = ModelRequest([ModelMessage.user("hello")], tools=ToolCallingSpec.from_tools([lookup]))


def named(name: str, *turns: ScriptedTurn) -> ScriptedModel:
    return ScriptedModel(turns, capability=ModelCapability(name))


REFUSES = says("", finish_reason=ModelFinishReason.REFUSAL)
FILTERED = says("", finish_reason=ModelFinishReason.CONTENT_FILTER)


async def answer_of(model: FallbackModel, *, streams: bool, request: ModelRequest = HELLO) -> str:
    if not streams:
        return (await model.complete(request)).content
    return "".join([event.text async for event in model.stream(request) if event.is_text_delta])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("turn", "on", "answer"),
    [
        (says("one"), [On.RETRYABLE], "one"),
        (fails("busy", retryable=True), [On.RETRYABLE], "two"),
        (fails("busy", retryable=True), [On.FAILED], "two"),
        (fails("wrong key"), [On.FAILED], "two"),
        (REFUSES, [On.REFUSED], "two"),
        (FILTERED, [On.FILTERED], "two"),
        (REFUSES, [On.FILTERED], ""),
        (FILTERED, [On.FAILED], ""),
    ],
)
async def test_the_next_model_is_asked_where_a_condition_says_so(
    turn: ScriptedTurn, on: Collection[Condition], answer: str, streams: bool
) -> None:
    model = FallbackModel([named("one", turn), named("two", says("two"))], on=on)
    assert await answer_of(model, streams=streams) == answer


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("turn", "on"), [(fails("wrong key"), [On.RETRYABLE]), (fails("busy", retryable=True), [On.REFUSED])]
)
async def test_any_other_failure_is_the_callers(
    turn: ScriptedTurn, on: Collection[Condition], streams: bool
) -> None:
    second = named("two", says("two"))
    with pytest.raises(ModelCallError, match="wrong key|busy"):
        await answer_of(FallbackModel([named("one", turn), second], on=on), streams=streams)
    assert second.requests == []


@pytest.mark.parametrize("streams", [False, True])
async def test_an_adapters_own_kind_of_failure_can_be_a_condition(streams: bool) -> None:
    model = FallbackModel([BusyModel([]), named("two", says("two"))], on=[OverloadedError])
    assert await answer_of(model, streams=streams) == "two"


async def test_a_stream_that_ends_before_it_began_is_passed_over() -> None:
    class Silent(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            for event in ():
                yield event

    model = FallbackModel([Silent([]), named("two", says("two"))])
    assert await answer_of(model, streams=True) == "two"


async def test_once_something_was_said_the_failure_is_the_callers() -> None:
    second = named("two", says("two"))
    model = FallbackModel([named("one", fails("gone", retryable=True, after="Good ")), second])
    stream = aiter(model.stream(HELLO))
    assert (await anext(stream)).text == "Good "
    with pytest.raises(ModelCallError, match="gone"):
        await anext(stream)
    assert second.requests == []


@pytest.mark.parametrize("streams", [False, True])
async def test_a_request_that_a_model_cannot_serve_goes_to_one_that_can(streams: bool) -> None:
    small = ScriptedModel([], capability=ModelCapability("small", tools=False))
    short = ScriptedModel([], capability=ModelCapability("short", context_tokens=1))
    model = FallbackModel([small, short, named("three", says("three"))])
    assert await answer_of(model, streams=streams, request=WITH_TOOLS) == "three"
    assert small.requests == short.requests == []


async def test_the_response_says_who_answered_and_who_did_not() -> None:
    model = FallbackModel([named("one", fails("busy", retryable=True)), named("two", says("two"))])
    response = await model.complete(HELLO)
    assert response.answered_by == "two"
    assert response.metadata["passed_over"] == [{"model": "one", "reason": "model_call_error"}]


async def test_in_a_stream_the_final_event_says_who_answered() -> None:
    model = FallbackModel([named("one", says("one"))])
    *_, final = [event async for event in model.stream(HELLO)]
    assert final.response is not None
    assert final.response.metadata == {"answered_by": "one"}


@pytest.mark.parametrize("streams", [False, True])
async def test_where_nobody_answers_everybodys_reason_is_told(streams: bool) -> None:
    model = FallbackModel(
        [named("one", fails("busy", retryable=True)), named("two", fails("wrong key"))], on=[On.FAILED]
    )
    with pytest.raises(ModelCallError, match="no model answered. 'one': busy; 'two': wrong key") as caught:
        await answer_of(model, streams=streams)
    assert caught.value.retryable


def test_there_must_be_a_model() -> None:
    with pytest.raises(AgentDefinitionError, match="FallbackModel.models is empty"):
        FallbackModel([])


@pytest.mark.parametrize(
    ("of_any", "joint"),
    [
        (True, ModelCapability("a", 200, True, True, True, True, frozenset({"image/png", "audio/wav"}))),
        (False, ModelCapability("a", 100, False, True, False, True, frozenset({"image/png"}))),
    ],
)
def test_several_models_can_what_any_or_what_all_of_them_can(of_any: bool, joint: ModelCapability) -> None:
    one = ModelCapability("a", 100, tools=False, media_types=frozenset({"image/png"}))
    two = ModelCapability(
        "b", 200, structured_output=False, reasoning=True, media_types=frozenset({"image/png", "audio/wav"})
    )
    assert joint_capability([one, two], of_any=of_any) == joint


def test_a_context_that_one_model_does_not_bound_is_not_bounded() -> None:
    one, two = ModelCapability("a", 100), ModelCapability("b")
    assert joint_capability([one, two], of_any=True).context_tokens is None
    assert joint_capability([one, two], of_any=False).context_tokens == 100
