"""Claims: how long a run is left after each, and which of them count. Tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pilotage.agent.ports.leases import LONGEST_DELAY, NO_CLAIMS, ClaimRecord
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime.delivery.take_up import ClaimEnd, end_of_claim, next_delay, problem_of
from pilotage.runtime.journal.interruptions import EventLoopStalled, RunOwnershipLost, StoreUnavailable

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(count: int, delay: float | None) -> ClaimRecord:
    return ClaimRecord(count, NOON, None, None if delay is None else NOON + timedelta(seconds=delay))


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (NO_CLAIMS, 2.0),
        (after(1, None), 2.0),
        (after(0, 2.0), 8.0),
        (after(3, 8.0), 32.0),
        (after(0, 299.0), 300.0),
        (after(0, 300.0), 300.0),
        (after(4, 8.0), 0.0),
        (after(5, 8.0), 0.0),
    ],
)
def test_each_delay_is_four_times_the_one_before(before: ClaimRecord, seconds: float) -> None:
    assert next_delay(before, 2.0) == seconds


def lost_store() -> StoreUnavailable:
    error = StoreUnavailable("no answer")
    error.__cause__ = OSError("gone")
    return error


@pytest.mark.parametrize(
    ("error", "is_claimable", "is_stopping", "counts", "delay"),
    [
        (None, False, False, False, 0.0),
        (None, True, False, False, 8.0),
        (RunConflictError("another"), False, False, False, 8.0),
        (RunOwnershipLost("another"), False, False, False, 8.0),
        (EventLoopStalled("15 s"), True, False, True, 8.0),
        (OSError("the disk"), False, False, False, 8.0),
        (lost_store(), True, False, False, 8.0),
        (StoreUnavailable("it cannot take this row"), True, False, True, 8.0),
        (CallerError("no such thing"), False, False, True, 8.0),
        (MemoryError(), True, False, True, 8.0),
        (CallerError("no such thing"), True, True, False, 0.0),
        (None, True, True, False, 0.0),
    ],
)
def test_only_what_the_run_itself_did_counts(
    error: BaseException | None, is_claimable: bool, is_stopping: bool, counts: bool, delay: float
) -> None:
    end = end_of_claim(error, 8.0, is_claimable=is_claimable, is_stopping=is_stopping)
    assert (end.counts, end.delay_seconds) == (counts, delay)


def test_a_stop_leaves_no_problem() -> None:
    end = end_of_claim(ValueError("x"), 8.0, is_claimable=True, is_stopping=True)
    assert end == ClaimEnd(counts=False)


def test_a_problem_has_the_type_of_the_error_and_its_stack_without_values() -> None:
    secret = "4711"

    def breaks() -> None:
        raise ValueError(f"bad\nparameters: {secret}")

    with pytest.raises(ValueError, match="bad") as raised:
        breaks()
    problem = problem_of(raised.value)
    assert problem.startswith("ValueError\n")
    assert "in breaks" in problem
    assert secret not in problem
    assert problem_of(RunConflictError("it is taken")) == "RunConflictError: it is taken"


@pytest.mark.parametrize(
    ("next_claim", "is_due"),
    [
        (None, True),
        (NOON, True),
        (NOON + timedelta(seconds=1), False),
        (NOON + LONGEST_DELAY, False),
        (NOON + 2 * LONGEST_DELAY + timedelta(seconds=1), True),
    ],
)
def test_a_run_is_due_after_its_delay_and_where_a_clock_was_set_back(
    next_claim: datetime | None, is_due: bool
) -> None:
    assert ClaimRecord(1, NOON, None, next_claim).is_due(NOON) is is_due
