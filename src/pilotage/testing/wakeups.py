"""The wake-up port in memory: the "processes" of one test share it with their store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription
from pilotage.checks import reject_not_positive

_CAPACITY = 1000


class MemoryWakeUps(IAgentWakeUps):
    """Hints to everybody who listens; each listener has room for `capacity` runs, further ones are dropped."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        reject_not_positive(self, capacity=capacity)
        self._capacity = capacity
        self._listeners: set[MemoryWakeUpSubscription] = set()

    async def notify(self, run_id: str) -> None:
        for listener in self._listeners:
            listener.hear(run_id)

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        listener = MemoryWakeUpSubscription(self._capacity)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)


class MemoryWakeUpSubscription(IWakeUpSubscription):
    """The hints of one listener, in the order they came, each run once."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._unheard: dict[str, None] = {}
        self._came = asyncio.Event()

    def hear(self, run_id: str) -> None:
        """Take a hint in, unless it is there already or there is no room."""
        if len(self._unheard) < self._capacity:
            self._unheard[run_id] = None
            self._came.set()

    async def next(self) -> str:
        # Taken out only after the wait: who is cancelled in it leaves the hint to the next call.
        while not self._unheard:
            self._came.clear()
            await self._came.wait()
        run_id = next(iter(self._unheard))
        del self._unheard[run_id]
        return run_id
