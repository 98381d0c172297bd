"""A process may die at every write and around every effect: the run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from pilotage.testing import FailWrite, Fault, LoseReply, StopAfter, StopBefore
from tests.crash.process import Processes, assert_done_right

COMMITS = range(1, 9)
EFFECTS = range(1, 5)


async def test_without_faults_two_processes_bring_the_run_to_its_end() -> None:
    processes = Processes()
    result = await processes.carry_through()
    assert_done_right(processes, result)
    assert processes.count == 2
    assert len(processes.answered) == 1


@pytest.mark.parametrize("number", COMMITS)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter, LoseReply, FailWrite])
async def test_a_fault_at_any_commit_changes_nothing(fault: type[Fault], number: int) -> None:
    processes = Processes()
    result = await processes.carry_through(fault(number))
    assert_done_right(processes, result)


@pytest.mark.parametrize("number", EFFECTS)
@pytest.mark.parametrize("moment", ["dies_before", "dies_after"])
async def test_a_death_around_any_effect_repeats_nothing_that_may_not_be_repeated(
    moment: str, number: int
) -> None:
    processes = Processes()
    setattr(processes.world, moment, number)
    result = await processes.carry_through()
    assert_done_right(processes, result)


@pytest.mark.parametrize("first", [StopBefore, StopAfter])
@pytest.mark.parametrize("second", [StopBefore, StopAfter])
async def test_a_second_death_during_recovery_changes_nothing(
    first: type[Fault], second: type[Fault]
) -> None:
    for first_number in COMMITS:
        for second_number in COMMITS:
            processes = Processes()
            result = await processes.carry_through(first(first_number), second(second_number))
            assert_done_right(processes, result)
