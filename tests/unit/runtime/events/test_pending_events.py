"""Pending events: numbers, growing texts, rows that wait for their commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import PendingEvents

M, N = ("message", "run-1", "m"), ("message", "run-1", "n")


def event(name: str) -> JsonObject:
    return {"kind": name}


def test_events_are_numbered_from_where_the_log_ends() -> None:
    log = PendingEvents(7)
    assert [log.add(event("a")), log.promise(event("b"))] == [8, 9]
    assert log.last_number == 9


def test_deltas_of_a_text_grow_together_until_another_event_is_added() -> None:
    log = PendingEvents()
    assert log.grow(M, "a") is None
    assert log.begin(M, event("m"), "ab") == (1, 2)
    assert log.grow(M, "c") == (1, 3)
    assert log.grow(N, "x") is None
    assert log.begin(N, event("n"), "x") == (2, 1)
    assert log.grow(M, "d") is None
    assert log.add(event("step")) == 3
    assert log.grow(N, "y") is None
    assert log.write(5) == {
        "first": 1,
        "events": [
            {"event": event("m"), "text": "abc"},
            {"event": event("n"), "text": "x"},
            event("step"),
        ],
    }


def test_a_text_that_was_written_does_not_grow_any_more() -> None:
    log = PendingEvents()
    log.begin(M, event("m"), "ab")
    log.write(1)
    assert log.grow(M, "c") is None
    assert log.begin(M, event("m"), "c") == (2, 1)


def test_a_written_row_stays_in_the_open_end_until_it_is_committed() -> None:
    log = PendingEvents(3)
    log.add(event("a"))
    log.write(10)
    log.add(event("b"))
    log.write(12)
    log.begin(M, event("m"), "ab")
    assert shown(log) == [(4, "a", ""), (5, "b", ""), (6, "m", "ab")]
    log.committed(11)
    assert shown(log) == [(5, "b", ""), (6, "m", "ab")]
    log.committed(12)
    assert shown(log) == [(6, "m", "ab")]


def test_the_open_end_is_a_copy_and_the_text_goes_on_growing() -> None:
    log = PendingEvents()
    log.begin(M, event("m"), "ab")
    before = log.open_end(1)
    assert log.grow(M, "c") == (1, 3)
    assert before[0].text == "ab"
    assert shown(log) == [(1, "m", "abc")]


def test_a_promise_holds_until_it_is_written() -> None:
    log = PendingEvents()
    log.add(event("a"))
    assert (log.is_waiting, log.is_promised) == (True, False)
    log.promise(event("end"))
    assert log.is_promised
    log.write(1)
    assert (log.is_waiting, log.is_promised) == (False, False)


@given(st.lists(st.tuples(st.sampled_from(["m", "n", "add", "write"]), st.text(max_size=3))))
def test_rows_and_open_end_hold_every_delta_in_order(steps: list[tuple[str, str]]) -> None:
    log, rows = PendingEvents(), 0
    for what, piece in steps:
        if what == "write":
            rows += 1
            log.write(rows)
        elif what == "add":
            log.add(event("step"))
        elif log.grow(text := ("message", "run-1", what), piece) is None:
            log.begin(text, event(what), piece)
    kept = shown(log)
    assert [number for number, _, _ in kept] == list(range(1, log.last_number + 1))
    for name in ("m", "n"):
        said = "".join(piece for what, piece in steps if what == name)
        assert "".join(words for _, who, words in kept if who == name) == said
    assert [who for _, who, _ in kept].count("step") == [what for what, _ in steps].count("add")


def shown(log: PendingEvents) -> list[tuple[int, object, str]]:
    return [(item.number, item.kind, item.text) for item in log.open_end(1)]
