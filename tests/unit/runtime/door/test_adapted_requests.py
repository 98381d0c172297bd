"""Requests for models that can do less."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.door.model import adapted_request, answer_of, found_in, needs_adapting


@dataclass(frozen=True)
class Journey:
    city: str
    days: int


@agent_tool
def lookup(key: str) -> str:
    """Look a word up."""
    return key


SPEC = StructuredOutputSpec.from_type(Journey)
FULL = ModelCapability("full")
WORDY = ModelCapability("wordy", structured_output=False)
SINGLE = ModelCapability("single", parallel_tool_calls=False)
RULE, QUESTION = ModelMessage.system("Be brief."), ModelMessage.user("Plan.")
A, B = ModelToolCall("lookup", {"key": "a"}, "1"), ModelToolCall("lookup", {"key": "b"}, "2")
FOUND_A, FOUND_B = ModelMessage.tool("1", "found a"), ModelMessage.tool("2", "found b")


@pytest.mark.parametrize(("capability", "lesser"), [(FULL, False), (WORDY, True), (SINGLE, True)])
def test_a_model_that_can_everything_is_asked_as_it_is(capability: ModelCapability, lesser: bool) -> None:
    assert needs_adapting(capability) is lesser


def test_a_form_is_asked_for_in_words_behind_the_instructions() -> None:
    put = adapted_request(ModelRequest([RULE, QUESTION], output=SPEC), WORDY)
    first, note, last = put.messages
    assert (first, last, put.structured_output) == (RULE, QUESTION, None)
    assert note.text.startswith(
        "Answer with JSON only, without any other word, that fits this JSON schema:\n{"
    )
    assert '"city"' in note.text


def test_where_there_are_tools_the_form_is_that_of_the_answer() -> None:
    request = ModelRequest([QUESTION], output=SPEC, tools=ToolCallingSpec.from_tools([lookup]))
    put = adapted_request(request, WORDY)
    assert put.messages[0].text.startswith("When you call no tool, answer with JSON only")
    assert put.tool_calling is request.tool_calling


def test_calls_that_were_made_at_once_are_shown_one_by_one() -> None:
    both = ModelMessage.assistant("Let me see.", [A, B])
    put = adapted_request(ModelRequest([QUESTION, both, FOUND_B, FOUND_A, ModelMessage.user("And?")]), SINGLE)
    assert list(put.messages) == [
        QUESTION,
        ModelMessage.assistant("Let me see.", [A]),
        FOUND_A,
        ModelMessage.assistant("", [B]),
        FOUND_B,
        ModelMessage.user("And?"),
    ]


def test_a_call_that_was_not_answered_yet_stays_without_a_result() -> None:
    put = adapted_request(ModelRequest([QUESTION, ModelMessage.assistant("", [A, B]), FOUND_A]), SINGLE)
    assert list(put.messages)[1:] == [
        ModelMessage.assistant("", [A]),
        FOUND_A,
        ModelMessage.assistant("", [B]),
    ]


@pytest.mark.parametrize(
    "request_",
    [
        ModelRequest([RULE, QUESTION]),
        ModelRequest([QUESTION, ModelMessage.assistant("", [A]), FOUND_A]),
    ],
)
@pytest.mark.parametrize("capability", [WORDY, SINGLE])
def test_what_the_model_can_read_is_not_touched(request_: ModelRequest, capability: ModelCapability) -> None:
    assert adapted_request(request_, capability) is request_


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1, 2]\n", [1, 2]),
        ("5", 5),
        ('Here it is:\n```json\n{"a": 1}\n```\nGood luck!', {"a": 1}),
        ("```\n[1]\n```", [1]),
        ('Sure! {"a": {"b": 2}} Anything else?', {"a": {"b": 2}}),
        ('I [think] it is {"a": 1}', {"a": 1}),
    ],
)
def test_json_is_found_in_what_a_model_says(text: str, found: JsonValue) -> None:
    assert found_in(text) == found


def test_a_text_without_json_is_no_answer() -> None:
    with pytest.raises(AgentStructuredOutputError, match="there is no JSON in the answer"):
        answer_of(ModelResponse("Oslo {for} three days"), SPEC)


def test_an_answer_is_decoded() -> None:
    response = answer_of(
        ModelResponse('{"city": "Oslo", "days": 3}', finish_reason=ModelFinishReason.STOP), SPEC
    )
    assert response.output == Journey("Oslo", 3)


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse("", tool_calls=[A], finish_reason=ModelFinishReason.TOOL_CALLS),
        ModelResponse('{"city": "Os', finish_reason=ModelFinishReason.LENGTH),
        ModelResponse("No.", finish_reason=ModelFinishReason.REFUSAL),
        ModelResponse(""),
    ],
)
def test_what_is_no_answer_stays_as_it_is(response: ModelResponse) -> None:
    assert answer_of(response, SPEC) is response
