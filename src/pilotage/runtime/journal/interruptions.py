"""What ends an attempt at a run without ending the run.

They derive from `BaseException`, so that no `except Exception` of an agent can swallow them. After one of
them the attempt is dead: every further effect of it raises the same again, in `finally` blocks too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pilotage.agent.limits import LimitCode
from pilotage.agent.state import AgentSituation
from pilotage.jsonvalue import JsonObject

AWAITS = "awaits"
"""The key in the facts of a pause that names the kind of message which the program waits for."""


class RunInterruption(BaseException):
    """The base of everything that ends an attempt."""


class Paused(RunInterruption):
    """The run waits for somebody; what for is recorded. Where it is no question to a person, `reason` says it in
    words and `facts` for programs.
    """

    def __init__(self, *wait_ids: str, reason: str | None = None, facts: JsonObject | None = None) -> None:
        super().__init__(*wait_ids)
        self.wait_ids = wait_ids
        self.reason = reason
        self.facts: JsonObject = facts or {}


class RunEnded(RunInterruption):
    """Something ends the run, such as a person's answer: `situation` is what it ends in, or its end begins with."""

    def __init__(
        self, situation: AgentSituation, reason: str, *, code: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(situation, reason)
        self.situation = situation
        self.reason = reason
        self.code = code
        self.retryable = retryable


class LimitReached(RunInterruption):
    """A bound of the run is reached or cannot be kept: the run ends, with what it has so far.

    `code` is for programs, `limit` names the bound, `reason` is a sentence with its value and the way out.
    """

    def __init__(self, code: LimitCode, limit: str, reason: str) -> None:
        super().__init__(code, limit, reason)
        self.code = code
        self.limit = limit
        self.reason = reason

    @property
    def situation(self) -> AgentSituation:
        """What the run ends in."""
        return AgentSituation.TIMED_OUT if self.code is LimitCode.TIMEOUT else AgentSituation.FAILED


class RunOwnershipLost(RunInterruption):
    """Somebody else has taken the run over; this attempt must not act any more."""


class RunDiverged(RunInterruption):
    """The program asks for something else than what is recorded; `difference` says what, in words."""

    def __init__(self, action_id: str, difference: str) -> None:
        super().__init__(f"{action_id}: {difference}")
        self.action_id = action_id
        self.difference = difference


class StoreUnavailable(RunInterruption):
    """The journal cannot be written, and whether the last rows are in it is unknown: nothing more may happen."""


class HandedOver(RunInterruption):
    """The process is to stop: the run stays as it is, and whoever takes it up goes on from there."""


class CancelledMeanwhile(RunInterruption):
    """Somebody cancelled the run while it waited for the last of its tasks: it does not end as it was about to."""


class StartRefused(RunInterruption):
    """The run cannot begin: its conversation is held by another run, or the run it belongs to is ending."""


_FIRST_TO_COUNT = (RunOwnershipLost, StoreUnavailable, RunDiverged, LimitReached, RunEnded, HandedOver)


def what_counts(end: BaseException) -> BaseException:
    """What ended the program of a run; in a group of its tasks, what counts most, or the group if all have failed.

    Raises:
        BaseException: something unknown in the group, which decides over all.
    """
    if not isinstance(end, BaseExceptionGroup):
        return end
    leaves = list(_leaves(cast(BaseException, end)))
    for each in leaves:
        if not isinstance(each, (RunInterruption, Exception)):
            raise each
    ends = [each for each in leaves if isinstance(each, RunInterruption)]
    return first_to_count(ends) if ends else cast(BaseException, end)


def interruption_in(end: BaseException) -> RunInterruption:
    """What ended a branch that did not come to an outcome; in a group of its tasks, what counts most.

    Raises:
        BaseException: `end` itself, where something unknown ended the branch.
    """
    leaves = list(_leaves(end))
    ends = [each for each in leaves if isinstance(each, RunInterruption)]
    if not ends or not all(isinstance(each, RunInterruption | Exception) for each in leaves):
        raise end
    return first_to_count(ends)


def first_to_count(ends: Sequence[RunInterruption]) -> RunInterruption:
    """Of several ends the one that decides; of equal ones the first. Waiting is no end while something else is."""
    return min(ends, key=_rank)


def _rank(end: RunInterruption) -> int:
    if isinstance(end, Paused):
        return len(_FIRST_TO_COUNT) + 1
    ranks = (rank for rank, kind in enumerate(_FIRST_TO_COUNT) if isinstance(end, kind))
    return next(ranks, len(_FIRST_TO_COUNT))


def _leaves(end: BaseException) -> Iterator[BaseException]:
    if isinstance(end, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", end).exceptions:
            yield from _leaves(each)
    else:
        yield end
