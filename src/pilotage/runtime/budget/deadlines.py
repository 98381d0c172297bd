"""The deadline of a run: when it is set, what moves it, which of several holds.

Pure: the time is an argument. A deadline is an absolute time and is stored; waiting for a person moves it, unless the
agent's spec counts that time. A process that was away does not move it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.limits import LimitCode
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.tools.metadata import TimeoutPolicy
from pilotage.runtime.journal.interruptions import LimitReached

_NO_BUDGET = DelegationBudget()


def deadline_at(
    start: datetime, spec: AgentExecutionSpec, packet: DelegationBudget = _NO_BUDGET
) -> datetime | None:
    """When the time of a run that starts now is up, by its spec and by the timeout it was delegated with."""
    seconds = [each for each in (spec.effective_timeout_seconds, packet.timeout_seconds) if each is not None]
    try:
        return start + timedelta(seconds=min(seconds)) if seconds else None
    except OverflowError:
        return None  # behind the end of the calendar there is no deadline to keep


def extended(
    deadline: datetime | None, paused_at: datetime, resumed_at: datetime, *, human_time_counts: bool
) -> datetime | None:
    """The deadline after a wait for a person; a clock that went back takes nothing away."""
    if deadline is None or human_time_counts:
        return deadline
    return deadline + max(resumed_at - paused_at, timedelta())


def earliest(*deadlines: datetime | None) -> datetime | None:
    """The one that holds: of a child's own, its parent's and its packet's, or of all that a run waits for."""
    return min((each for each in deadlines if each is not None), default=None)


def remaining(deadline: datetime | None, now: datetime) -> float | None:
    """The seconds that are left, never below zero; None without a deadline."""
    return None if deadline is None else max((deadline - now).total_seconds(), 0.0)


def time_for_call(policy: TimeoutPolicy, deadline: datetime | None, now: datetime) -> float | None:
    """How long one tool call may take by itself; None where the run's own deadline, if any, comes first.

    At the deadline the run ends, with all its calls. A call that timed out then would be one more unknown outcome
    that nobody is left to be asked about.
    """
    left = remaining(deadline, now)
    if policy.seconds is None or (left is not None and left <= policy.seconds):
        return None
    return policy.seconds


def timed_out(deadline: datetime | None, now: datetime) -> LimitReached | None:
    """What a run ends with whose time is up; None while there is time."""
    if deadline is None or now < deadline:
        return None
    words = (
        f"the deadline of the run, {deadline.isoformat()}, has passed. "
        "Raise AgentExecutionLimits.timeout_seconds, or give a smaller task."
    )
    return LimitReached(LimitCode.TIMEOUT, "timeout_seconds", words)
