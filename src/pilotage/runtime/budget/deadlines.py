"""The deadline of a run: how it is set and extended, and which of several applies.

Pure: the time is an argument. A deadline is an absolute time and is stored; waiting for an answer extends it, unless
the agent's spec counts that time. The downtime of a process does not extend it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.spec import AgentExecutionSpec, LimitCode
from pilotage.agent.tools.metadata import TimeoutPolicy
from pilotage.runtime.journal.interruptions import LimitReached

_NO_BUDGET = DelegationBudget()


def deadline_at(
    start: datetime, spec: AgentExecutionSpec, packet: DelegationBudget = _NO_BUDGET
) -> datetime | None:
    """Return the deadline of a run that starts now, from its spec and the timeout of its delegation."""
    seconds = [each for each in (spec.effective_timeout_seconds, packet.timeout_seconds) if each is not None]
    try:
        return start + timedelta(seconds=min(seconds)) if seconds else None
    except OverflowError:
        return None  # a deadline after the last representable date never applies


def extended(
    deadline: datetime | None, paused_at: datetime, resumed_at: datetime, *, human_time_counts: bool
) -> datetime | None:
    """Return the deadline after a wait for an answer; a clock that went back does not shorten it."""
    if deadline is None or human_time_counts:
        return deadline
    return deadline + max(resumed_at - paused_at, timedelta())


def earliest(*deadlines: datetime | None) -> datetime | None:
    """Return the earliest deadline: of a child's, its parent's and its packet's, or of all questions of a run."""
    return min((each for each in deadlines if each is not None), default=None)


def remaining(deadline: datetime | None, now: datetime) -> float | None:
    """Return the seconds left, never below zero; None without a deadline."""
    return None if deadline is None else max((deadline - now).total_seconds(), 0.0)


def time_for_call(policy: TimeoutPolicy, deadline: datetime | None, now: datetime) -> float | None:
    """Return the seconds that one tool call may take; None if the run's deadline, if any, comes first.

    At its deadline the run ends with all its calls. A call that timed out at the same time would be an unknown outcome
    that cannot become a question any more.
    """
    left = remaining(deadline, now)
    if policy.seconds is None or (left is not None and left <= policy.seconds):
        return None
    return policy.seconds


def timed_out(deadline: datetime | None, now: datetime) -> LimitReached | None:
    """Return the interruption of a run after its deadline; None before it."""
    if deadline is None or now < deadline:
        return None
    words = (
        f"the deadline of the run, {deadline.isoformat()}, has passed. "
        "Raise AgentExecutionLimits.timeout_seconds, or give a smaller task."
    )
    return LimitReached(LimitCode.TIMEOUT, "timeout_seconds", words)
