"""Which of several ends counts, where tasks of a run end at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pilotage.runtime.actions.interruptions import (
    HandedOver,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)

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
