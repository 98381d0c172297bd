"""A transcript is measured as it grows, and never twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.context.transcripts import a_loop, transcripts

from pilotage.agent.compaction import message_tokens
from pilotage.agent.messages import MediaPart, ModelMessage, ModelToolCall, TextPart
from pilotage.context.transcript import Transcript, TranscriptDigest


class CountsItsCalls:
    def __init__(self) -> None:
        self.calls = 0

    def tokens_of(self, text: str) -> int:
        self.calls += 1
        return len(text)


@given(messages=transcripts(), at=st.integers(0, 24))
def test_a_transcript_that_grew_equals_one_that_was_read_at_once(
    messages: list[ModelMessage], at: int
) -> None:
    grown = Transcript.of(messages[:at], salt="run").grown_to(messages)
    assert grown == Transcript.of(messages, salt="run")
    assert grown.digest.count == len(messages)
    assert grown.tokens == sum(map(message_tokens, messages))


def test_only_what_is_new_is_looked_at() -> None:
    estimator = CountsItsCalls()
    messages = [ModelMessage.user(str(number)) for number in range(100)]
    transcript = Transcript.of(messages, salt="run", estimator=estimator)
    estimator.calls = 0
    transcript.grown_to([*messages, ModelMessage.user("new")])
    assert estimator.calls == 1


def test_another_conversation_is_read_from_its_beginning() -> None:
    transcript = Transcript.of(a_loop(3), salt="run")
    other = [ModelMessage.user("Something else."), *a_loop(3)]
    assert transcript.grown_to(other) == Transcript.of(other, salt="run")
    assert transcript.grown_to(a_loop(2)) == Transcript.of(a_loop(2), salt="run")


CALL = ModelToolCall("search", {"q": "a"}, "c-1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ModelMessage.user("a"), ModelMessage.user("b")),
        (ModelMessage.user("a"), ModelMessage.evidence("a")),
        (ModelMessage.user("a"), ModelMessage.user([TextPart("a")])),
        (ModelMessage.tool("c-1", "a"), ModelMessage.tool("c-2", "a")),
        (ModelMessage.assistant("", [CALL]), ModelMessage.assistant("")),
        (
            ModelMessage.user([MediaPart("image/png", url="https://a")]),
            ModelMessage.user([MediaPart("image/png", url="https://b")]),
        ),
    ],
)
def test_what_a_model_could_tell_apart_has_another_digest(one: ModelMessage, other: ModelMessage) -> None:
    start = TranscriptDigest("run")
    assert start.extended([one]) != start.extended([other])


def test_metadata_is_not_part_of_a_digest() -> None:
    start = TranscriptDigest("run")
    assert start.extended([ModelMessage.user("a", at="noon")]) == start.extended([ModelMessage.user("a")])


def test_the_salt_and_the_order_change_a_digest() -> None:
    one, two = ModelMessage.user("1"), ModelMessage.user("2")
    start = TranscriptDigest("run")
    assert start.extended([one, two]).value != start.extended([two, one]).value
    assert start.extended([one]).value != TranscriptDigest("other").extended([one]).value
