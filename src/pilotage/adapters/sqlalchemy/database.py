"""The database of an application: its engines, and the threads that talk to it.

The event loop never waits for a database: whatever is asked of one is done in a thread, as one transaction. SQLite
has one writer at a time, so one thread writes there, and nobody in this process ever waits for a lock of another. The
exception is what needs no waiting: a few rows for a file that is not forced to its disk are written by the loop itself,
in less time than it takes to wake a thread.

A server that goes away for a while, because it is restarted or a line is cut, is waited for by whoever may ask twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.engines import Engines, WouldWaitError
from pilotage.adapters.sqlalchemy.errors import StoreUnreachableError, is_away, translated
from pilotage.adapters.sqlalchemy.gathering import Gathering
from pilotage.adapters.sqlalchemy.patience import pauses
from pilotage.adapters.sqlalchemy.postgresql import PostgresqlEngines
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings, shown
from pilotage.adapters.sqlalchemy.sqlite import SqliteEngines
from pilotage.adapters.sqlalchemy.threads import Threads, ThreadsEndedError
from pilotage.adapters.sqlalchemy.urls import database_url
from pilotage.ids import IClock, SystemClock

T = TypeVar("T")

Work = Callable[[Connection], T]

Begin = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction, for the length of a block."""


class Database:
    """One database. Making one connects to nothing; `opening.open_database` does, and looks whether it can be used."""

    def __init__(self, settings: DatabaseSettings, clock: IClock | None = None) -> None:
        url = database_url(settings.url)
        self.settings = settings
        self.url = url
        self.name = shown(settings.url)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.engines: Engines = (
            SqliteEngines(url, settings, clock or SystemClock())
            if self.is_sqlite
            else PostgresqlEngines(url, settings)
        )
        self._clock = clock or SystemClock()
        self._writers = Threads(self.engines.writers, "pilotage-writer")
        self._readers = Threads(settings.pool_size, "pilotage-reader")
        self._hints = Gathering(self._writers, partial(_hint_twice, self.engines))

    async def read(self, work: Work[T], *, waits: bool = True) -> T:
        """Read something; each statement sees what is committed.

        Raises:
            StoreUnreachableError: the database did not answer.
        """
        look = partial(_look, self.engines, work)
        return await self._asked(lambda: self._readers.do(look), is_patient=waits)

    async def write(self, work: Work[T], *, may_be_repeated: bool = False, is_small: bool = False) -> T:
        """Do something in one transaction, durable on return; what is small may be done in place.

        Raises:
            StoreUnreachableError: the database did not answer; whether it is done is unknown.
            ConflictingWriteError: it cannot be done; nothing is.
        """
        return await self.transact(partial(_write, work), may_be_repeated=may_be_repeated, is_small=is_small)

    async def transact(
        self, job: Callable[[Begin], T], *, may_be_repeated: bool = False, is_small: bool = False
    ) -> T:
        """Do something that begins its transaction by itself, or does without one; otherwise like `write`."""
        if is_small and self.engines.writes_in_place:
            try:
                return self._done_in_place(job)
            except WouldWaitError:
                pass
        begin = partial(self.engines.transaction, self.engines.writing)
        return await self._asked(lambda: self._writers.do(partial(job, begin)), is_patient=may_be_repeated)

    async def hint(self, work: Work[T], *, is_small: bool = False) -> T:
        """Do something that the machine may undo by failing, and that may be done twice, with what else waits.

        What is small may be done in place; hints are done in the order they are given in. Nobody waits here for a
        server to come back: what is only a hint is given again later.

        Raises:
            StoreUnreachableError: the database did not answer; whether it is done is unknown.
        """
        if is_small and self.engines.writes_in_place and self._hints.is_idle:
            try:
                return self._done_in_place(partial(_write, work))
            except WouldWaitError:
                pass
        return await self._asked(lambda: self._hints.add(work), is_patient=False)

    def close(self) -> None:
        """End the threads when they have done what they are at, and close all connections."""
        for threads in (self._writers, self._readers):
            threads.close()
        self.engines.dispose()

    def _done_in_place(self, job: Callable[[Begin], T]) -> T:
        try:
            self._writers.check_open()
            return job(self.engines.transaction_in_place)
        except (ThreadsEndedError, exc.SQLAlchemyError) as error:
            raise self._translated(error) from error

    async def _asked(self, ask: Callable[[], Awaitable[T]], *, is_patient: bool) -> T:
        """What the database says; whoever is patient asks again while the server is away."""
        until, waits = self._clock.monotonic() + self.engines.patience_seconds, pauses()
        while True:
            try:
                return await ask()
            except (ThreadsEndedError, exc.SQLAlchemyError) as error:
                problem, pause = self._translated(error), next(waits)
                is_away = isinstance(problem, StoreUnreachableError) and problem.is_away
                if not (is_patient and is_away) or self._clock.monotonic() + pause > until:
                    raise problem from error
            await self._clock.sleep(pause)

    def _translated(self, error: ThreadsEndedError | exc.SQLAlchemyError) -> Exception:
        if isinstance(error, ThreadsEndedError):
            return StoreUnreachableError(f"{self.name} is closed: the application has stopped")
        return translated(error)


def _look(engines: Engines, work: Work[T]) -> T:
    with engines.reading.connect() as connection:
        return work(connection)


def _write(work: Work[T], begin: Begin) -> T:
    with begin() as connection:
        return work(connection)


def _hint_twice(engines: Engines, work: Work[T]) -> T:
    """A connection of the pool may have died while nobody used it; then the others have, too, and a new one is made."""
    try:
        return _hint(engines, work)
    except exc.DBAPIError as error:
        if not is_away(error):
            raise
    return _hint(engines, work)


def _hint(engines: Engines, work: Work[T]) -> T:
    with engines.transaction(engines.hinting) as connection:
        return work(connection)
