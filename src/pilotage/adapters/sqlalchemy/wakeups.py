"""`SqlAlchemyWakeUps`: hints by the channel of the database, or within the process where it has none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Lock

from pilotage.adapters.sqlalchemy.columns import from_stored, to_stored
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import StoreUnreachableError
from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription

_CAPACITY = 1000


class SqlAlchemyWakeUps(IAgentWakeUps):
    """Hints to all processes that listen on one PostgreSQL database; for an SQLite file, to those in this process.

    Other processes on the same file find their runs by polling.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hub = WakeUpHub()
        self._channel = database.engines.wake_ups(lambda stored: self._hub.publish(from_stored(stored)))

    async def notify(self, run_id: str) -> None:
        channel = self._channel
        if channel is None:
            self._hub.publish(run_id)
            return
        with suppress(StoreUnreachableError):
            await self._database.read(
                lambda connection: channel.send(connection, to_stored(run_id)), waits=False
            )

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        with self._hub.subscription() as subscription:
            if self._channel is not None:
                await asyncio.to_thread(self._channel.begin)
            yield subscription

    def close(self) -> None:
        """Listen no longer."""
        if self._channel is not None:
            self._channel.end()


class WakeUpSubscription(IWakeUpSubscription):
    """The hints of one subscriber, in the order they came, each run once, and only so many runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread: dict[str, None] = {}
        self._came = asyncio.Event()

    def add(self, run_id: str) -> None:
        """Add a hint, from any thread."""
        # A closed loop has no task left that could read it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._add, run_id)

    async def next(self) -> str:
        # Removed only after the wait: a cancelled call leaves the hint to the next one.
        while not self._unread:
            self._came.clear()
            await self._came.wait()
        run_id = next(iter(self._unread))
        del self._unread[run_id]
        return run_id

    def _add(self, run_id: str) -> None:
        if len(self._unread) < _CAPACITY:
            self._unread[run_id] = None
        self._came.set()


class WakeUpHub:
    """All subscribers of this process, in any event loop."""

    def __init__(self) -> None:
        self._subscribers: set[WakeUpSubscription] = set()
        self._lock = Lock()

    def publish(self, run_id: str) -> None:
        """Hint at a run, from any thread, without waiting."""
        with self._lock:
            subscribers = tuple(self._subscribers)
        for subscriber in subscribers:
            subscriber.add(run_id)

    @contextmanager
    def subscription(self) -> Generator[WakeUpSubscription]:
        """Subscribe for the length of the block."""
        subscriber = WakeUpSubscription()
        with self._lock:
            self._subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            with self._lock:
                self._subscribers.discard(subscriber)
