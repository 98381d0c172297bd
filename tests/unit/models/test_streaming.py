"""A whole reply as a stream of events."""

from __future__ import annotations

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.models.streaming import deltas_of, estimated_usage

Kind = ModelStreamEventKind
PLAIN = ModelRequest([ModelMessage.user("12345678")])


@pytest.mark.parametrize(
    "text", ["", "word", "two words", "  lead and trail  ", "lines\n\n  indented\n", " "]
)
def test_the_pieces_of_a_text_add_up_to_it(text: str) -> None:
    events = list(deltas_of(text, (), text, PLAIN))
    assert "".join(event.token_delta or "" for event in events) == text
    assert "".join(event.reasoning_delta or "" for event in events) == text


def test_a_reply_is_streamed_as_reasoning_text_and_calls() -> None:
    calls = [ModelToolCall("a", {"long": "argument"}, "1"), ModelToolCall("b", {}, "2")]
    kinds = [event.kind for event in deltas_of("Two words", calls, "Hm.", PLAIN)]
    call = [Kind.TOOL_CALL_START, Kind.TOOL_CALL_ARGS_DELTA, Kind.TOOL_CALL_END, Kind.TOOL_CALL_CANDIDATE]
    assert kinds[:3] == [Kind.REASONING_DELTA, Kind.TOKEN_DELTA, Kind.TOKEN_DELTA]
    assert list(dict.fromkeys(kinds[3:])) == call
    assert kinds.count(Kind.TOOL_CALL_CANDIDATE) == 2


def test_tokens_are_estimated_by_the_length() -> None:
    calls = [ModelToolCall("a", {"x": 1}, "1")]
    assert estimated_usage(PLAIN.messages, "12345", calls, "1") == ModelUsage(2, 5, 7)
