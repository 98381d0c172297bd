"""PostgreSQL: many writers, row locks, the server's clock."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select

from pilotage.adapters.sqlalchemy.connections import (
    DatabaseLine,
    Engines,
    WouldWaitError,
    raising_sqlalchemy_errors,
)
from pilotage.adapters.sqlalchemy.errors import DatabaseDurabilityError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings

_LOCAL = "SET LOCAL synchronous_commit = off"


class PostgresqlEngines(Engines):
    """The engines of a PostgreSQL database; all of them share one pool."""

    answers_at_once = False
    writes_in_place = False

    def __init__(self, url: URL, settings: DatabaseSettings) -> None:
        self.writers = settings.pool_size
        self.retry_seconds = settings.timeout_seconds
        # Most connections execute one statement; those that need a transaction ask for it.
        self.reading = create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            # No table has a column of this kind, so the server is not asked for it.
            use_native_hstore=False,
            # One more is reserved for commits.
            pool_size=settings.pool_size + 1,
            max_overflow=0,
            pool_timeout=settings.timeout_seconds,
            connect_args={"connect_timeout": max(2, math.ceil(settings.timeout_seconds))},
        )
        self.writing = self.reading.execution_options(isolation_level="READ COMMITTED")
        self._reserved = ReservedConnection(self.reading)
        self.single = self._reserved.connection
        self.hinting = self.writing.execution_options()
        event.listen(self.hinting, "begin", _need_not_be_durable)

    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Begin a transaction on a connection of the pool."""
        return engine.begin()

    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """Refuse: a server has to be waited for."""
        raise WouldWaitError

    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Lock the name of the queue: numbers from a sequence would not be in the order of commits."""
        key = func.hashtextextended("\n".join(queue), 0)
        connection.execute(select(func.pg_advisory_xact_lock(key)))

    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Send the statements by a pipeline, and wait for the results once."""
        return _one_trip(connection)

    def check_durability(self, *, may_lose_commits: bool) -> None:
        if may_lose_commits:
            return
        with self.reading.connect() as connection:
            for setting in ("fsync", "synchronous_commit"):
                if connection.exec_driver_sql(f"SHOW {setting}").scalar_one() == "off":
                    raise DatabaseDurabilityError(
                        f"{setting} is off on this server: it confirms what a power failure loses. Turn it on, or "
                        "allow it with may_lose_commits_on_power_failure=True."
                    )

    def dispose(self) -> None:
        self._reserved.close()
        self.reading.dispose()


def _need_not_be_durable(connection: Connection) -> None:
    # The driver begins the transaction with the first statement: both are one trip.
    with _one_trip(connection):
        DatabaseLine(connection).carry_out(_LOCAL, None)


@contextmanager
def _one_trip(connection: Connection) -> Generator[None]:
    driver: Any = connection.dialect.loaded_dbapi
    line: Any = connection.connection.driver_connection
    # An old client library makes a trip for each statement.
    trip = line.pipeline() if driver.Pipeline.is_supported() else nullcontext()
    with raising_sqlalchemy_errors(connection), trip:
        yield


class ReservedConnection:
    """One connection that does not go back to its pool after each use, because getting one takes SQLAlchemy long.

    It is for one user at a time; a second user gets another connection from the pool.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._idle: Connection | None = None

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """Give a connection for the length of the block, which leaves no transaction open."""
        connection = self._swapped(None) or self._engine.connect()
        try:
            yield connection
        except BaseException:
            # It may be broken; the pool checks that.
            connection.close()
            raise
        spare = self._swapped(connection)
        if spare is not None:
            spare.close()

    def close(self) -> None:
        """Give the connection back to the pool; only when it is no longer used."""
        connection = self._swapped(None)
        if connection is not None:
            connection.close()

    def _swapped(self, idle: Connection | None) -> Connection | None:
        with self._lock:
            previous, self._idle = self._idle, idle
        return previous
