"""The table of what a crash leads to, cell by cell."""

from __future__ import annotations

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, a_row, an_action

from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.recovery import AskHuman, Reconcile, Recovery, Repeat, Reuse, recovery_for

READING = an_action(idempotency=Idempotency.NON_IDEMPOTENT, is_read_only=True)
IDEMPOTENT = an_action(idempotency=Idempotency.IDEMPOTENT)
CONDITIONAL = an_action(idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT)
ONCE = an_action(idempotency=Idempotency.NON_IDEMPOTENT)
UNKNOWN = an_action(idempotency=Idempotency.UNKNOWN)
ALL = [READING, IDEMPOTENT, CONDITIONAL, ONCE, UNKNOWN]
NAMES = ["reading", "idempotent", "conditional", "once", "unknown"]

RECONCILABLE = pytest.mark.parametrize(
    "can_reconcile", [True, False], ids=["reconcilable", "not reconcilable"]
)
EVERY_KIND = pytest.mark.parametrize("number", range(5), ids=NAMES)


@RECONCILABLE
@EVERY_KIND
def test_what_is_done_is_reused(number: int, can_reconcile: bool) -> None:
    row = a_row(ALL[number], AFTER)
    for before in (None, a_row(ALL[number], BEFORE)):
        recorded = RecordedAction(before, row)
        assert recovery_for(ALL[number], recorded, can_reconcile=can_reconcile) == Reuse(row)


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize(
    ("number", "can_reconcile", "recovery"),
    [
        (0, False, Repeat),
        (0, True, Repeat),
        (1, False, Repeat),
        (1, True, Repeat),
        (2, False, Repeat),
        (2, True, Reconcile),
        (3, False, AskHuman),
        (3, True, Reconcile),
        (4, False, AskHuman),
        (4, True, Reconcile),
    ],
)
def test_what_was_begun_and_has_no_outcome(
    number: int, can_reconcile: bool, recovery: type[Repeat | Reconcile | AskHuman], attempt: int
) -> None:
    recorded = RecordedAction(a_row(ALL[number], BEFORE, attempt=attempt))
    found: Recovery = recovery_for(ALL[number], recorded, can_reconcile=can_reconcile)
    assert found == recovery(attempt)
