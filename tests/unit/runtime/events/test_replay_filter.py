"""Replay says things again: nothing is told twice, nothing new is left out, what is void is marked once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunStartedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.replay_filter import ReplayFilter
from pilotage.runtime.exposure.deltas import SUPERSEDED

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
KID = AgentEventAttribution("kid", "run-2", "talk-1", "run-1")
MARK = {SUPERSEDED: True}
STEP = StepStartedEvent(BY, "look")


def before(*told: AgentEvent) -> ReplayFilter:
    items = (LoggedEvent(1, n, {"event": encode_event(e, BY)}) for n, e in enumerate(told, 1))
    return ReplayFilter(deque(items), BY)


def says(text: str, message_id: str = "m", by: AgentEventAttribution = BY) -> MessageDeltaEvent:
    return MessageDeltaEvent(by, message_id, text)


def thinks(text: str, message_id: str = "m") -> ReasoningDeltaEvent:
    return ReasoningDeltaEvent(BY, f"{message_id}:reasoning", text)


def calls(message_id: str, call_id: str = "c") -> ToolCallStartEvent:
    return ToolCallStartEvent(BY, call_id, "look", message_id)


@given(st.text(max_size=20), st.integers(0, 20), st.lists(st.integers(1, 5)))
def test_a_text_goes_on_where_it_was_told_however_it_is_cut(whole: str, told: int, cuts: list[int]) -> None:
    said = before(says(whole[:told]))
    shown: list[str] = []
    at = 0
    for size in [*cuts, len(whole)]:
        new = said.new_part(says(whole[at : at + size]))
        shown += [new.delta] if isinstance(new, MessageDeltaEvent) else []
        at += size
    assert "".join(shown) == whole[told:]


def test_texts_are_known_by_their_kind_their_run_and_their_id() -> None:
    said = before(says("abc"))
    others: list[AgentEvent] = [
        says("abc", "n"),
        says("abc", "m", KID),
        thinks("abc"),
        ToolCallArgsDeltaEvent(BY, "m", "abc"),
    ]
    assert [said.new_part(event) for event in others] == others
    assert said.new_part(says("abc")) is None


def test_other_events_are_told_as_often_as_they_are_new() -> None:
    said = before(STEP, STEP, StepStartedEvent(BY, "go"))
    assert [said.new_part(STEP) for _ in range(3)] == [None, None, STEP]
    assert said.new_part(StepStartedEvent(BY, "go", {"n": 1})) is not None


def test_a_piece_that_says_more_than_its_text_is_known_by_all_it_says() -> None:
    noted = MessageDeltaEvent(BY, "m", "", {"source": "x"})
    said = before(says("ab"), noted, MessageDeltaEvent(BY, "m", "c", {"source": "y"}))
    assert said.new_part(says("ab")) is None
    assert said.new_part(noted) is None
    assert said.new_part(MessageDeltaEvent(BY, "m", "c", {"source": "y"})) is None
    assert said.new_part(noted) == noted
    assert said.new_part(says("d")) == says("d")


def test_what_a_child_told_is_no_matter_of_its_parent() -> None:
    said = before(says("abc", "run-2:model#1@1", KID), StepStartedEvent(KID, "look"))
    assert said.is_exhausted
    assert said.marks_before(says("x", "run-2:model#1@2", KID)) == []


def test_behind_the_repetition_everything_is_new_but_for_what_is_held_back() -> None:
    said = before(STEP, says("abc"), says("abc", "n"))
    said.go_live({("message", "run-1", "m")})
    assert said.new_part(STEP) == STEP
    assert said.new_part(says("abc", "n")) == says("abc", "n")
    assert said.new_part(says("abcd")) == says("d")


def test_it_is_done_when_nothing_of_it_can_matter_any_more() -> None:
    said = before(STEP, says("abc"))
    assert not said.is_exhausted
    said.go_live()
    assert said.is_exhausted
    made = before(says("abc", "run-1:model#1@1"))
    made.go_live()
    assert not made.is_exhausted, "its call may be made again yet"


FIRST = "run-1:model#1@1"
AGAIN = "run-1:model#1@2"
PARTS: Sequence[AgentEvent] = [
    says("half a ", FIRST),
    thinks("hm", FIRST),
    calls(FIRST),
    ToolCallArgsDeltaEvent(BY, "c", '{"a"'),
]
MARKS: Sequence[AgentEvent] = [
    MessageDeltaEvent(BY, FIRST, "", MARK),
    ReasoningDeltaEvent(BY, f"{FIRST}:reasoning", "", MARK),
    ToolCallEndEvent(BY, "c", MARK),
]


@pytest.mark.parametrize(
    "event",
    [
        says("all", AGAIN),
        thinks("hm", AGAIN),
        calls(AGAIN, "d"),
        ToolCallResultEvent(BY, "d", "look", AGAIN, "found"),
    ],
)
def test_what_a_repeated_call_said_before_is_marked_when_it_says_something_else(event: AgentEvent) -> None:
    said = before(*PARTS)
    said.go_live()
    assert said.marks_before(event) == MARKS
    assert said.marks_before(event) == []
    assert said.is_exhausted


def test_a_call_that_is_replayed_is_not_superseded() -> None:
    said = before(*PARTS)
    assert said.marks_before(says("half a ", FIRST)) == []
    said.go_live()
    assert said.marks_before(says("new", AGAIN)) == []


@pytest.mark.parametrize(
    "event",
    [
        says("x", "run-1:model#2@2"),
        says("x", "run-1:model#11@2"),
        says("x", "run-1:voices#1/0/model#1@2"),
        says("x", "run-1:message"),
        says("x", "m"),
        STEP,
        ArtifactEvent(BY, AGAIN, "x"),
    ],
)
def test_other_calls_and_texts_that_no_model_made_supersede_nothing(event: AgentEvent) -> None:
    assert before(*PARTS).marks_before(event) == []


def test_a_name_may_look_like_an_epoch() -> None:
    odd = "run-1:at@3/model#1@1"
    said = before(says("half", odd))
    assert said.marks_before(says("x", "run-1:at@4/model#1@2")) == []
    assert said.marks_before(says("x", "run-1:at@3/model#1@2")) == [MessageDeltaEvent(BY, odd, "", MARK)]


def test_what_is_marked_is_not_marked_again_by_the_next_owner() -> None:
    said = before(*PARTS, *MARKS, says("more", AGAIN))
    third = says("all", "run-1:model#1@3")
    assert said.marks_before(third) == [MessageDeltaEvent(BY, AGAIN, "", MARK)]


def test_a_call_that_is_made_again_without_a_word_supersedes_as_well() -> None:
    said = before(*PARTS)
    assert said.marks_for(AGAIN, "run-1") == MARKS
    assert said.marks_for(AGAIN, "run-1") == []


WORDS = [
    STEP,
    says("ab"),
    says("a"),
    says("b", "n"),
    calls("run-1:model#1@1"),
    RunStartedEvent(BY),
    says("x", by=KID),
]


@given(st.lists(st.sampled_from(WORDS)), st.lists(st.sampled_from(WORDS)))
def test_following_the_log_comes_to_the_same_as_sorting_it(
    told: list[AgentEvent], said: list[AgentEvent]
) -> None:
    followed, sorted_at_once = before(*told), before(*told)
    for event in said:
        expected = sorted_at_once.new_part(event)
        assert (None if followed.is_next(event) else followed.new_part(event)) == expected


def test_what_is_said_in_the_same_order_is_next_whatever_others_told_in_between() -> None:
    kept: list[LoggedEvent] = [
        LoggedEvent(1, 1, {"event": encode_event(RunStartedEvent(BY), BY)}),
        LoggedEvent(1, 2, {"event": encode_event(STEP, BY)}),
        LoggedEvent(1, 3, {"event": encode_event(says("abc", by=KID), BY)}),
        LoggedEvent(1, 4, {"event": encode_event(says(""), BY), "text": "abc"}),
        LoggedEvent(2, 5, {"event": encode_event(RunStartedEvent(BY, {"epoch": 2}), BY)}),
        LoggedEvent(2, 6, {"event": encode_event(calls("m"), BY)}),
    ]
    said = ReplayFilter(deque(kept), BY)
    assert not said.is_next(says("abc", by=KID))
    assert all(said.is_next(event) for event in (STEP, says("abc"), calls("m")))
    assert not said.is_next(STEP)
    said.go_live()
    assert said.is_exhausted


def test_what_is_passed_over_is_not_forgotten() -> None:
    told = [says("a", "x"), *[StepStartedEvent(BY, f"step {n}") for n in range(40)], says("b", "y")]
    said = before(*told)
    assert said.is_next(told[5])
    assert said.is_next(told[6])
    assert not said.is_next(told[-1])
    assert [said.new_part(event) for event in (told[0], told[1], told[5], told[-1])] == [
        None,
        None,
        told[5],
        None,
    ]


@pytest.mark.parametrize("event", [STEP, says("ab"), says("abc", "n"), thinks("abc"), says("abc", by=KID)])
def test_only_the_same_is_next(event: AgentEvent) -> None:
    item = LoggedEvent(1, 1, {"event": encode_event(says(""), BY), "text": "abc"})
    said = ReplayFilter(deque([item]), BY)
    assert not said.is_next(event)
    assert said.is_next(says("abc"))
