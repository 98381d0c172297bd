"""`SqlAlchemyWakeUps`: hints by LISTEN and NOTIFY, or within the process where the database is a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any

from sqlalchemy import Connection, Engine, exc, func, select

from pilotage.adapters.sqlalchemy.columns import from_stored, to_stored
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import StoreUnreachableError
from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription

_CHANNEL = "pilotage_wake_ups_"
_CAPACITY = 1000
_POLL_SECONDS = 0.2
_READY_WITHIN = 5.0


class SqlAlchemyWakeUps(IAgentWakeUps):
    """Hints to all processes that listen on one PostgreSQL database; for an SQLite file, to those in this process.

    Other processes on the same file find their runs by polling.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hub = WakeUpHub()
        self._listener = (
            None
            if database.is_sqlite
            else PostgresqlListener(database.engines.writing, _CHANNEL, self._hub.publish)
        )

    async def notify(self, run_id: str) -> None:
        if self._listener is None:
            self._hub.publish(run_id)
            return
        payload = to_stored(run_id)

        def send(connection: Connection) -> None:
            connection.execute(select(func.pg_notify(func.concat(_CHANNEL, func.current_schema()), payload)))

        with suppress(StoreUnreachableError):
            await self._database.read(send, waits=False)

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        with self._hub.subscription() as subscription:
            if self._listener is not None:
                await asyncio.to_thread(self._listener.begin)
            yield subscription

    def close(self) -> None:
        """Listen no longer."""
        if self._listener is not None:
            self._listener.end()


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


class PostgresqlListener:
    """Passes notifications of PostgreSQL on, by one connection and one thread that reconnect by themselves.

    The name of a channel ends in that of the schema, for channels belong to the whole database.
    """

    def __init__(self, engine: Engine, channel: str, publish: Callable[[str], None]) -> None:
        self._engine, self._channel, self._publish = engine, channel, publish
        self._lock = Lock()
        self._is_over = Event()
        self._is_ready = Event()
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Return when notifications are received, or after a while: hints may be lost."""
        with self._lock:
            if self._thread is None and not self._is_over.is_set():
                self._thread = Thread(target=self._listen, name="pilotage-listener", daemon=True)
                self._thread.start()
        self._is_ready.wait(_READY_WITHIN)

    def end(self) -> None:
        """Return when the thread has ended."""
        self._is_over.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _listen(self) -> None:
        from psycopg import Error  # noqa: PLC0415 - only where the database is PostgreSQL

        while not self._is_over.is_set():
            try:
                with _own_connection(self._engine) as connection:
                    self._pass_on(connection)
            except (Error, exc.SQLAlchemyError):
                self._is_ready.clear()
                self._is_over.wait(_POLL_SECONDS)

    def _pass_on(self, connection: Any) -> None:
        row = connection.execute("SELECT quote_ident(%s || current_schema())", [self._channel]).fetchone()
        if row is not None:
            connection.execute(f"LISTEN {row[0]}".encode())
        self._is_ready.set()
        while not self._is_over.is_set():
            for notice in connection.notifies(timeout=_POLL_SECONDS):
                self._publish(from_stored(notice.payload))
                if self._is_over.is_set():
                    return


@contextmanager
def _own_connection(engine: Engine) -> Generator[Any]:
    """Give a connection of the driver, made like those of the pool and not counted among them."""
    borrowed = engine.raw_connection()
    connection: Any = borrowed.driver_connection
    borrowed.detach()
    try:
        connection.rollback()
        connection.autocommit = True
        yield connection
    finally:
        connection.close()
