"""Calls that wait: for an event outside of the run, which parks the call, or for the end of the record."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Effect
from pilotage.runtime.journal.interruptions import Paused
from pilotage.runtime.people.requests import is_recovery


async def parked(run: Run, effect: Effect, pause: Paused) -> NoReturn:
    """Wait for an event outside of the run; a question that the program does not wait for any more is withdrawn.

    Raises:
        CancelledError: the program cut the call short.
        RunInterruption: the run pauses, or the attempt is over.
    """
    call = effect.call
    if call is None or run.replay.over is not None or run.replay.liveness.is_ending:
        raise pause
    if effect.when_parked is not None:
        effect.when_parked()
    asked = run.questions.open
    is_unknown = any(is_recovery(asked[wait]) for wait in pause.wait_ids if wait in asked)
    may_withdraw = pause.may_withdraw and not is_unknown
    try:
        await run.replay.park(call, pause, may_withdraw=may_withdraw)
    except asyncio.CancelledError:
        if call.cut_at is not None:
            run.outcomes.cut(effect, run.questions.withdraw(pause.wait_ids))
            await effect.abandon()
        raise
    raise AssertionError("a parked call does not return")


async def until_it_may_act(run: Run, effect: Effect) -> None:
    """Wait for the end of the record, if the effect was entered earlier only to ask about it."""
    if effect.call is not None and effect.call.is_only_asked:
        await run.replay.hold_again(effect.call)
