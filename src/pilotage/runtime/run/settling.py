"""The tasks of a run that are still at work when its program has ended.

They may come to their own end, as long as the run has time; then they are stopped where they stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection

from pilotage.agent.state import AgentStatus
from pilotage.runtime.budget.deadlines import remaining, timed_out
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.interruptions import CancelledMeanwhile, RunInterruption


class RemainingTasks:
    """Waits for the other tasks of one attempt."""

    def __init__(self, run: Run) -> None:
        self.is_waiting = False
        self._run = run
        self._awaited: Collection[asyncio.Task[object]] = ()

    async def wait(self) -> None:
        """Return when all have come to their end, or wait for people themselves.

        Raises:
            LimitReached: the time of the run is up; they have been stopped.
        """
        if siblings := self._run.replay.liveness.siblings():
            await self._in_time(asyncio.wait(siblings))

    async def settle(self, end: RunInterruption, *, at_once: bool = False) -> None:
        """Let nothing new begin; return when no call is under way any more.

        Raises:
            CancelledMeanwhile: the run was cancelled in the meantime.
            LimitReached: the time of the run is up; what was under way has been stopped.
        """
        liveness = self._run.replay.liveness
        liveness.end(end)
        if at_once:
            await self.stopped()
        if liveness.under_way:
            await self._in_time(liveness.quiesce(end))
        elif self._run.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def stopped(self) -> None:
        """Stop them, and return when they are."""
        siblings = self._awaited = self._run.replay.liveness.siblings()
        self.stop()
        if siblings:
            await asyncio.wait(siblings)

    def stop(self) -> None:
        """Stop those that are waited for."""
        for task in self._awaited:
            task.cancel()

    async def _in_time(self, rest: Awaitable[object]) -> None:
        self.is_waiting = True
        try:
            await self._before_deadline(rest)
        finally:
            self.is_waiting = False
        if self._run.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def _before_deadline(self, rest: Awaitable[object]) -> None:
        deadline, clock = self._run.source.deadline, self._run.ports.clock
        self._awaited = self._run.replay.liveness.siblings()
        if deadline is None or not self._awaited:
            await rest
            return
        resting = asyncio.ensure_future(rest)
        late = asyncio.ensure_future(clock.sleep(remaining(deadline, clock.now()) or 0.0))
        try:
            await asyncio.wait([resting, late], return_when=asyncio.FIRST_COMPLETED)
            is_late = not resting.done()
            if is_late:
                self.stop()
            await resting
        finally:
            late.cancel()
            resting.cancel()
        reached = timed_out(deadline, clock.now()) if is_late else None
        if reached is not None:
            raise reached
