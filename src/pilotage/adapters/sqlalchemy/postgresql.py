"""PostgreSQL: many writers, row locks, the server's clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Lock, Thread
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, func, select
from sqlalchemy.dialects import postgresql

from pilotage.adapters.sqlalchemy.dialect import (
    DatabaseLine,
    Engines,
    SqlDialect,
    WakeUpChannel,
    WouldWaitError,
    raising_sqlalchemy_errors,
)
from pilotage.adapters.sqlalchemy.errors import DatabaseDurabilityError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.ids import IClock

_LOCAL = "SET LOCAL synchronous_commit = off"
_CHANNEL = "pilotage_wake_ups_"
_POLL_SECONDS = 0.2
_READY_WITHIN = 5.0


class PostgresqlEngines(Engines):
    """The engines of a PostgreSQL database; all of them share one pool."""

    answers_at_once = False
    writes_in_place = False

    def __init__(self, url: URL, settings: DatabaseSettings, clock: IClock) -> None:
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

    def wake_ups(self, publish: Callable[[str], None]) -> WakeUpChannel:
        return PostgresqlListener(self.writing, publish)

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


class PostgresqlListener(WakeUpChannel):
    """LISTEN and NOTIFY, by one connection and one thread that reconnect by themselves.

    The name of a channel ends in that of the schema, for channels belong to the whole database.
    """

    def __init__(self, engine: Engine, publish: Callable[[str], None]) -> None:
        self._engine, self._publish = engine, publish
        self._lock = Lock()
        self._is_over = Event()
        self._is_ready = Event()
        self._thread: Thread | None = None

    def send(self, connection: Connection, run_id: str) -> None:
        connection.execute(select(func.pg_notify(func.concat(_CHANNEL, func.current_schema()), run_id)))

    def begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_over.is_set():
                self._thread = Thread(target=self._listen, name="pilotage-listener", daemon=True)
                self._thread.start()
        self._is_ready.wait(_READY_WITHIN)

    def end(self) -> None:
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
        row = connection.execute("SELECT quote_ident(%s || current_schema())", [_CHANNEL]).fetchone()
        if row is not None:
            connection.execute(f"LISTEN {row[0]}".encode())
        self._is_ready.set()
        while not self._is_over.is_set():
            for notice in connection.notifies(timeout=_POLL_SECONDS):
                self._publish(notice.payload)
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


POSTGRESQL = SqlDialect(
    name="postgresql",
    driver="postgresql+psycopg",
    package="psycopg",
    extra="postgres",
    example="postgresql://user:password@host/name",
    engines=PostgresqlEngines,
    insert=postgresql.insert,
    has_moments=True,
    moment_type=postgresql.TIMESTAMP(timezone=True),
    takes_rows_as_json=True,
    now="clock_timestamp()",
    lease_now="clock_timestamp()",
    later="({now} + make_interval(secs => {seconds}))",
    hour="CAST(floor(extract(epoch FROM {moment}) / 3600) AS BIGINT)",
    day="({moment} AT TIME ZONE 'UTC')::date",
    charges="CROSS JOIN LATERAL json_array_elements(j.costs::json) AS charge (value)",
    charge_field="(charge.value ->> {place})",
    amount="CAST({text} AS NUMERIC)",
    upgrade_lock="SELECT pg_advisory_xact_lock(7045410417361133)",
    unreachable="{name} cannot be reached: {reason}. Start the server, or name another one in {variable}.",
    other_names=("postgres",),
)
