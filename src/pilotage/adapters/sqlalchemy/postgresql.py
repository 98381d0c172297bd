"""PostgreSQL: many writers, row locks, the server's clock."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select

from pilotage.adapters.sqlalchemy.driver import as_sqlalchemy_says_it, carry_out
from pilotage.adapters.sqlalchemy.engines import Engines, WouldWaitError, first_value
from pilotage.adapters.sqlalchemy.kept_connection import KeptConnection
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.start_errors import DatabaseDurabilityError

_LOCAL = "SET LOCAL synchronous_commit = off"


class PostgresqlEngines(Engines):
    """The engines of a PostgreSQL database; all of them share one pool."""

    writes_in_place = False

    def __init__(self, url: URL, settings: DatabaseSettings) -> None:
        self.writers = settings.pool_size
        self.patience_seconds = settings.timeout_seconds
        # Who needs a transaction says so: most connections are for one statement, and none has to be told that.
        self.reading = create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            # No table has a column of this kind, so no server is asked for it.
            use_native_hstore=False,
            # One more is kept for commits.
            pool_size=settings.pool_size + 1,
            max_overflow=0,
            pool_timeout=settings.timeout_seconds,
            connect_args={"connect_timeout": max(2, math.ceil(settings.timeout_seconds))},
        )
        self.writing = self.reading.execution_options(isolation_level="READ COMMITTED")
        self.single = self._kept = KeptConnection(self.reading)
        self.hinting = self.writing.execution_options()
        event.listen(self.hinting, "begin", _need_not_be_durable)

    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """On a connection of the pool."""
        return engine.begin()

    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """Never: a server is waited for."""
        raise WouldWaitError

    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Take a lock by the name of the queue: numbers from a sequence would not be in the order of commits."""
        key = func.hashtextextended("\n".join(queue), 0)
        connection.execute(select(func.pg_advisory_xact_lock(key)))

    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """By a pipeline: the answers are waited for once."""
        return _one_trip(connection)

    def check_durability(self, *, may_lose_commits: bool) -> None:
        if may_lose_commits:
            return
        with self.reading.connect() as connection:
            for setting in ("fsync", "synchronous_commit"):
                if first_value(connection, f"SHOW {setting}") == "off":
                    raise DatabaseDurabilityError(
                        f"{setting} is off on this server: it confirms what a power failure loses. Turn it on, or "
                        "allow it with may_lose_commits_on_power_failure=True."
                    )

    def dispose(self) -> None:
        self._kept.close()
        self.reading.dispose()


def _need_not_be_durable(connection: Connection) -> None:
    # The driver begins the transaction with the first statement: both are one trip.
    with _one_trip(connection):
        carry_out(connection, _LOCAL, None)


@contextmanager
def _one_trip(connection: Connection) -> Generator[None]:
    driver: Any = connection.dialect.loaded_dbapi
    line: Any = connection.connection.driver_connection
    # An old client library makes a trip for each statement.
    trip = line.pipeline() if driver.Pipeline.is_supported() else nullcontext()
    with as_sqlalchemy_says_it(connection), trip:
        yield
