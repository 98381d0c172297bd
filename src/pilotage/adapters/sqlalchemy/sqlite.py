"""SQLite: one file, write-ahead log, one writer at a time, durable at every commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from pilotage.adapters.sqlalchemy.columns import microseconds
from pilotage.adapters.sqlalchemy.engines import Engines, first_value
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.sqlite_turns import LOG_PAGES, Turns
from pilotage.adapters.sqlalchemy.start_errors import DatabaseDurabilityError
from pilotage.ids import IClock

_FULL = 2


class SqliteEngines(Engines):
    """The engines of an SQLite file. Its clock is that of the machine: all who can open the file share it."""

    single = None
    writers = 1
    # A file that is gone does not come back by itself.
    patience_seconds = 0.0

    def __init__(self, url: URL, settings: DatabaseSettings, clock: IClock) -> None:
        self._url, self._settings = url, settings
        self._made: list[Engine] = []
        self._turns = Turns(settings.timeout_seconds, clock)
        self.writes_in_place = settings.may_lose_commits_on_power_failure
        self.writing = self._writer("NORMAL" if settings.may_lose_commits_on_power_failure else "FULL")
        self.hinting = self._writer("NORMAL")
        # `foreign_keys` and the like matter to writers only; a reader that tries to write is a mistake of ours.
        self.reading = self._engine(
            settings.pool_size, lambda: microseconds(clock.now()), "PRAGMA query_only = ON"
        )
        _make_private(Path(str(url.database)))

    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """On a connection that the one thread that writes keeps."""
        return self._turns.begin(engine)

    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """On the connection of the thread that writes, while that has nothing to do."""
        return self._turns.begin_in_place(self.writing)

    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Nothing to do: there is one writer at a time."""

    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Nothing to do: nobody travels."""
        return nullcontext()

    def check_durability(self, *, may_lose_commits: bool) -> None:
        with self.writing.begin() as connection:
            mode = str(first_value(connection, "PRAGMA journal_mode"))
            synchronous = int(first_value(connection, "PRAGMA synchronous"))
        if mode != "wal":
            raise DatabaseDurabilityError(
                f"{self._url.database}: the file cannot have a write-ahead log (journal_mode is {mode!r}). "
                "Put it on a local file system that can be written to."
            )
        if synchronous < _FULL and not may_lose_commits:
            raise DatabaseDurabilityError(
                f"{self._url.database}: synchronous is {synchronous}, and commits need FULL. "
                "Allow it with may_lose_commits_on_power_failure=True."
            )

    def dispose(self) -> None:
        self._turns.close()
        for engine in self._made:
            engine.dispose()

    def _writer(self, synchronous: str) -> Engine:
        engine = self._engine(
            # One is kept by the thread that writes, the other is for whoever opens or upgrades the file.
            2,
            self._turns.moment,
            "PRAGMA journal_mode = WAL",
            f"PRAGMA synchronous = {synchronous}",
            f"PRAGMA wal_autocheckpoint = {LOG_PAGES}",
            "PRAGMA foreign_keys = ON",
        )
        event.listen(engine, "begin", self._turns.begin_immediate)
        return engine

    def _engine(self, pool_size: int, time: Callable[[], int], *pragmas: str) -> Engine:
        engine = create_engine(
            self._url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=self._settings.timeout_seconds,
            connect_args={"check_same_thread": False, "timeout": self._settings.timeout_seconds},
        )
        event.listen(engine, "connect", partial(_set_up, pragmas=pragmas, time=time))
        self._made.append(engine)
        return engine


def _make_private(file: Path) -> None:
    """A file that nobody but its owner reads, where there is none; the log beside it gets the same mode."""
    # What cannot be made is reported when somebody connects.
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=True)


def _set_up(
    connection: sqlite3.Connection, _: Any, *, pragmas: tuple[str, ...], time: Callable[[], int]
) -> None:
    # We begin transactions ourselves; the driver would begin them at the first statement that writes.
    connection.isolation_level = None
    connection.create_function("clock_timestamp", 0, time)
    for pragma in pragmas:
        connection.execute(pragma).close()
