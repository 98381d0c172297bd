"""When the time of a run is up, and what moves that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, LimitCode
from pilotage.agent.state import AgentSituation
from pilotage.agent.tools.metadata import TimeoutPolicy
from pilotage.runtime.budget.limits import (
    deadline_at,
    earliest,
    extended,
    remaining,
    time_for_call,
    timed_out,
)

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("spec", "packet", "deadline"),
    [
        (AgentExecutionSpec(), DelegationBudget(), None),
        (AgentExecutionSpec(timeout_seconds=60), DelegationBudget(), at(60)),
        (AgentExecutionSpec(limits=AgentExecutionLimits(0.5)), DelegationBudget(), at(0.5)),
        (AgentExecutionSpec(), DelegationBudget(timeout_seconds=30), at(30)),
        (AgentExecutionSpec(timeout_seconds=60), DelegationBudget(timeout_seconds=30), at(30)),
        (AgentExecutionSpec(timeout_seconds=10), DelegationBudget(timeout_seconds=30), at(10)),
        (AgentExecutionSpec(timeout_seconds=1e12), DelegationBudget(), None),
        (AgentExecutionSpec(timeout_seconds=1e300), DelegationBudget(), None),
    ],
)
def test_the_tightest_timeout_sets_the_deadline(
    spec: AgentExecutionSpec, packet: DelegationBudget, deadline: datetime | None
) -> None:
    assert deadline_at(START, spec, packet) == deadline


@pytest.mark.parametrize(
    ("human_time_counts", "resumed", "deadline"),
    [(False, 100, 150), (True, 100, 60), (False, 10, 60), (False, 5, 60)],
    ids=["waiting moves it", "unless it counts", "no wait", "the clock went back"],
)
def test_a_wait_for_a_person_moves_the_deadline(
    human_time_counts: bool, resumed: float, deadline: float
) -> None:
    moved = extended(at(60), at(10), at(resumed), human_time_counts=human_time_counts)
    assert moved == at(deadline)


def test_no_deadline_is_not_moved() -> None:
    assert extended(None, at(0), at(9), human_time_counts=False) is None


@pytest.mark.parametrize(
    ("deadlines", "expected"),
    [
        ((), None),
        ((None, None), None),
        ((at(3), None, at(2)), at(2)),
        ((None, at(3)), at(3)),
        ((at(1), datetime(2030, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))), START),
    ],
)
def test_of_several_deadlines_the_earliest_holds(
    deadlines: tuple[datetime | None, ...], expected: datetime | None
) -> None:
    assert earliest(*deadlines) == expected


@pytest.mark.parametrize(
    ("deadline", "now", "seconds"), [(None, 0, None), (at(60), 20, 40), (at(60), 60, 0), (at(60), 99, 0)]
)
def test_what_is_left_is_never_negative(deadline: datetime | None, now: float, seconds: float | None) -> None:
    assert remaining(deadline, at(now)) == seconds


@pytest.mark.parametrize(
    ("policy", "deadline", "seconds"),
    [
        (TimeoutPolicy(), None, None),
        (TimeoutPolicy(5), None, 5),
        (TimeoutPolicy(), at(9), None),
        (TimeoutPolicy(5), at(9), 5),
        (TimeoutPolicy(5), at(5), None),
        (TimeoutPolicy(5), at(2), None),
        (TimeoutPolicy(5), at(-1), None),
    ],
)
def test_a_call_has_a_timeout_of_its_own_where_that_comes_before_the_deadline_of_its_run(
    policy: TimeoutPolicy, deadline: datetime | None, seconds: float | None
) -> None:
    assert time_for_call(policy, deadline, START) == seconds


@pytest.mark.parametrize(
    ("deadline", "is_over"), [(None, False), (at(1), False), (at(0), True), (at(-1), True)]
)
def test_time_is_up_at_the_deadline(deadline: datetime | None, is_over: bool) -> None:
    assert (timed_out(deadline, START) is not None) is is_over


def test_a_run_whose_time_is_up_says_so() -> None:
    reached = timed_out(at(-1), START)
    assert reached is not None
    assert (reached.code, reached.limit, reached.situation) == (
        LimitCode.TIMEOUT,
        "timeout_seconds",
        AgentSituation.TIMED_OUT,
    )
    assert reached.reason == (
        "the deadline of the run, 2030-01-01T11:59:59+00:00, has passed. "
        "Raise AgentExecutionLimits.timeout_seconds, or give a smaller task."
    )
