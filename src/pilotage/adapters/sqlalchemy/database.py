"""The database of an application: its engines, and the threads that talk to it.

The event loop never waits for a database: each request is one transaction in a thread. SQLite allows one writer at a
time, so one thread writes there, and no thread of this process waits for a lock of another. A few rows for a file that
is not synced to its disk are the exception: the loop writes them itself, in less time than it takes to wake a thread.

A request that may be repeated is retried while the server is away: it restarts, or the connection is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, exc

from pilotage.adapters.sqlalchemy.columns import UNDECODABLE
from pilotage.adapters.sqlalchemy.dialect import Engines, WouldWaitError, is_away, translated
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings, shown
from pilotage.adapters.sqlalchemy.stored_entries import NO_CODES, RowCodes
from pilotage.adapters.sqlalchemy.supported import database_url, dialect_of
from pilotage.adapters.sqlalchemy.threads import DatabaseThreads, Gathering, ThreadsEndedError, Work
from pilotage.errors import DamagedEntryError
from pilotage.ids import IClock, SystemClock

T = TypeVar("T")

Begin = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction, for the length of a block."""

_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0


class Database:
    """One database. Making one connects to nothing; `store.open_database` connects and checks it."""

    def __init__(self, settings: DatabaseSettings, clock: IClock | None = None) -> None:
        url = database_url(settings.url)
        self.settings, self.url = settings, url
        self.name = shown(settings.url)
        self.dialect = dialect_of(url.get_backend_name())
        self._clock = clock or SystemClock()
        self.engines = self.dialect.engines(url, settings, self._clock)
        self.codes: RowCodes = NO_CODES
        self._is_closed = False
        self._writers = DatabaseThreads(self.engines.writers, "pilotage-writer")
        self._readers = DatabaseThreads(settings.pool_size, "pilotage-reader")
        self._hints = Gathering(self._writers, partial(_hint_twice, self.engines))

    async def read(self, work: Work[T], *, waits: bool = True) -> T:
        """Read on a connection without a transaction: each statement sees what is committed.

        Raises:
            StoreUnreachableError: the database did not answer.
            DamagedEntryError: what is stored cannot be decoded.
        """
        job = partial(_decoded_within, work, self.engines.reading.connect)
        try:
            return await self._asked(lambda: self._readers.do(job), retries=waits)
        except ConflictingWriteError as error:
            # Nothing was written: a number that is stored has no place in the statement.
            raise DamagedEntryError.unreadable("a stored entry", error) from error

    async def rows(self, query: Executable, given: Mapping[str, Any], make: Callable[[Stored], T]) -> list[T]:
        """Read the rows of a query, each converted by `make` in the thread that reads.

        All of them are fetched first: a row that cannot be converted must not leave the query open, because what the
        connection reads next would be as old as the query.
        """
        return await self.read(
            lambda connection: [make(values) for values in connection.execute(query, given).mappings().all()]
        )

    async def write(self, work: Work[T], *, may_be_repeated: bool = False, is_small: bool = False) -> T:
        """Do work in one transaction, durable on return; small work may be done in place.

        Raises:
            StoreUnreachableError: the database did not answer; whether the work is done is unknown.
            ConflictingWriteError: the work cannot be done; nothing is written.
        """
        return await self.transact(
            partial(_done_within, work), may_be_repeated=may_be_repeated, is_small=is_small
        )

    async def transact(
        self, job: Callable[[Begin], T], *, may_be_repeated: bool = False, is_small: bool = False
    ) -> T:
        """Do a job that begins its transaction by itself, or needs none; otherwise like `write`."""
        if is_small and self.engines.writes_in_place:
            try:
                return self._done_in_place(job)
            except WouldWaitError:
                pass
        begin = partial(self.engines.transaction, self.engines.writing)
        return await self._asked(lambda: self._writers.do(partial(job, begin)), retries=may_be_repeated)

    async def hint(self, work: Work[T], *, is_small: bool = False) -> T:
        """Do work that may be lost with the machine and may be done twice, together with other hints.

        Hints are done in the order they are given; small ones may be done in place. A hint does not wait for a server
        that is away: it is given again later.

        Raises:
            StoreUnreachableError: the database did not answer; whether the work is done is unknown.
        """
        if is_small and self.engines.writes_in_place and self._hints.is_idle:
            try:
                return self._done_in_place(partial(_done_within, work))
            except WouldWaitError:
                pass
        return await self._asked(lambda: self._hints.add(work), retries=False)

    def close(self) -> None:
        """End the threads when all work is done, and close all connections."""
        self._is_closed = True
        for threads in (self._writers, self._readers):
            threads.close()
        self.engines.dispose()

    def _done_in_place(self, job: Callable[[Begin], T]) -> T:
        if self._is_closed:
            raise self._closed()
        try:
            return job(self.engines.transaction_in_place)
        except exc.SQLAlchemyError as error:
            raise translated(error) from error

    async def _asked(self, ask: Callable[[], Awaitable[T]], *, retries: bool) -> T:
        """Return the answer of the database; with `retries`, ask again while the server is away."""
        until, waits = self._clock.monotonic() + self.engines.retry_seconds, retry_delays()
        while True:
            try:
                return await ask()
            except ThreadsEndedError as error:
                raise self._closed() from error
            except exc.SQLAlchemyError as error:
                problem, pause = translated(error), next(waits)
                may_come_back = isinstance(problem, StoreUnreachableError) and problem.is_away
                if not (retries and may_come_back) or self._clock.monotonic() + pause > until:
                    raise problem from error
            await self._clock.sleep(pause)

    def _closed(self) -> StoreUnreachableError:
        return StoreUnreachableError(f"{self.name} is closed: the application has stopped")


def _decoded_within(work: Work[T], begin: Begin) -> T:
    """Do work that only reads.

    Raises:
        DamagedEntryError: what is stored cannot be decoded.
    """
    try:
        return _done_within(work, begin)
    except UNDECODABLE as error:
        raise DamagedEntryError.unreadable("a stored entry", error) from error


def _done_within(work: Work[T], begin: Begin) -> T:
    with begin() as connection:
        return work(connection)


def _hint_twice(engines: Engines, work: Work[T]) -> T:
    """Do a hint, and once more on a new connection where that of the pool had died unnoticed."""
    begin = partial(engines.transaction, engines.hinting)
    try:
        return _done_within(work, begin)
    except exc.DBAPIError as error:
        if not is_away(error):
            raise
    return _done_within(work, begin)


def retry_delays() -> Iterator[float]:
    """Yield the delays before a server that is away is asked again: none first, then longer and longer ones."""
    yield 0.0
    delay = _FIRST_DELAY
    while True:
        yield delay
        delay = min(2 * delay, _LONGEST_DELAY)
