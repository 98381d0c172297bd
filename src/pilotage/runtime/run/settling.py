"""The tasks of a run that are still at something when its program has come to an end.

They may come to their own end, as long as the run has time; then they are stopped where they stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection

from pilotage.agent.state import AgentStatus
from pilotage.runtime.budget.deadlines import remaining, timed_out
from pilotage.runtime.door.run import Effects
from pilotage.runtime.journal.interruptions import CancelledMeanwhile, RunInterruption


class RemainingTasks:
    """Waits for the siblings of one attempt's own task."""

    def __init__(self, effects: Effects) -> None:
        self.is_waiting = False
        self._effects = effects
        self._waited_for: Collection[asyncio.Task[object]] = ()

    async def wait(self) -> None:
        """Return when all have come to their end, or wait for people themselves.

        Raises:
            LimitReached: the time of the run is up; they have been stopped.
        """
        if siblings := self._effects.liveness.siblings():
            await self._in_time(asyncio.wait(siblings))

    async def come_to_rest(self, end: RunInterruption, *, at_once: bool = False) -> None:
        """Nothing new begins; return when nothing is under way any more.

        Raises:
            LimitReached: the time of the run is up; what was under way has been stopped.
        """
        liveness = self._effects.liveness
        liveness.end(end)
        if at_once:
            await self.stopped()
        if liveness.under_way:
            await self._in_time(liveness.quiesce(end))
        elif self._effects.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def stopped(self) -> None:
        """Stop them, and return when they are."""
        siblings = self._waited_for = self._effects.liveness.siblings()
        self.stop()
        if siblings:
            await asyncio.wait(siblings)

    def stop(self) -> None:
        """Stop those that are waited for."""
        for task in self._waited_for:
            task.cancel()

    async def _in_time(self, rest: Awaitable[object]) -> None:
        self.is_waiting = True
        try:
            await self._rested(rest)
        finally:
            self.is_waiting = False
        if self._effects.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def _rested(self, rest: Awaitable[object]) -> None:
        self._waited_for = self._effects.liveness.siblings()
        if self._effects.deadline is None or not self._waited_for:
            await rest
            return
        resting, clock = asyncio.ensure_future(rest), self._effects.clock
        left = remaining(self._effects.deadline, clock.now()) or 0.0
        late = asyncio.ensure_future(clock.sleep(left))
        try:
            await asyncio.wait([resting, late], return_when=asyncio.FIRST_COMPLETED)
            is_late = not resting.done()
            if is_late:
                self.stop()
            await resting
        finally:
            late.cancel()
            resting.cancel()
        reached = timed_out(self._effects.deadline, clock.now()) if is_late else None
        if reached is not None:
            raise reached
