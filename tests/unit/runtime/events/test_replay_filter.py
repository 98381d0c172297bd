"""Replay repeats events: none is emitted twice, no new one is left out, superseded ones are marked once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    SUPERSEDED,
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

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
KID = AgentEventAttribution("kid", "run-2", "talk-1", "run-1")
MARK = {SUPERSEDED: True}
STEP = StepStartedEvent(BY, "look")


def before(*logged: AgentEvent) -> ReplayFilter:
    items = (LoggedEvent(1, n, {"event": encode_event(e, BY)}) for n, e in enumerate(logged, 1))
    return ReplayFilter(deque(items), BY)


def says(text: str, message_id: str = "m", by: AgentEventAttribution = BY) -> MessageDeltaEvent:
    return MessageDeltaEvent(by, message_id, text)


def thinks(text: str, message_id: str = "m") -> ReasoningDeltaEvent:
    return ReasoningDeltaEvent(BY, f"{message_id}:reasoning", text)


def calls(message_id: str, call_id: str = "c") -> ToolCallStartEvent:
    return ToolCallStartEvent(BY, call_id, "look", message_id)


@given(st.text(max_size=20), st.integers(0, 20), st.lists(st.integers(1, 5)))
def test_a_text_continues_where_the_log_ends_however_it_is_cut(
    whole: str, logged: int, cuts: list[int]
) -> None:
    replay = before(says(whole[:logged]))
    shown: list[str] = []
    at = 0
    for size in [*cuts, len(whole)]:
        new = replay.new_part(says(whole[at : at + size]))
        shown += [new.delta] if isinstance(new, MessageDeltaEvent) else []
        at += size
    assert "".join(shown) == whole[logged:]


def test_texts_are_identified_by_kind_run_and_id() -> None:
    replay = before(says("abc"))
    others: list[AgentEvent] = [
        says("abc", "n"),
        says("abc", "m", KID),
        thinks("abc"),
        ToolCallArgsDeltaEvent(BY, "m", "abc"),
    ]
    assert [replay.new_part(event) for event in others] == others
    assert replay.new_part(says("abc")) is None


def test_other_events_are_new_once_their_count_is_used_up() -> None:
    replay = before(STEP, STEP, StepStartedEvent(BY, "go"))
    assert [replay.new_part(STEP) for _ in range(3)] == [None, None, STEP]
    assert replay.new_part(StepStartedEvent(BY, "go", {"n": 1})) is not None


def test_a_delta_with_metadata_is_compared_as_a_whole() -> None:
    noted = MessageDeltaEvent(BY, "m", "", {"source": "x"})
    replay = before(says("ab"), noted, MessageDeltaEvent(BY, "m", "c", {"source": "y"}))
    assert replay.new_part(says("ab")) is None
    assert replay.new_part(noted) is None
    assert replay.new_part(MessageDeltaEvent(BY, "m", "c", {"source": "y"})) is None
    assert replay.new_part(noted) == noted
    assert replay.new_part(says("d")) == says("d")


def test_events_of_child_runs_are_ignored() -> None:
    replay = before(says("abc", "run-2:model#1@1", KID), StepStartedEvent(KID, "look"))
    assert replay.is_exhausted
    assert replay.marks_before(says("x", "run-2:model#1@2", KID)) == []


def test_after_replay_everything_is_new_except_for_held_texts() -> None:
    replay = before(STEP, says("abc"), says("abc", "n"))
    replay.go_live({("message", "run-1", "m")})
    assert replay.new_part(STEP) == STEP
    assert replay.new_part(says("abc", "n")) == says("abc", "n")
    assert replay.new_part(says("abcd")) == says("d")


def test_it_is_exhausted_when_no_event_can_match() -> None:
    replay = before(STEP, says("abc"))
    assert not replay.is_exhausted
    replay.go_live()
    assert replay.is_exhausted
    made = before(says("abc", "run-1:model#1@1"))
    made.go_live()
    assert not made.is_exhausted, "its model call may still be repeated"


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
def test_the_earlier_output_of_a_repeated_model_call_is_marked(event: AgentEvent) -> None:
    replay = before(*PARTS)
    replay.go_live()
    assert replay.marks_before(event) == MARKS
    assert replay.marks_before(event) == []
    assert replay.is_exhausted


def test_a_call_that_is_replayed_is_not_superseded() -> None:
    replay = before(*PARTS)
    assert replay.marks_before(says("half a ", FIRST)) == []
    replay.go_live()
    assert replay.marks_before(says("new", AGAIN)) == []


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
    replay = before(says("half", odd))
    assert replay.marks_before(says("x", "run-1:at@4/model#1@2")) == []
    assert replay.marks_before(says("x", "run-1:at@3/model#1@2")) == [MessageDeltaEvent(BY, odd, "", MARK)]


def test_a_marked_text_is_not_marked_again_by_the_next_attempt() -> None:
    replay = before(*PARTS, *MARKS, says("more", AGAIN))
    third = says("all", "run-1:model#1@3")
    assert replay.marks_before(third) == [MessageDeltaEvent(BY, AGAIN, "", MARK)]


def test_a_repeated_model_call_without_output_supersedes_as_well() -> None:
    replay = before(*PARTS)
    assert replay.marks_for(AGAIN, "run-1") == MARKS
    assert replay.marks_for(AGAIN, "run-1") == []


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
def test_following_the_log_gives_the_same_as_indexing_it(
    logged: list[AgentEvent], said: list[AgentEvent]
) -> None:
    followed, indexed_at_once = before(*logged), before(*logged)
    for event in said:
        expected = indexed_at_once.new_part(event)
        assert (None if followed.is_next(event) else followed.new_part(event)) == expected


def test_events_in_the_same_order_are_next_whatever_other_runs_emitted_in_between() -> None:
    kept: list[LoggedEvent] = [
        LoggedEvent(1, 1, {"event": encode_event(RunStartedEvent(BY), BY)}),
        LoggedEvent(1, 2, {"event": encode_event(STEP, BY)}),
        LoggedEvent(1, 3, {"event": encode_event(says("abc", by=KID), BY)}),
        LoggedEvent(1, 4, {"event": encode_event(says(""), BY), "text": "abc"}),
        LoggedEvent(2, 5, {"event": encode_event(RunStartedEvent(BY, {"epoch": 2}), BY)}),
        LoggedEvent(2, 6, {"event": encode_event(calls("m"), BY)}),
    ]
    replay = ReplayFilter(deque(kept), BY)
    assert not replay.is_next(says("abc", by=KID))
    assert all(replay.is_next(event) for event in (STEP, says("abc"), calls("m")))
    assert not replay.is_next(STEP)
    replay.go_live()
    assert replay.is_exhausted


def test_a_skipped_entry_still_counts() -> None:
    logged = [says("a", "x"), *[StepStartedEvent(BY, f"step {n}") for n in range(40)], says("b", "y")]
    replay = before(*logged)
    assert replay.is_next(logged[5])
    assert replay.is_next(logged[6])
    assert not replay.is_next(logged[-1])
    assert [replay.new_part(event) for event in (logged[0], logged[1], logged[5], logged[-1])] == [
        None,
        None,
        logged[5],
        None,
    ]


@pytest.mark.parametrize("event", [STEP, says("ab"), says("abc", "n"), thinks("abc"), says("abc", by=KID)])
def test_only_an_equal_event_is_next(event: AgentEvent) -> None:
    item = LoggedEvent(1, 1, {"event": encode_event(says(""), BY), "text": "abc"})
    replay = ReplayFilter(deque([item]), BY)
    assert not replay.is_next(event)
    assert replay.is_next(says("abc"))
