"""`SqlDialect`: the differences between databases, one value each, and their connections; `supported` lists them.

All other statements are the same for every database. They are in the modules of the ports. SQLAlchemy needs more time
for an execution than SQLite: a statement that every run needs is compiled once and goes to the cursor of the driver, on
the connection and in the transaction that SQLAlchemy holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, exc
from sqlalchemy.types import TypeEngine

from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.ids import IClock
from pilotage.values import value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Return a moment as a number, for databases that have no type for it."""
    return (moment - EPOCH) // _TICK


class WakeUpChannel(ABC):
    """Hints between processes that use one database."""

    @abstractmethod
    def send(self, connection: Connection, run_id: str) -> None:
        """Send the id of a run to all processes that listen."""

    @abstractmethod
    def begin(self) -> None:
        """Return when hints are received, or after a while: hints may be lost."""

    @abstractmethod
    def end(self) -> None:
        """Return when no more hints are received."""


class Engines(ABC):
    """The connections of one database, and what its transactions guarantee."""

    writing: Engine
    """One transaction at a time per connection; what is committed survives a power failure."""

    reading: Engine
    """No transaction: each statement sees what is committed."""

    single: Callable[[], AbstractContextManager[Connection]] | None
    """Gives a connection on which each statement is a durable transaction that may write to several tables, or None."""

    answers_at_once: bool
    """Whether the result of a statement is known as soon as it is sent: there is no network."""

    hinting: Engine
    """Like `writing`, for what may be lost with the machine: leases and hints."""

    writers: int
    """How many transactions can write at once."""

    retry_seconds: float
    """How long a request is retried while the server is away."""

    writes_in_place: bool
    """Whether a small transaction takes less time than waking a thread: it waits for no server and no disk."""

    @abstractmethod
    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Begin a transaction of `writing` or `hinting` for the length of a block; only for threads that write."""

    @abstractmethod
    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """Begin a transaction of `writing` on the event loop, where the engines write in place.

        Raises:
            WouldWaitError: another transaction is open, or the log must be checkpointed first; nothing has begun.
        """

    @abstractmethod
    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Lock a queue until the transaction ends, so that entries are numbered in the order of commits."""

    @abstractmethod
    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Send the statements of the block together; their results are known after the block.

        Raises:
            DBAPIError: one of them failed, as SQLAlchemy would raise it.
        """

    @abstractmethod
    def check_durability(self, *, may_lose_commits: bool) -> None:
        """Check that what the database confirms survives a power failure.

        Raises:
            DatabaseDurabilityError: it does not, and the settings do not allow that.
        """

    @abstractmethod
    def dispose(self) -> None:
        """Close all connections."""

    def wake_ups(self, publish: Callable[[str], None]) -> WakeUpChannel | None:
        """Return a channel that gives what it receives to `publish`; None where the database has none."""
        return None


@value
class SqlDialect:
    """One database: its addresses, its SQL where that differs, and its connections.

    `name`              the name that SQLAlchemy has for it
    `driver`            the driver that is used, as an address names it
    `package`           the package of the driver
    `extra`             the extra of Pilotage that installs the driver
    `example`           an address
    `engines`           makes the connections
    `insert`            makes an insert with `excluded`, `on_conflict_do_update` and `on_conflict_do_nothing`
    `has_moments`       whether moments are stored as such, in UTC; else they are microseconds since 1970
    `moment_type`       the type of columns of moments
    `takes_rows_as_json` whether many rows are one parameter, see `statements`; else a statement is repeated for each
    `now`               the time of day
    `lease_now`         the clock of leases
    `later`             the moment `{seconds}` after `{now}`
    `hour`              the number of whole hours from 1970 to `{moment}`
    `day`               the day of `{moment}` in UTC
    `charges`           joins the charges in the column `costs` of `j`, each as `charge.value`
    `charge_field`      the field of a charge at `{place}`
    `amount`            the amount in a `{text}`: a number where that is exact
    `upgrade_lock`      locks the tables of a database for an upgrade; None where every transaction that writes does so
    `unreachable`       says that a database cannot be opened, with `{name}`, `{reason}` and the `{variable}`
                        of the environment that names another one
    `other_names`       names in addresses, beside `name`
    `refusal`           returns why an address cannot be used, or None
    """

    name: str
    driver: str
    package: str
    extra: str
    example: str
    engines: Callable[[URL, DatabaseSettings, IClock], Engines]
    insert: Callable[[Table], Any]
    has_moments: bool
    moment_type: TypeEngine[Any]
    takes_rows_as_json: bool
    now: str
    lease_now: str
    later: str
    hour: str
    day: str
    charges: str
    charge_field: str
    amount: str
    upgrade_lock: str | None
    unreachable: str
    other_names: tuple[str, ...] = ()
    refusal: Callable[[URL], str | None] = lambda _: None


class WouldWaitError(Exception):
    """A transaction cannot begin without waiting; a thread can wait for it."""


class DatabaseLine:
    """The connection of the driver under one of SQLAlchemy, looked up once for a transaction."""

    __slots__ = ("connection", "dialect", "driver")

    def __init__(self, connection: Connection) -> None:
        self.connection, self.dialect = connection, connection.dialect
        self.driver: Any = connection.connection.dbapi_connection

    def carry_out(self, statement: str, given: Any, *, many: bool = False) -> Any:
        """Execute a statement, once or for each of many sets of parameters, and return the cursor of the driver.

        Raises:
            DBAPIError: as SQLAlchemy would raise it.
        """
        cursor = self.driver.cursor()
        try:
            if many:
                cursor.executemany(statement, given)
            else:
                cursor.execute(statement, given)
        except Exception as error:
            cursor.close()
            raise _as_sqlalchemy_error(self.connection, statement, error) from error
        return cursor


@contextmanager
def raising_sqlalchemy_errors(connection: Connection) -> Generator[None]:
    """Raise errors of the driver in the block as SQLAlchemy would raise them."""
    try:
        yield
    except exc.SQLAlchemyError:
        raise
    except Exception as error:
        raise _as_sqlalchemy_error(connection, "", error) from error


def _as_sqlalchemy_error(connection: Connection, statement: str, error: Exception) -> Exception:
    dialect: Any = connection.dialect
    if not isinstance(error, dialect.loaded_dbapi.Error):
        return error
    if dialect.is_disconnect(error, connection.connection, None):
        # A statement on the lost connection makes SQLAlchemy invalidate its pool.
        connection.exec_driver_sql("SELECT 1")
    instance: Callable[..., Exception] = exc.DBAPIError.instance
    return instance(statement, None, error, dialect.loaded_dbapi.Error, dialect=dialect)


_MEANT_TO_BE_TRIED_AGAIN = frozenset({"40001", "40P01"})  # not serialisable; deadlock


def translated(error: exc.SQLAlchemyError) -> Exception:
    """Return the error of the store for one of SQLAlchemy."""
    match error:
        case exc.IntegrityError() | exc.DataError():
            return ConflictingWriteError(_first_line(error.orig))
        case exc.DBAPIError() if getattr(error.orig, "sqlstate", None) in _MEANT_TO_BE_TRIED_AGAIN:
            return ConflictingWriteError(_first_line(error.orig))
        case exc.ProgrammingError():
            return error  # a defect of this adapter: a retry does not help
        case exc.DBAPIError():
            words = f"the database did not answer: {_first_line(error.orig)}"
            return StoreUnreachableError(words, is_away=is_away(error))
        case exc.TimeoutError():
            return StoreUnreachableError("no connection to the database was free in time")
        case _:
            return error


def is_away(error: exc.DBAPIError) -> bool:
    """Return whether the connection was lost, or could not be made: no statement was sent then."""
    was_refused = isinstance(error, exc.OperationalError) and error.statement is None
    return error.connection_invalidated or was_refused


def _first_line(error: BaseException | None) -> str:
    """Return the reason; later lines may contain what was to be written."""
    return str(error).partition("\n")[0]
