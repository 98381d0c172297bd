"""Which of several ends counts, as tables."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from pilotage.agent.spec import LimitCode
from pilotage.agent.state import AgentSituation
from pilotage.runtime.journal.interruptions import (
    CancelledMeanwhile,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
    first_to_count,
    interruption_in,
    what_counts,
)

PAUSED = Paused("q")
ENDED = RunEnded(AgentSituation.FAILED, "no")
IN_ORDER: tuple[RunInterruption, ...] = (
    RunOwnershipLost("lost"),
    StoreUnavailable("gone"),
    RunDiverged("run/tool#1", "another tool"),
    LimitReached(LimitCode.TIMEOUT, "timeout", "too late"),
    ENDED,
    RunHandedOver(),
    CancelledMeanwhile(),
    PAUSED,
)


@pytest.mark.parametrize(("more", "less"), list(pairwise(IN_ORDER)))
def test_what_says_most_about_the_run_counts_first(more: RunInterruption, less: RunInterruption) -> None:
    for ends in permutations([more, less, PAUSED]):
        assert first_to_count(ends) is more


def test_of_equal_ends_the_first_counts() -> None:
    assert first_to_count([PAUSED, Paused("r")]) is PAUSED


def test_a_group_of_tasks_is_interrupted_by_what_counts_most_in_it() -> None:
    nested = BaseExceptionGroup("tasks", [ValueError("x"), BaseExceptionGroup("inner", [PAUSED])])
    assert interruption_in(nested) is PAUSED
    assert interruption_in(BaseExceptionGroup("tasks", [PAUSED, ENDED])) is ENDED
    assert interruption_in(PAUSED) is PAUSED


@pytest.mark.parametrize("leaf", [KeyboardInterrupt(), SystemExit()])
def test_a_group_with_something_unknown_in_it_is_no_interruption(leaf: BaseException) -> None:
    with pytest.raises(BaseExceptionGroup):
        interruption_in(BaseExceptionGroup("tasks", [PAUSED, leaf]))


def test_a_program_ends_with_what_counts_most_of_its_tasks() -> None:
    failed = ValueError("x")
    assert what_counts(failed) is failed
    assert what_counts(BaseExceptionGroup("tasks", [failed, PAUSED, ENDED])) is ENDED


def test_a_program_whose_tasks_have_all_failed_ends_with_all_of_it() -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), KeyError("y")])
    assert what_counts(group) is group


def test_something_unknown_among_the_tasks_of_a_program_is_passed_on() -> None:
    group = BaseExceptionGroup("tasks", [PAUSED, BaseExceptionGroup("inner", [KeyboardInterrupt()])])
    with pytest.raises(KeyboardInterrupt):
        what_counts(group)
