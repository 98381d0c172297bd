"""SQLite: one file, write-ahead log, one writer at a time, durable at every commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import URL, BigInteger, Connection, Engine, create_engine, event
from sqlalchemy.dialects import sqlite

from pilotage.adapters.sqlalchemy.dialect import (
    DatabaseLine,
    Engines,
    SqlDialect,
    WouldWaitError,
    microseconds,
    raising_sqlalchemy_errors,
)
from pilotage.adapters.sqlalchemy.errors import DatabaseDurabilityError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.ids import IClock

LOG_PAGES = 4000
"""How long the log may get before a checkpoint: a page that is written many times is then copied once."""

IN_A_ROW = 200
"""So many transactions in place, then one in the thread, which makes a checkpoint where the log is too long."""

_BEGIN = "BEGIN IMMEDIATE"
_FULL = 2
_ERROR = 0xFF
"""The part of an error code that says what is wrong; the rest says where."""


Functions: TypeAlias = Mapping[str, Callable[[], int]]
"""Functions of a connection, by the names that statements use."""


class MachineMoment(NamedTuple):
    """A moment by both clocks of the machine, in microseconds."""

    since_1970: int
    since_boot: int

    @classmethod
    def of(cls, clock: IClock) -> MachineMoment:
        """Return the current moment."""
        return cls(microseconds(clock.now()), round(clock.monotonic() * 1_000_000))


def _functions(moment: Callable[[], MachineMoment]) -> Functions:
    return {
        "clock_timestamp": lambda: moment().since_1970,
        "boot_timestamp": lambda: moment().since_boot,
    }


class SqliteEngines(Engines):
    """The engines of an SQLite file. Its clocks are those of the machine, shared by all processes that open the file.

    Statements read the time of day, and the time since the machine started, which leases are measured by.
    """

    single = None
    answers_at_once = True
    writers = 1
    # A missing file does not come back by itself.
    retry_seconds = 0.0

    def __init__(self, url: URL, settings: DatabaseSettings, clock: IClock) -> None:
        self._url, self._settings = url, settings
        self._made: list[Engine] = []
        self._transactions = Transactions(settings.timeout_seconds, clock)
        self.writes_in_place = settings.may_lose_commits_on_power_failure
        self.writing = self._writer("NORMAL" if settings.may_lose_commits_on_power_failure else "FULL")
        self.hinting = self._writer("NORMAL")
        # `foreign_keys` and the like matter to writers only; a reader must not write.
        self.reading = self._engine(
            settings.pool_size, _functions(partial(MachineMoment.of, clock)), ("PRAGMA query_only = ON",)
        )
        _make_private(Path(str(url.database)))

    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Begin a transaction on a connection that belongs to the one thread that writes."""
        return self._transactions.begin(engine)

    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """Begin a transaction on the connection of the thread that writes, while that is idle."""
        return self._transactions.begin_in_place(self.writing)

    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Do nothing: there is one writer at a time."""

    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Do nothing: there is no network."""
        return nullcontext()

    def check_durability(self, *, may_lose_commits: bool) -> None:
        with self.writing.begin() as connection:
            mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
            synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
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
        self._transactions.close()
        for engine in self._made:
            engine.dispose()

    def _writer(self, synchronous: str) -> Engine:
        engine = self._engine(
            # One belongs to the thread that writes, the other is for opening or upgrading the file.
            2,
            _functions(self._transactions.moment),
            (
                "PRAGMA journal_mode = WAL",
                f"PRAGMA synchronous = {synchronous}",
                f"PRAGMA wal_autocheckpoint = {LOG_PAGES}",
                "PRAGMA foreign_keys = ON",
            ),
        )
        event.listen(engine, "begin", self._transactions.begin_for_sqlalchemy)
        return engine

    def _engine(self, pool_size: int, functions: Functions, pragmas: tuple[str, ...]) -> Engine:
        engine = create_engine(
            self._url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=self._settings.timeout_seconds,
            connect_args={"check_same_thread": False, "timeout": self._settings.timeout_seconds},
        )
        event.listen(engine, "connect", partial(_set_up, pragmas=pragmas, functions=functions))
        self._made.append(engine)
        return engine


def _make_private(file: Path) -> None:
    """Make the file, readable for its owner only, where there is none; its log gets the same mode."""
    # An error is reported by the first connection.
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=True)


def _set_up(
    connection: sqlite3.Connection, _: Any, *, pragmas: tuple[str, ...], functions: Functions
) -> None:
    # We begin transactions ourselves; the driver would begin them at the first statement that writes.
    connection.isolation_level = None
    for name, function in functions.items():
        connection.create_function(name, 0, function)
    for pragma in pragmas:
        connection.execute(pragma).close()


class Transactions:
    """The transactions of this process in one file: one at a time, in the thread that writes or in place.

    Connections are reused, because getting one takes as long as a transaction. The driver begins and ends a
    transaction; SQLAlchemy takes part only where a statement is executed through it. In place, a connection does not
    wait for locks and makes no checkpoints; in the thread it does both.
    """

    def __init__(self, timeout_seconds: float, clock: IClock) -> None:
        self._busy_milliseconds = round(timeout_seconds * 1000)
        self._clock = clock
        self._lock = Lock()
        self._connections: dict[Engine, Connection] = {}
        self._in_a_row = 0
        self._moment = MachineMoment(0, 0)

    def moment(self) -> MachineMoment:
        """Return when the open transaction began: what is written together has one time.

        One value is enough for all connections, because the open transaction holds the lock of the file.
        """
        return self._moment

    def begin(self, engine: Engine) -> Transaction:
        """Begin a transaction in the thread that writes."""
        self._lock.acquire()
        try:
            if self._in_a_row:
                self._in_a_row = 0
                for connection in self._connections.values():
                    _tune(connection, self._busy_milliseconds, LOG_PAGES)
            if engine not in self._connections:
                self._connections[engine] = engine.connect()
            return self._begun(engine)
        except BaseException:
            self._lock.release()
            raise

    def begin_in_place(self, engine: Engine) -> Transaction:
        """Begin a transaction on the event loop.

        Raises:
            WouldWaitError: another transaction is open, in this process or another, or the thread is due.
        """
        if self._in_a_row >= IN_A_ROW or engine not in self._connections or not self._lock.acquire(False):
            raise WouldWaitError
        try:
            if not self._in_a_row:
                _tune(self._connections[engine], 0, 0)
            self._in_a_row += 1
            return self._begun(engine)
        except BaseException as error:
            self._lock.release()
            if _is_busy(error):
                raise WouldWaitError from error
            raise

    def begin_for_sqlalchemy(self, connection: Connection) -> None:
        """Begin what SQLAlchemy begins, unless the driver is in a transaction already."""
        line = DatabaseLine(connection)
        if not line.driver.in_transaction:
            self._lock_file(line)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()

    def _begun(self, engine: Engine) -> Transaction:
        line = DatabaseLine(self._connections[engine])
        self._lock_file(line)
        return Transaction(line, self._lock)

    def _lock_file(self, line: DatabaseLine) -> None:
        """Lock the file at the beginning: a transaction that reads first might not be allowed to write."""
        line.carry_out(_BEGIN, ())
        # After the lock: what other writers wrote while this one waited is older.
        self._moment = MachineMoment.of(self._clock)


class Transaction:
    """A transaction that has begun: committed at the end of a block, rolled back where the block fails."""

    def __init__(self, line: DatabaseLine, lock: Lock) -> None:
        self._line, self._lock = line, lock

    def __enter__(self) -> Connection:
        return self._line.connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._roll_back()
        finally:
            self._lock.release()

    def _commit(self) -> None:
        try:
            if self._line.connection.in_transaction():
                self._line.connection.commit()
            else:
                self._line.carry_out("COMMIT", ())
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        with raising_sqlalchemy_errors(self._line.connection):
            # SQLAlchemy may have ended its part already, or have none.
            self._line.connection.rollback()
            self._line.driver.rollback()


def _is_busy(error: BaseException) -> bool:
    code: int = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & _ERROR == sqlite3.SQLITE_BUSY


def _tune(connection: Connection, busy_milliseconds: int, log_pages: int) -> None:
    line = DatabaseLine(connection)
    for pragma in (f"busy_timeout = {busy_milliseconds}", f"wal_autocheckpoint = {log_pages}"):
        line.carry_out(f"PRAGMA {pragma}", ()).close()


def _refusal(url: URL) -> str | None:
    if url.database and ":memory:" not in url.database:
        return None
    return (
        "would forget everything with its process. Name a file: sqlite:///file.db; in tests "
        "use pilotage.testing.MemoryStore()."
    )


SQLITE = SqlDialect(
    name="sqlite",
    driver="sqlite",
    package="sqlite3",
    extra="sqlalchemy",
    example="sqlite:///file.db",
    engines=SqliteEngines,
    insert=sqlite.insert,
    has_moments=False,
    moment_type=BigInteger(),
    takes_rows_as_json=False,
    # Functions that each connection brings along, see `_functions`.
    now="clock_timestamp()",
    lease_now="boot_timestamp()",
    later="({now} + CAST({seconds} * 1000000 AS INTEGER))",
    hour="({moment} / 3600000000)",
    day="date({moment} / 1000000, 'unixepoch')",
    charges="JOIN json_each(j.costs) AS charge",
    charge_field="json_extract(charge.value, '$[{place}]')",
    # It has no exact decimals.
    amount="{text}",
    upgrade_lock=None,
    unreachable="{name} cannot be used: {reason}. Check the file, or name another one in {variable}.",
    refusal=_refusal,
)
