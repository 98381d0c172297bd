"""The stream of a model as neutral events: each call once, with arguments and end; the reply they add up to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pilotage.agent.messages import ModelMessage, ModelToolCall, ReasoningPart, TextPart
from pilotage.agent.model_reply import (
    ModelError,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_reply import ModelStreamEventKind as Kind
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.agent.model_stream import (
    ModelEventProjector,
    ReplyAssembly,
    call_id_at,
    whole_replies,
    with_output,
)
from pilotage.errors import AgentStructuredOutputError, ModelCallError

BY = AgentEventAttribution("clerk", "run-1", "talk-1")


def token(text: str) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOKEN_DELTA, token_delta=text, metadata={"logprob": -1})


def start(call_id: str | None, name: str = "pay") -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOOL_CALL_START, tool_call=ModelToolCall(name, {}, call_id))


def piece(call_id: str | None, text: str) -> ModelStreamEvent:
    call = ModelToolCall("pay", {}, call_id)
    return ModelStreamEvent(Kind.TOOL_CALL_ARGS_DELTA, tool_call=call, tool_call_args_delta=text)


def end(call_id: str | None) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.TOOL_CALL_END, tool_call=ModelToolCall("pay", {}, call_id))


def whole(call_id: str | None, name: str = "pay", amount: int = 5) -> ModelStreamEvent:
    call = ModelToolCall(name, {"amount": amount}, call_id)
    return ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=call)


def done(*calls: ModelToolCall) -> ModelStreamEvent:
    return ModelStreamEvent(Kind.DONE, response=ModelResponse("", tool_calls=calls))


def told(*events: ModelStreamEvent) -> list[AgentEvent]:
    projector = ModelEventProjector(BY, "m", "r")
    return [shown for event in events for shown in projector.project(event)]


def one_call(call_id: str, *pieces: str, name: str = "pay") -> list[AgentEvent]:
    return [
        ToolCallStartEvent(BY, call_id, name, "m"),
        *(ToolCallArgsDeltaEvent(BY, call_id, each) for each in pieces),
        ToolCallEndEvent(BY, call_id),
    ]


FIVE = '{"amount":5}'
STREAMS: list[tuple[str, list[ModelStreamEvent], list[AgentEvent]]] = [
    (
        "text",
        [token("Hel"), token("lo")],
        [MessageDeltaEvent(BY, "m", "Hel"), MessageDeltaEvent(BY, "m", "lo")],
    ),
    (
        "whole messages",
        [ModelStreamEvent(Kind.MESSAGE_DELTA, message_delta="Hello")],
        [MessageDeltaEvent(BY, "m", "Hello")],
    ),
    (
        "reasoning",
        [ModelStreamEvent(Kind.REASONING_DELTA, reasoning_delta="hm")],
        [ReasoningDeltaEvent(BY, "r", "hm")],
    ),
    ("empty deltas", [token(""), ModelStreamEvent(Kind.TOKEN_DELTA), piece("a", "")], []),
    (
        "kinds that are no public text",
        [
            ModelStreamEvent(Kind.PROGRESS),
            ModelStreamEvent(Kind.STRUCTURED_OUTPUT, structured_output={"a": 1}),
            ModelStreamEvent(Kind.ERROR, error=ModelError("E", "broken")),
            ModelStreamEvent(Kind.APPROVAL_REQUIRED),
            done(),
        ],
        [],
    ),
    (
        "streamed call",
        [start("a"), piece("a", '{"amount"'), piece("a", ":5}"), end("a"), whole("a"), done()],
        one_call("a", '{"amount"', ":5}"),
    ),
    ("bare call", [whole("a"), done()], one_call("a", FIVE)),
    ("call without its end", [start("a"), piece("a", FIVE), whole("a")], one_call("a", FIVE)),
    ("call without its arguments", [start("a"), end("a"), whole("a")], one_call("a", FIVE)),
    ("call announced only", [start("a"), whole("a")], one_call("a", FIVE)),
    (
        "call announced twice",
        [start("a"), start("a"), piece("a", FIVE), end("a"), end("a")],
        one_call("a", FIVE),
    ),
    ("call left open", [start("a"), piece("a", "{"), done()], one_call("a", "{")),
    (
        "call that only the reply completes",
        [start("a"), end("a"), done(ModelToolCall("pay", {"amount": 5}, "a"))],
        one_call("a", FIVE),
    ),
    ("call that only the reply has", [done(ModelToolCall("pay", {"amount": 5}, "a"))], one_call("a", FIVE)),
    (
        "call that the reply has in front of another",
        [
            whole("b"),
            done(ModelToolCall("pay", {"amount": 5}, "a"), ModelToolCall("pay", {"amount": 5}, "b")),
        ],
        [*one_call("b", FIVE), *one_call("a", FIVE)],
    ),
    (
        "call that the reply repeats",
        [whole("a"), done(ModelToolCall("pay", {"amount": 5}, "a"))],
        one_call("a", FIVE),
    ),
    (
        "calls side by side",
        [
            start("a"),
            start("b", "look"),
            piece("b", "{}"),
            piece("a", "{"),
            end("b"),
            piece("a", "}"),
            end("a"),
        ],
        [
            ToolCallStartEvent(BY, "a", "pay", "m"),
            ToolCallStartEvent(BY, "b", "look", "m"),
            ToolCallArgsDeltaEvent(BY, "b", "{}"),
            ToolCallArgsDeltaEvent(BY, "a", "{"),
            ToolCallEndEvent(BY, "b"),
            ToolCallArgsDeltaEvent(BY, "a", "}"),
            ToolCallEndEvent(BY, "a"),
        ],
    ),
    (
        "calls without ids",
        [start(None), piece(None, FIVE), end(None), whole(None), whole(None, amount=6), done()],
        [*one_call("m:call-1", FIVE), *one_call("m:call-2", '{"amount":6}')],
    ),
    (
        "calls without ids, whole at the end",
        [
            start(None),
            piece(None, "1"),
            end(None),
            start(None),
            piece(None, "2"),
            end(None),
            whole(None),
            whole(None),
        ],
        [*one_call("m:call-1", "1"), *one_call("m:call-2", "2")],
    ),
    (
        "pieces that do not say to which call",
        [start("a"), ModelStreamEvent(Kind.TOOL_CALL_ARGS_DELTA, tool_call_args_delta=FIVE), end("a")],
        one_call("a", FIVE),
    ),
    (
        "one id for two calls",
        [whole("a"), whole("a", amount=6)],
        [*one_call("a", FIVE), *one_call(call_id_at("m", 2), '{"amount":6}')],
    ),
    (
        "a piece of a call that is over",
        [start("a"), piece("a", FIVE), end("a"), piece("a", "x")],
        one_call("a", FIVE),
    ),
]


@pytest.mark.parametrize(
    ("events", "expected"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS]
)
def test_a_stream_is_told_as_its_events(events: list[ModelStreamEvent], expected: list[AgentEvent]) -> None:
    assert told(*events) == expected


steps = st.builds(
    lambda make, call_id: make(call_id),
    st.sampled_from([start, end, whole, lambda call_id: piece(call_id, "x")]),
    st.sampled_from(["a", "b", None]),
)


@given(events=st.lists(steps, max_size=12))
def test_whatever_a_model_sends_each_call_begins_once_has_arguments_and_ends_once(
    events: list[ModelStreamEvent],
) -> None:
    shown = told(*events, done(ModelToolCall("pay", {}, "z")))
    state: dict[str, str] = {}
    for event in shown:
        match event:
            case ToolCallStartEvent(call_id=call_id):
                assert call_id not in state
                state[call_id] = "begun"
            case ToolCallArgsDeltaEvent(call_id=call_id):
                assert state[call_id] == "begun"
            case ToolCallEndEvent(call_id=call_id):
                assert state[call_id] == "begun"
                state[call_id] = "ended"
            case _:
                pytest.fail(f"unexpected {event}")
    assert set(state.values()) <= {"ended"}


def test_arguments_are_sent_as_compact_json() -> None:
    call = ModelToolCall("pay", {"to": "Zoë", "amount": 5}, "a")
    (_, arguments, _) = told(ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=call))
    assert isinstance(arguments, ToolCallArgsDeltaEvent)
    assert arguments.args_delta == '{"amount":5,"to":"Zoë"}'
    assert json.loads(arguments.args_delta) == call.arguments


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
            ModelResponse.of([ReasoningPart("hm"), TextPart("Yes.")]),
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
