"""Connections to a database: statements that go straight to the driver, and the errors of both.

SQLAlchemy needs more time for an execution than SQLite. A statement that every run needs is compiled once and goes to
the cursor of the driver, on the connection and in the transaction that SQLAlchemy holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError


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
