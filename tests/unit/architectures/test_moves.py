"""What comes after a reply, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.architectures.moves import (
    BE_BRIEF,
    GO_ON,
    NOT_CALLED,
    SPEAK,
    AskAgain,
    CallTools,
    Move,
    RefuseTools,
    RetriesLeft,
    Stop,
    StopReason,
    TextAnswer,
    TypedAnswer,
    next_move,
    repair,
)
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue

STOP, CALLS, LENGTH = ModelFinishReason.STOP, ModelFinishReason.TOOL_CALLS, ModelFinishReason.LENGTH
FILTER, REFUSAL = ModelFinishReason.CONTENT_FILTER, ModelFinishReason.REFUSAL
CALL = (ModelToolCall("search", {"query": "po"}, "c1"),)
FULL, NONE = RetriesLeft(), RetriesLeft(0, 0, 0)


@dataclass
class City:
    name: str


CITY = StructuredOutputSpec.from_type(City)
MAYBE_CITY = StructuredOutputSpec.from_type(City | None)


@pytest.mark.parametrize(
    ("content", "calls", "reason", "retries", "move"),
    [
        ("Hello.", (), STOP, FULL, TextAnswer()),
        ("Hello.", (), None, NONE, TextAnswer()),
        ("", CALL, CALLS, FULL, CallTools(CALL)),
        ("Let me look.", CALL, STOP, NONE, CallTools(CALL)),
        ("", (), STOP, FULL, AskAgain(SPEAK, RetriesLeft(1, 1, 0))),
        (" \n", (), None, FULL, AskAgain(SPEAK, RetriesLeft(1, 1, 0))),
        ("", (), STOP, NONE, Stop(StopReason.EMPTY_REPLY)),
        ("Once upon", (), LENGTH, FULL, AskAgain(GO_ON, RetriesLeft(1, 0, 1), is_cut=True)),
        ("", (), LENGTH, FULL, AskAgain(BE_BRIEF, RetriesLeft(1, 0, 1))),
        ("Once upon", (), LENGTH, NONE, Stop(StopReason.LENGTH)),
        ("", CALL, LENGTH, FULL, RefuseTools(CALL, NOT_CALLED, RetriesLeft(1, 0, 1))),
        ("", CALL, LENGTH, NONE, Stop(StopReason.LENGTH)),
        ("Some", (), FILTER, FULL, Stop(StopReason.CONTENT_FILTER)),
        ("", CALL, FILTER, FULL, Stop(StopReason.CONTENT_FILTER)),
        ("I won't.", (), REFUSAL, FULL, Stop(StopReason.REFUSAL)),
    ],
)
def test_a_reply_leads_to_one_move(
    content: str,
    calls: tuple[ModelToolCall, ...],
    reason: ModelFinishReason | None,
    retries: RetriesLeft,
    move: Move,
) -> None:
    reply = ModelResponse(content, tool_calls=calls, finish_reason=reason)
    assert next_move(reply, None, retries) == move


@pytest.mark.parametrize(
    ("structured", "decoded"),
    [({"name": "Brest"}, None), ({"name": "Brest"}, City("Brest")), (None, City("Brest"))],
)
def test_a_typed_answer_is_decoded_where_the_model_did_not_do_it(
    structured: JsonValue, decoded: City | None
) -> None:
    reply = ModelResponse("", structured, finish_reason=STOP, output=decoded)
    assert next_move(reply, CITY, NONE) == TypedAnswer(City("Brest"))


def test_a_typed_answer_may_be_null_but_not_nothing() -> None:
    assert next_move(ModelResponse("null", finish_reason=STOP), MAYBE_CITY, NONE) == TypedAnswer(None)
    with pytest.raises(AgentStructuredOutputError, match="empty"):
        next_move(ModelResponse("", finish_reason=STOP), MAYBE_CITY, NONE)
    with pytest.raises(AgentStructuredOutputError, match="cut off"):
        next_move(ModelResponse("nu", finish_reason=LENGTH), MAYBE_CITY, NONE)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (ModelResponse("Brest", finish_reason=STOP), "the answer"),
        (ModelResponse("", {"town": "Brest"}, finish_reason=STOP), "name"),
        (ModelResponse("", finish_reason=STOP), "the reply was empty"),
        (ModelResponse('{"na', finish_reason=LENGTH), "cut off by the length limit"),
    ],
)
def test_an_answer_of_the_wrong_type_is_repaired_and_then_an_error(reply: ModelResponse, words: str) -> None:
    move = next_move(reply, CITY, FULL)
    assert isinstance(move, AskAgain)
    assert move.retries == RetriesLeft(0, 1, 1)
    assert words in move.note
    with pytest.raises(AgentStructuredOutputError):
        next_move(reply, CITY, NONE)


def test_tools_may_be_called_on_the_way_to_a_typed_answer() -> None:
    reply = ModelResponse("", tool_calls=CALL, finish_reason=CALLS)
    assert next_move(reply, CITY, NONE) == CallTools(CALL)


@pytest.mark.parametrize("reason", [FILTER, REFUSAL])
def test_what_was_withheld_is_not_asked_for_again_as_a_typed_answer(reason: ModelFinishReason) -> None:
    assert isinstance(next_move(ModelResponse("no", finish_reason=reason), CITY, FULL), Stop)


def test_a_repair_lists_every_problem() -> None:
    error = AgentStructuredOutputError(
        "the answer is no City", problems=["name: missing.", "size: no number."]
    )
    assert repair(error, FULL).note.splitlines()[1:3] == ["- name: missing.", "- size: no number."]
    assert "- the answer is no City" in repair(AgentStructuredOutputError("the answer is no City"), FULL).note
    with pytest.raises(AgentStructuredOutputError, match="the answer is no City") as raised:
        repair(error, NONE)
    assert raised.value is error
