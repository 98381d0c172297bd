"""The reply that the events of a stream add up to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import (
    ModelError,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.agent.model_stream import ReplyAssembly, whole_replies, with_output
from pilotage.errors import AgentStructuredOutputError, ModelCallError

Kind = ModelStreamEventKind
DONE = ModelStreamEvent(Kind.DONE)
CALL, OTHER = ModelToolCall("pay", {"amount": 1}, "c1"), ModelToolCall("pay", {"amount": 2}, "c2")


@dataclass(frozen=True)
class Offer:
    amount: int


SPEC = StructuredOutputSpec.from_type(Offer)


def text(piece: str) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOKEN_DELTA, token_delta=piece)


def called(call: ModelToolCall) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=call)


def announced(call: ModelToolCall) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOOL_CALL_START, tool_call=call)


def structured(output: dict[str, int]) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.STRUCTURED_OUTPUT, structured_output=output)


def reply_of(*events: ModelStreamEvent, spec: StructuredOutputSpec | None = None) -> ModelResponse:
    assembly = ReplyAssembly()
    for event in events:
        assembly.add(event)
    return assembly.reply(events[-1], spec)


@pytest.mark.parametrize(
    ("events", "reply"),
    [
        ([DONE], ModelResponse("")),
        ([text("Good "), text("day."), DONE], ModelResponse("Good day.")),
        (
            [text("Good "), ModelStreamEvent(Kind.MESSAGE_DELTA, message_delta="day."), DONE],
            ModelResponse("Good day."),
        ),
        (
            [ModelStreamEvent(Kind.REASONING_DELTA, reasoning_delta="hm"), text("Yes."), DONE],
            ModelResponse("Yes."),
        ),
        ([called(CALL), called(OTHER), DONE], ModelResponse("", tool_calls=(CALL, OTHER))),
        ([announced(CALL), called(CALL), DONE], ModelResponse("", tool_calls=(CALL,))),
        ([structured({"amount": 1}), DONE], ModelResponse("", {"amount": 1})),
        (
            [ModelStreamEvent(Kind.DONE, structured_output={"amount": 2})],
            ModelResponse("", {"amount": 2}),
        ),
        (
            [ModelStreamEvent(Kind.PROGRESS, usage=ModelUsage(1, 2, 3)), DONE],
            ModelResponse("", usage=ModelUsage(1, 2, 3)),
        ),
        (
            [text("a"), ModelStreamEvent(Kind.DONE, usage=ModelUsage(4, 5, 9), metadata={"server": "x"})],
            ModelResponse("a", usage=ModelUsage(4, 5, 9), metadata={"server": "x"}),
        ),
        ([text("a"), ModelStreamEvent(Kind.DONE, response=ModelResponse("b"))], ModelResponse("b")),
    ],
)
def test_the_reply_is_what_the_events_said(events: Sequence[ModelStreamEvent], reply: ModelResponse) -> None:
    assert reply_of(*events) == reply


def test_a_structured_output_is_decoded_into_the_type_that_was_asked_for() -> None:
    assert reply_of(structured({"amount": 1}), DONE, spec=SPEC).output == Offer(1)
    whole = ModelStreamEvent(Kind.DONE, response=ModelResponse("", {"amount": 2}))
    assert reply_of(whole, spec=SPEC).output == Offer(2)
    decoded = ModelResponse("", {"amount": 2}, output=Offer(3))
    assert with_output(decoded, SPEC) is decoded


def test_a_structured_output_of_another_type_is_refused() -> None:
    with pytest.raises(AgentStructuredOutputError):
        reply_of(ModelStreamEvent(Kind.STRUCTURED_OUTPUT, structured_output={"n": 1}), DONE, spec=SPEC)


def test_a_call_that_never_came_whole_is_a_failure() -> None:
    with pytest.raises(ModelCallError, match="'pay'.*TOOL_CALL_CANDIDATE") as raised:
        reply_of(announced(CALL), announced(OTHER), called(CALL), DONE)
    assert not raised.value.retryable


@pytest.mark.parametrize("retryable", [True, False])
def test_an_error_event_is_a_failure_with_its_words(retryable: bool) -> None:
    error = ModelStreamEvent(Kind.ERROR, error=ModelError("quota", "used up", retryable))
    with pytest.raises(ModelCallError, match="used up") as raised:
        reply_of(text("Good"), error)
    assert (raised.value.retryable, raised.value.failure) == (retryable, "quota")


def test_an_error_event_without_an_error_is_one_all_the_same() -> None:
    with pytest.raises(ModelCallError, match="without saying which"):
        reply_of(ModelStreamEvent(Kind.ERROR))


async def test_a_stream_is_passed_on_with_the_whole_reply_at_its_end_and_closed() -> None:
    closed: list[bool] = []

    async def stream() -> AsyncIterator[ModelStreamEvent]:
        try:
            yield text("Good day.")
            yield DONE
        finally:
            closed.append(True)

    request = ModelRequest([ModelMessage.user("Hello")])
    events = [event async for event in whole_replies(stream(), request)]
    assert events == [text("Good day."), ModelStreamEvent(Kind.DONE, response=ModelResponse("Good day."))]
    assert events[-1].is_final
    assert closed
