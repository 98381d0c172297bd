"""Transcripts: texts joined, void and superseded events left out, however the stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunStartedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.errors import CallerError
from pilotage.runtime.events.feed import Transcript, joined

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
STEP = StepStartedEvent(BY, "look")
MARK = {"superseded": True}


def says(text: str, message_id: str = "m") -> MessageDeltaEvent:
    return MessageDeltaEvent(BY, message_id, text)


def test_successive_deltas_are_one_event() -> None:
    events: list[AgentEvent] = [says("a"), says("b"), STEP, says("c"), says("x", "n"), says("d"), says("e")]
    assert joined(events) == [says("ab"), STEP, says("c"), says("x", "n"), says("de")]


def test_a_delta_with_metadata_is_not_joined() -> None:
    noted = MessageDeltaEvent(BY, "m", "b", {"source": "x"})
    assert joined([says("a"), noted, says("c")]) == [says("a"), noted, says("c")]


def test_a_superseded_text_is_left_out_with_its_mark() -> None:
    thought = ReasoningDeltaEvent(BY, "r", "hm")
    events: list[AgentEvent] = [
        thought,
        says("old"),
        STEP,
        says("er"),
        MessageDeltaEvent(BY, "m", "", MARK),
        ReasoningDeltaEvent(BY, "r", "", MARK),
        says("new", "n"),
    ]
    assert joined(events) == [STEP, says("new", "n")]


def test_a_superseded_call_is_left_out_back_to_its_start_and_not_an_earlier_one_of_the_same_id() -> None:
    def call(words: str, message: str) -> list[AgentEvent]:
        return [
            ToolCallStartEvent(BY, "c", "look", message),
            ToolCallArgsDeltaEvent(BY, "c", words),
            ToolCallEndEvent(BY, "c"),
            ToolCallResultEvent(BY, "c", "look", message, words),
        ]

    first, second, third = call("1", "m"), call("2", "n"), call("3", "o")
    assert joined([*first, *second, ToolCallEndEvent(BY, "c", MARK), *third]) == [*first, *third]


def test_uncommitted_events_are_void_when_another_attempt_continues() -> None:
    transcript = Transcript()
    told: list[tuple[AgentEvent, str]] = [
        (RunStartedEvent(BY), "1.1.0"),
        (says("ab"), "1.2.2"),
        (says("cd"), "1.2.4"),
        (STEP, "1.3.0"),
    ]
    for event, cursor in told:
        transcript.add(event, cursor)
    assert transcript.events == [RunStartedEvent(BY), says("abcd"), STEP]
    transcript.add(again := RunStartedEvent(BY, {"epoch": 2, "resumed_after": "1.1.0"}), "2.2.0")
    transcript.add(says("xy", "n"), "2.3.2")
    assert transcript.events == [RunStartedEvent(BY), again, says("xy", "n")]
    assert transcript.cursor == "2.3.2"


def test_a_text_of_which_a_part_is_void_is_cut_there() -> None:
    transcript = Transcript()
    transcript.add(says("abcd"), "1.1.4")
    transcript.add(says("xyz"), "2.1.5")
    assert transcript.events == [says("abxyz")]


def test_a_text_that_is_no_cursor_is_refused() -> None:
    with pytest.raises(CallerError):
        Transcript().add(STEP, "somewhere")


@given(
    st.text(min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), max_size=30),
)
def test_a_text_is_the_same_for_every_way_of_cutting_it(text: str, pieces: list[tuple[int, int]]) -> None:
    transcript, at = Transcript(), 0
    for length, again in pieces:
        end = at + length
        if end >= len(text):
            break
        transcript.add(says(text[at:end]), f"1.1.{end}")
        # A reader that comes back may have a part of it already.
        at = max(0, end - again)
    transcript.add(says(text[at:]), f"1.1.{len(text)}")
    assert transcript.events == [says(text)]
