"""The stream of a model as neutral events: each call is told once, with its arguments, and is ended."""

from __future__ import annotations

import json

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
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelError, ModelResponse, ModelStreamEvent
from pilotage.agent.model_reply import ModelStreamEventKind as Kind
from pilotage.agent.model_stream import ModelEventProjector, call_id_at

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
