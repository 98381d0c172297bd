"""The words of a script."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest, StreamingOptions, StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError
from pilotage.models.streaming import final_events
from pilotage.testing.script import (
    ScriptedFailure,
    ScriptedReply,
    ScriptedThread,
    calls,
    fails,
    read_script,
    response_of,
    says,
    turn,
    when,
)


def test_a_reply_is_text_or_an_output_with_its_json_as_text() -> None:
    assert says("Hello.") == ScriptedReply("Hello.")
    assert says(output={"b": Decimal("1.5"), "a": 1}) == ScriptedReply(
        '{"a":1,"b":"1.5"}', {"a": 1, "b": "1.5"}
    )
    assert says("in words", output=1) == ScriptedReply("in words", 1)


def test_a_call_takes_its_arguments_by_name_or_as_a_mapping() -> None:
    assert calls("pay", to="DE-1", amount=Decimal("12.50")).calls == (
        ModelToolCall("pay", {"to": "DE-1", "amount": "12.50"}),
    )
    assert calls("echo", {"call_id": "7", "text": "a"}, name="b", call_id="c9").calls == (
        ModelToolCall("echo", {"call_id": "7", "text": "a", "name": "b"}, "c9"),
    )


def test_a_turn_may_have_several_parts() -> None:
    both = turn(says("Look: ", reasoning="hm"), calls("a"), calls("b", x=1), says("done"))
    assert both == ScriptedReply(
        "Look: done", None, "hm", (ModelToolCall("a", {}), ModelToolCall("b", {"x": 1}))
    )
    cut = turn(says("a", finish_reason=ModelFinishReason.LENGTH), says(output=1))
    assert (cut.output, cut.finish_reason) == (1, ModelFinishReason.LENGTH)


def test_calls_are_numbered_through_the_script_unless_they_have_an_id() -> None:
    special, plain = read_script(
        [calls("a"), when("x", [calls("b"), calls("c")]), calls("d", call_id="mine"), fails("no"), calls("e")]
    )
    ids = [
        [call.call_id for call in said.calls]
        for thread in (special, plain)
        for said in thread.turns
        if isinstance(said, ScriptedReply)
    ]
    assert ids == [["call-1", "call-2"], ["call-3"], ["mine"], ["call-4"]]
    assert plain.turns[2] == ScriptedFailure("no")


@pytest.mark.parametrize(
    ("thread", "fits"),
    [
        (when("ports", says("a")), True),
        (when("boats", says("a")), False),
        (when(lambda request: len(request.messages) == 2, says("a")), True),
        (when(lambda request: len(request.messages) == 3, says("a")), False),
        (ScriptedThread(None, ()), True),
    ],
)
def test_a_condition_is_a_text_in_the_messages_or_a_function(thread: ScriptedThread, fits: bool) -> None:
    request = ModelRequest([ModelMessage.system("You know ports."), ModelMessage.user("hi")])
    assert thread.fits(request) is fits


HI, BYE = ModelMessage.assistant("hi"), ModelMessage.assistant("bye")
CALLED = ModelMessage.assistant("", [ModelToolCall("a", {"guarded": "[REDACTED]"}, "call-1")])
CALLED_AGAIN = ModelMessage.assistant("", [ModelToolCall("a", {}, "call-2")])


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([], 0),
        ([ModelMessage.user("hi")], 0),
        ([HI], 1),
        ([HI, HI], 2),
        ([HI, CALLED], 3),
        ([CALLED_AGAIN], 5),
        ([HI, HI, CALLED, CALLED_AGAIN, BYE], 6),
        ([BYE], 6),
        ([ModelMessage.assistant("of an earlier run"), HI], 1),
    ],
)
def test_a_transcript_shows_how_far_a_script_has_come(messages: list[ModelMessage], position: int) -> None:
    (thread,) = read_script([says("hi"), says("hi"), calls("a"), fails("no"), calls("a"), says("bye")])
    assert thread.position_in(messages) == position


Kind = ModelStreamEventKind


@dataclass(frozen=True)
class Journey:
    city: str
    days: int


PLAIN = ModelRequest([ModelMessage.user("12345678")])
TYPED = ModelRequest([ModelMessage.user("x")], output=StructuredOutputSpec.from_type(Journey))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (says("a"), ModelFinishReason.STOP),
        (calls("a"), ModelFinishReason.TOOL_CALLS),
        (says("a", finish_reason=ModelFinishReason.LENGTH), ModelFinishReason.LENGTH),
    ],
)
def test_a_response_says_why_it_ended(reply: ScriptedReply, reason: ModelFinishReason) -> None:
    assert response_of(reply, PLAIN).finish_reason is reason


def test_tokens_are_counted_the_same_way_every_time() -> None:
    assert response_of(says("12345", reasoning="1"), PLAIN).usage == ModelUsage(2, 3, 5)
    assert response_of(calls("a", x=1), PLAIN).usage == ModelUsage(2, 2, 4)


def test_the_usage_is_streamed_where_the_request_wants_it() -> None:
    silent = ModelRequest([ModelMessage.user("x")], streaming=StreamingOptions(include_usage=False))
    usages = [
        [event.usage for event in final_events(response_of(says("a"), request), request)]
        for request in (PLAIN, silent)
    ]
    assert usages == [[ModelUsage(2, 1, 3)], [None]]


@pytest.mark.parametrize(
    "reply", [says(output=Journey("Oslo", 3)), says('{"city": "Oslo", "days": 3}')], ids=["output", "text"]
)
def test_an_answer_is_decoded_into_the_type_asked_for(reply: ScriptedReply) -> None:
    response = response_of(reply, TYPED)
    assert response.output == Journey("Oslo", 3)
    events = list(final_events(response, TYPED))
    assert [event.kind for event in events] == [Kind.STRUCTURED_OUTPUT, Kind.DONE]
    assert events[0].structured_output == {"city": "Oslo", "days": 3}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (says("Oslo, I think"), "the answer is no JSON: 'Oslo, I think'."),
        (says(output={"city": "Oslo", "days": "many"}), "the answer is no Journey: "),
    ],
)
def test_an_answer_of_another_type_is_an_error(reply: ScriptedReply, message: str) -> None:
    with pytest.raises(AgentStructuredOutputError) as caught:
        response_of(reply, TYPED)
    assert str(caught.value).startswith(message)
    assert caught.value.problems


@pytest.mark.parametrize("reply", [calls("a"), says("cut of", finish_reason=ModelFinishReason.LENGTH)])
def test_only_an_answer_is_decoded(reply: ScriptedReply) -> None:
    response = response_of(reply, TYPED)
    assert (response.structured_output, response.output) == (None, None)
