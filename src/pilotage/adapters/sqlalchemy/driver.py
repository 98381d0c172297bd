"""Statements that the driver carries out itself, on the connection and in the transaction that SQLAlchemy holds.

What SQLAlchemy does for each execution takes longer than SQLite does. So a statement that every run needs is compiled
once for each database, and then goes straight to the driver's cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import Connection, Dialect, exc
from sqlalchemy.sql.expression import ClauseElement
from sqlalchemy.types import TypeEngine

Convert: TypeAlias = Callable[[Any], Any] | None
"""Makes the database's value of ours, or ours of the database's; None where both are the same."""

Row: TypeAlias = tuple[Any, ...]


class Line:
    """The driver's connection behind SQLAlchemy's, for the length of a transaction: asking for it for every statement
    takes as long as some of them.
    """

    __slots__ = ("connection", "dialect", "driver")

    def __init__(self, connection: Connection) -> None:
        self.connection, self.dialect = connection, connection.dialect
        self.driver: Any = connection.connection.dbapi_connection

    def carry_out(self, statement: str, given: Any, *, many: bool = False) -> Any:
        """The driver's cursor behind a statement, or behind the same statement for each of many sets of parameters.

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
            raise _translated(self.connection, statement, error) from error
        return cursor


def carry_out(connection: Connection, statement: str, given: Any) -> Any:
    """What `Line.carry_out` does, for whoever has one statement."""
    return Line(connection).carry_out(statement, given)


@contextmanager
def as_sqlalchemy_says_it(connection: Connection) -> Generator[None]:
    """Whatever the driver raises in the block is raised as SQLAlchemy would raise it."""
    try:
        yield
    except exc.SQLAlchemyError:
        raise
    except Exception as error:
        raise _translated(connection, "", error) from error


class Prepared:
    """A statement that is compiled once for each database. Its parameters are given by name, its rows are tuples."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, Callable[[Connection, Mapping[str, Any]], list[Row]]] = {}

    def named_rows(self, connection: Connection, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What it returns, by the names of its columns."""
        names = self._statement.exported_columns.keys()
        return [dict(zip(names, row, strict=True)) for row in self.rows(connection, given)]

    def rows(self, connection: Connection, given: Mapping[str, Any]) -> list[Row]:
        """What it returns; nothing where it returns no rows."""
        name = connection.dialect.name
        if name not in self._compiled:
            self._compiled[name] = self._prepared(connection.dialect)
        return self._compiled[name](connection, given)

    def _prepared(self, dialect: Dialect) -> Callable[[Connection, Mapping[str, Any]], list[Row]]:
        compiled: Any = self._statement.compile(dialect=dialect)
        text, order = str(compiled), compiled.positiontup
        to_database = {name: to_driver(dialect, bind.type) for bind, name in compiled.bind_names.items()}
        fixed = {name: said for name, said in compiled.params.items() if said is not None}
        returned = list(getattr(self._statement, "exported_columns", None) or ())
        converts = [from_driver(dialect, column.type) for column in returned]
        from_database = [(place, convert) for place, convert in enumerate(converts) if convert]

        def rows(connection: Connection, given: Mapping[str, Any]) -> list[Row]:
            named = {**fixed, **given}
            values = {
                name: convert(named[name]) if convert else named[name]
                for name, convert in to_database.items()
            }
            cursor = carry_out(connection, text, [values[name] for name in order] if order else values)
            try:
                return _converted(cursor.fetchall(), from_database) if returned else []
            finally:
                cursor.close()

        return rows


def _converted(rows: list[Row], converts: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Row]:
    """Rows as we want them, column by column: many columns of a journal say nothing, and none of their values is
    looked at.
    """
    if not rows or not converts:
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, convert in converts:
        column = columns[place]
        if column.count(None) < len(column):
            columns[place] = list(map(convert, column))
    return list(zip(*columns, strict=True))


def compiled_text(statement: ClauseElement, dialect: Dialect) -> tuple[str, Sequence[str]]:
    """The text of a statement, and the names of its parameters in their order where these have no names."""
    compiled: Any = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup or ()


def to_driver(dialect: Dialect, type_: TypeEngine[Any]) -> Convert:
    """What makes the database's value of ours."""
    return type_.dialect_impl(dialect).bind_processor(dialect)


def from_driver(dialect: Dialect, type_: TypeEngine[Any]) -> Convert:
    """What makes our value of the database's."""
    return type_.dialect_impl(dialect).result_processor(dialect, None)


def _translated(connection: Connection, statement: str, error: Exception) -> Exception:
    dialect: Any = connection.dialect
    if not isinstance(error, dialect.loaded_dbapi.Error):
        return error
    if dialect.is_disconnect(error, connection.connection, None):
        # Asked on a line that is cut, SQLAlchemy finds out for itself, and drops the other lines of its pool, too.
        connection.exec_driver_sql("SELECT 1")
    instance: Callable[..., Exception] = exc.DBAPIError.instance
    return instance(statement, None, error, dialect.loaded_dbapi.Error, dialect=dialect)
