"""A scripted reply as a response."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest, StreamingOptions, StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError
from pilotage.models.streaming import final_events
from pilotage.testing.script import ScriptedReply, calls, says
from pilotage.testing.scripted_reply import response_of

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
