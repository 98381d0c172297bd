"""Effects that a stage of the admission does not let pass: reservations are given back, the refusal is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pilotage.errors import ToolError
from pilotage.runtime.door.run import RefusedError, RejectedError, Run, Stage
from pilotage.runtime.effect import NOTHING, Effect


async def turned_away(run: Run, effect: Effect, stages: Sequence[Stage], end: BaseException) -> NoReturn:
    """Raise the refusal of a stage, after the stages before it have given their reservations back.

    Raises:
        BaseException: the error that the program gets, or the interruption of the run.
    """
    for stage in stages:
        giving_back = stage.give_back(run, effect)
        if giving_back is not None:
            await giving_back
    try:
        if isinstance(end, RefusedError):
            raise _refused(run, effect, effect.refused(str(end))) from end
        if isinstance(end, RejectedError):
            raise _refused(run, effect, effect.rejected(end.rejection)) from end
        raise end
    finally:
        # The traceback refers to this frame: without the name, both are freed without the collector.
        del end


def _refused(run: Run, effect: Effect, error: BaseException) -> BaseException:
    """Record that an effect must not begin; the record counts, now and in replay."""
    if not isinstance(error, ToolError):
        return error
    if not effect.is_counted and effect.kind.counts is not NOTHING:
        run.spending.absorb(effect.kind.counts)
    run.learn_cut(effect)
    return run.outcomes.ended(effect, error)
