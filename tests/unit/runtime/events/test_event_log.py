"""Reading an event log: which cursors are valid, and which events a reader has missed."""

from __future__ import annotations

import pytest
from tests.unit.runtime.rows import a_claim, a_row, an_action

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepStartedEvent,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.state import AgentStateReason
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import (
    LoggedEvent,
    events_after,
    last_valid,
    logged_events,
    still_needed,
)
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.feed import START, EventCursor

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
KID = AgentEventAttribution("kid", "run-2", "talk-1", "run-1")
PAUSED = RunPausedEvent(BY, AgentStateReason.USER_INTERRUPTED, "paused", "run-1")


def item(epoch: int, number: int, event: AgentEvent | None = None, text: str | None = None) -> LoggedEvent:
    record: JsonObject = {"event": encode_event(event or StepStartedEvent(BY, "look"), BY)}
    if text is not None:
        record = {"event": encode_event(MessageDeltaEvent(BY, "m", ""), BY), "text": text}
    return LoggedEvent(epoch, number, record)


# Epoch 1 committed up to 3; epoch 2 committed nothing; epoch 3 went on from there.
LOG = [
    item(1, 1),
    item(1, 2, text="abcd"),
    item(1, 3),
    item(3, 4, RunStartedEvent(BY)),
    item(3, 5, text="xyz"),
]


@pytest.mark.parametrize("event", [StepStartedEvent(BY, "look"), RunStartedEvent(KID), PAUSED])
def test_events_are_read_with_and_without_the_frame_that_earlier_versions_wrote(event: AgentEvent) -> None:
    bare, framed = (
        LoggedEvent(1, 1, record) for record in (encode_event(event, BY), {"event": encode_event(event, BY)})
    )
    assert bare.event(BY) == framed.event(BY) == event
    assert (bare.kind, bare.is_end, bare.child_run_id) == (framed.kind, framed.is_end, framed.child_run_id)
    assert bare.end == framed.end == EventCursor(1, 1, 0)


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        ("0.0.0", "0.0.0"),
        ("1.1.0", "1.1.0"),
        ("1.2.3", "1.2.3"),
        ("1.3.0", "1.3.0"),
        ("1.4.0", "1.3.0"),
        ("1.9.7", "1.3.0"),
        ("2.4.0", "1.3.0"),
        ("3.4.0", "3.4.0"),
        ("3.5.2", "3.5.2"),
        ("3.5.9", "3.5.3"),
        ("7.9.0", "3.5.3"),
        ("0.9.0", "0.0.0"),
    ],
)
def test_a_cursor_after_uncommitted_events_is_moved_back(seen: str, counts: str) -> None:
    assert str(last_valid(LOG, EventCursor.parse(seen))) == counts


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        ("0.0.0", [1, 2, 3, 4, 5]),
        ("1.2.4", [3, 4, 5]),
        ("1.2.1", [2, 3, 4, 5]),
        ("3.5.3", []),
        ("3.5.1", [5]),
    ],
)
def test_a_reader_gets_what_it_has_missed(seen: str, numbers: list[int]) -> None:
    assert [event[1] for event in events_after(LOG, EventCursor.parse(seen), BY)] == numbers


def test_the_rest_of_a_text_that_was_read_in_part_is_missed() -> None:
    epoch, number, offset, event = next(events_after(LOG, EventCursor(1, 2, 1), BY))
    assert (epoch, number, offset) == (1, 2, 4)
    assert event == MessageDeltaEvent(BY, "m", "bcd")


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("epoch", [0, 1, 2, 3])
def test_forgotten_events_are_not_needed_at_the_cursor(epoch: int, number: int) -> None:
    seen = last_valid(LOG, EventCursor(epoch, number, 0))
    needed = still_needed(LOG, seen)
    for later in [seen, *(each.end for each in LOG if each.number >= seen.number)]:
        assert last_valid(needed, later) == last_valid(LOG, later)
        assert list(events_after(needed, later, BY)) == list(events_after(LOG, later, BY))


def test_a_reader_at_the_end_holds_one_event_of_each_epoch() -> None:
    assert [each.number for each in still_needed(LOG, EventCursor(3, 5, 3))] == [3, 5]
    assert still_needed([], START) == []


@pytest.mark.parametrize(
    ("event", "is_end"),
    [
        (PAUSED, True),
        (RunFinishedEvent(BY), True),
        (RunFinishedEvent(KID), False),
        (RunStartedEvent(BY), False),
        (StepStartedEvent(BY, "look"), False),
    ],
)
def test_only_the_end_of_the_run_itself_ends_its_stream(event: AgentEvent, is_end: bool) -> None:
    assert item(1, 1, event).is_end == is_end


def test_events_are_read_from_the_told_rows() -> None:
    rows = [
        a_claim(),
        told_row(2, 1, {"first": 1, "events": [item(1, 1).record, item(1, 2, text="ab").record]}),
        a_row(an_action(), seq=3),
        told_row(4, 2, {"first": 3, "events": [item(1, 3, RunFinishedEvent(BY)).record]}),
    ]
    items = list(logged_events(rows, "run-1"))
    assert [(each.epoch, each.number) for each in items] == [(1, 1), (1, 2), (2, 3)]
    assert [each.event(BY) for each in items] == [
        StepStartedEvent(BY, "look"),
        MessageDeltaEvent(BY, "m", "ab"),
        RunFinishedEvent(BY),
    ]
    assert str(items[1].end) == "1.2.2"


def told_row(seq: int, epoch: int, record: JsonObject) -> JournalRow:
    return JournalRow(
        seq,
        f"told#{seq}",
        None,
        JournalStage.TOLD,
        1,
        epoch,
        "",
        Idempotency.IDEMPOTENT,
        record,
        record,
        "unchained",
    )
