"""The rows of a run, sorted by what they are about."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.runtime.rows import AFTER, BEFORE, a_claim, a_row, an_action

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.history import RunHistory

PAY = an_action()


def told(seq: int, first: int, *kinds: str, epoch: int = 1) -> JournalRow:
    """A row of events."""
    events: list[JsonObject] = [{"kind": kind} for kind in kinds]
    view: JsonObject = {"first": first, "events": events}
    return replace(a_claim(seq, epoch), action_id=f"told#{seq}", stage=JournalStage.TOLD, view=view)


def test_every_row_is_where_it_belongs_in_its_order() -> None:
    rows = [
        a_claim(1),
        a_row(PAY, BEFORE, seq=2),
        told(3, 1, "run_started", "step_started"),
        a_claim(4, epoch=2),
        a_row(PAY, AFTER, seq=5),
        told(6, 3, "step_finished", epoch=2),
    ]
    past = RunHistory.of(rows, "run-1")
    assert (past.first, past.last) == (rows[0], rows[5])
    assert past.claims == [rows[0], rows[3]]
    assert past.actions == [rows[1], rows[4]]
    assert [(item.epoch, item.number, item.kind) for item in past.events] == [
        (1, 1, "run_started"),
        (1, 2, "step_started"),
        (2, 3, "step_finished"),
    ]
    assert past.last_number == 3


def test_a_run_that_told_nothing_has_no_last_event() -> None:
    past = RunHistory.of([a_claim(1)], "run-1")
    assert (past.last_number, list(past.events), past.actions) == (0, [], [])
