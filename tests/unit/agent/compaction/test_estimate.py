"""Estimates are cheap guesses that count everything a model is charged for."""

from __future__ import annotations

import pytest

from pilotage.agent.compaction import ByteEstimator, fixed_tokens, message_tokens
from pilotage.agent.messages import MediaPart, ModelMessage, ModelToolCall, TextPart
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolSpec,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.errors import AgentDefinitionError


class OneForEachWord:
    def tokens_of(self, text: str) -> int:
        return len(text.split())


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        pytest.param("日本", 2, id="six bytes"),
        pytest.param("\ud800", 1, id="a lone surrogate"),
    ],
)
def test_a_token_is_thought_to_be_four_bytes(text: str, tokens: int) -> None:
    assert ByteEstimator().tokens_of(text) == tokens


def test_the_bytes_of_a_token_can_be_set() -> None:
    assert ByteEstimator(2.5).tokens_of("12345") == 2
    with pytest.raises(AgentDefinitionError, match="bytes_per_token is 0"):
        ByteEstimator(0)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        pytest.param(ModelMessage.user("two words"), 4 + 2, id="text"),
        pytest.param(ModelMessage.user([TextPart("one"), TextPart("two")]), 4 + 2, id="parts"),
        pytest.param(ModelMessage.user([MediaPart("image/png", data="A" * 99)]), 4 + 1_000, id="media"),
        pytest.param(
            ModelMessage.assistant("one", [ModelToolCall("search", {"q": "x"})]),
            4 + 1 + 4 + 1 + 1,
            id="calls",
        ),
    ],
)
def test_a_message_takes_its_text_its_calls_its_media_and_a_frame(message: ModelMessage, tokens: int) -> None:
    assert message_tokens(message, OneForEachWord()) == tokens


def test_tools_and_the_shape_of_the_answer_are_counted_apart() -> None:
    schema = JsonSchemaConstraint({"type": "object"})
    bare = ModelRequest([ModelMessage.user("hello")])
    full = ModelRequest(
        [ModelMessage.user("hello")],
        tools=ToolCallingSpec([ModelToolSpec("search", schema, "Finds a page.")]),
        output=StructuredOutputSpec(schema),
    )
    assert fixed_tokens(bare, OneForEachWord()) == 0
    assert fixed_tokens(full, OneForEachWord()) == 1 + 3 + 1 + 1
