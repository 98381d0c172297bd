"""Pending events: numbers, growing texts, rows that wait for their commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepFinishedEvent,
)
from pilotage.agent.state import AgentStateReason
from pilotage.runtime.events.event_log import PendingEvents

BY = AgentEventAttribution("clerk", "run-1", "talk")
M, N = ("message", "run-1", "m"), ("message", "run-1", "n")
STARTED, STEP = RunStartedEvent(BY), StepFinishedEvent(BY, "look")
PAUSED = RunPausedEvent(BY, AgentStateReason.APPROVAL_REQUIRED, "may I?", "run-1")


def delta(message: str, text: str) -> AgentEvent:
    return MessageDeltaEvent(BY, message, text)


def frame(message: str, text: str) -> object:
    return {"event": {"kind": "message_delta", "message_id": message, "delta": ""}, "text": text}


def test_events_are_numbered_from_where_the_log_ends() -> None:
    log = PendingEvents(7)
    assert [log.add(STARTED, BY), log.promise(STEP, BY)] == [8, 9]
    assert log.last_number == 9


def test_deltas_of_a_text_grow_together_until_another_event_is_added() -> None:
    log = PendingEvents()
    assert log.grow(M, "a") is None
    assert log.begin(M, delta("m", "ab"), "ab", BY) == (1, 2)
    assert log.grow(M, "c") == (1, 3)
    assert log.grow(N, "x") is None
    assert log.begin(N, delta("n", "x"), "x", BY) == (2, 1)
    assert log.grow(M, "d") is None
    assert log.add(STEP, BY) == 3
    assert log.grow(N, "y") is None
    step = {"kind": "step_finished", "step_name": "look"}
    assert log.write(5) == (1, [frame("m", "abc"), frame("n", "x"), step])


def test_a_text_that_was_written_does_not_grow_any_more() -> None:
    log = PendingEvents()
    log.begin(M, delta("m", "ab"), "ab", BY)
    log.write(1)
    assert log.grow(M, "c") is None
    assert log.begin(M, delta("m", "c"), "c", BY) == (2, 1)


def test_a_written_row_stays_in_the_open_end_until_it_is_committed() -> None:
    log = PendingEvents(3)
    log.add(STARTED, BY)
    log.write(10)
    log.add(STEP, BY)
    log.write(12)
    log.begin(M, delta("m", "ab"), "ab", BY)
    assert shown(log) == [(4, STARTED), (5, STEP), (6, delta("m", "ab"))]
    log.committed(11)
    assert shown(log) == [(5, STEP), (6, delta("m", "ab"))]
    log.committed(12)
    assert shown(log) == [(6, delta("m", "ab"))]


def test_the_open_end_is_a_copy_and_the_text_goes_on_growing() -> None:
    log = PendingEvents()
    log.begin(M, delta("m", "ab"), "ab", BY)
    before = log.open_end(1)
    assert log.grow(M, "c") == (1, 3)
    assert before[0].text == "ab"
    assert shown(log) == [(1, delta("m", "abc"))]


def test_a_promise_holds_until_it_is_written() -> None:
    log = PendingEvents()
    log.add(STARTED, BY)
    assert (log.is_waiting, log.is_promised) == (True, False)
    log.promise(PAUSED, BY)
    assert log.is_promised
    log.write(1)
    assert (log.is_waiting, log.is_promised) == (False, False)


def test_a_row_that_was_not_committed_leaves_its_first_events_to_the_next_one() -> None:
    log = PendingEvents()
    log.add(STARTED, BY)
    kept = log.last_number
    log.promise(RunFinishedEvent(BY), BY)
    log.write(4)
    log.take_back(kept, 3)
    assert shown(log) == [(1, STARTED)]
    assert log.write(4) == (1, [{"kind": "run_started"}])


@given(st.lists(st.tuples(st.sampled_from(["m", "n", "add", "write"]), st.text(max_size=3))))
def test_rows_and_open_end_hold_every_delta_in_order(steps: list[tuple[str, str]]) -> None:
    log, rows = PendingEvents(), 0
    for what, piece in steps:
        if what == "write":
            rows += 1
            log.write(rows)
        elif what == "add":
            log.add(STEP, BY)
        elif log.grow(text := ("message", "run-1", what), piece) is None:
            log.begin(text, delta(what, piece), piece, BY)
    kept = shown(log)
    assert [number for number, _ in kept] == list(range(1, log.last_number + 1))
    deltas = [each for _, each in kept if isinstance(each, MessageDeltaEvent)]
    for name in ("m", "n"):
        expected = "".join(piece for what, piece in steps if what == name)
        assert "".join(each.delta for each in deltas if each.message_id == name) == expected
    assert [each for _, each in kept].count(STEP) == [what for what, _ in steps].count("add")


def shown(log: PendingEvents) -> list[tuple[int, AgentEvent]]:
    return [(item.number, item.event(BY)) for item in log.open_end(1)]
