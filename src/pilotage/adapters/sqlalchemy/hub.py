"""Handing hints to those who listen in this process: each run at most once, and only so many runs."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from threading import Lock

from pilotage.agent.ports.leases import IWakeUpSubscription

_CAPACITY = 1000


class WakeUpSubscription(IWakeUpSubscription):
    """The hints of one listener, in the order they came, each run once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unheard: dict[str, None] = {}
        self._came = asyncio.Event()

    def hear(self, run_ids: Iterable[str]) -> None:
        """Take hints in from whatever thread."""
        # A loop that is closed has nobody left who could hear.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, tuple(run_ids))

    async def next(self) -> str:
        # Taken out only after the wait: who is cancelled in it leaves the hint to the next call.
        while not self._unheard:
            self._came.clear()
            await self._came.wait()
        run_id = next(iter(self._unheard))
        del self._unheard[run_id]
        return run_id

    def _take(self, run_ids: tuple[str, ...]) -> None:
        for run_id in run_ids:
            if len(self._unheard) < _CAPACITY:
                self._unheard[run_id] = None
        self._came.set()


class WakeUpHub:
    """Everybody who listens in this process, in whatever event loop."""

    def __init__(self) -> None:
        self._listeners: set[WakeUpSubscription] = set()
        self._lock = Lock()

    def tell(self, *run_ids: str) -> None:
        """Hint at runs; called from whatever thread, and never waits."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.hear(run_ids)

    @contextmanager
    def listening(self) -> Generator[WakeUpSubscription]:
        """Listen for the length of the block."""
        listener = WakeUpSubscription()
        with self._lock:
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)
