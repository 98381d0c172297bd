"""Delivery of signals from other processes to live runs: by wake-up hints, and by a slow poll that always runs.

The poll is one request for all live runs of the process. While hints come it is slower still: the channel works, and a
hint may be lost all the same.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pilotage.agent.ports.leases import IAgentWakeUps
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.runtime.door.live_run import LiveRun
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services

POLL_SECONDS = 2.0

_MOST_LEFT_OUT = 4
"""How many polls in a row are left out while hints come."""


class SignalWatch:
    """Delivers pending signals to the live runs of this process while there are any."""

    def __init__(self, services: Services, launcher: RunSupervisor) -> None:
        self._services = services
        self._launcher = launcher
        self._watching: asyncio.Task[None] | None = None
        self._seen: dict[asyncio.Task[RunResult], str] = {}
        """The newest pending signal that was delivered to each attempt, as the store marks it."""
        self._has_heard, self._left_out = False, 0

    def begin(self) -> None:
        """Start watching, until `stop` or until no run is live."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="watch over live runs")

    async def stop(self) -> None:
        """Stop watching."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])

    async def deliver(self, signal: AgentSignal) -> None:
        """Deliver a signal to a run that is live here; otherwise send a wake-up hint to the other processes."""
        live = self._launcher.live(signal.agent_state_id)
        if live is not None:
            await _hand_over(live, signal)
        elif self._services.wake_ups is not None:
            with suppress(Exception):
                await self._services.wake_ups.notify(signal.agent_state_id)

    async def _watch(self) -> None:
        wake_ups = self._services.wake_ups
        listening = asyncio.create_task(self._listen(wake_ups)) if wake_ups is not None else None
        try:
            await self._poll()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _poll(self) -> None:
        while self._launcher.live_runs:
            await self._services.clock.sleep(POLL_SECONDS)
            if self._has_heard and self._left_out < _MOST_LEFT_OUT:
                self._left_out += 1
            else:
                self._left_out = 0
                await self._look_after_all()
            self._has_heard = False
        # No run is live. A run that begins while this task ends must start a new watch.
        self._watching = None

    async def _listen(self, wake_ups: IAgentWakeUps) -> None:
        """Deliver signals at wake-up hints, which only save time: if they fail, the poll continues."""
        with suppress(Exception):
            async with wake_ups.subscribe() as hints:
                while True:
                    live = self._launcher.live(await hints.next())
                    self._has_heard = True
                    if live is not None:
                        await self._look(live.run.ledger.run)

    async def _look_after_all(self) -> None:
        """Deliver the signals of all runs that have got one since; if the store fails, the next poll tries again."""
        with suppress(Exception):
            marks = await self._services.signals.newest_pending(self._launcher.live_runs)
            seen, self._seen = self._seen, {}
            for run, mark in marks.items():
                live = self._launcher.live(run.run_id)
                if live is not None and (seen.get(live.task) == mark or await self._look(run)):
                    self._seen[live.task] = mark

    async def _look(self, run: RunKey) -> bool:
        """Deliver the pending signals of a run; False if the store fails, and the next poll tries again."""
        with suppress(Exception):
            for signal in await self._services.pending_signals(run):
                live = self._launcher.live(run.run_id)
                if live is not None:
                    await _hand_over(live, signal)
            return True
        return False


async def _hand_over(live: LiveRun, signal: AgentSignal) -> None:
    if signal.kind is not AgentSignalKind.CANCEL:
        live.receive(signal)
        return
    # An attempt that is over cannot be cancelled; the present owner of the run gets the signal as well.
    with suppress(RunInterruption):
        await live.cancel(signal)
