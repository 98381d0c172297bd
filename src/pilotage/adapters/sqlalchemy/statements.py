"""Statements that are compiled once for each database, for one set of parameters or for many rows at once.

SQLite repeats a statement for each row within the process. PostgreSQL gets one statement with all rows as one JSON
text: one round trip and one parameter, however many rows. (An array for each column takes psycopg ten times as long.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from json import JSONEncoder
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Dialect, FromClause, Table, bindparam, select
from sqlalchemy.sql.expression import ClauseElement, ColumnElement
from sqlalchemy.types import TypeEngine

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, is_stored_as_it_is, stored_or_none
from pilotage.adapters.sqlalchemy.dialect import DatabaseLine
from pilotage.adapters.sqlalchemy.mapping import Values
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.agent.ports.persistence import RunKey

Row: TypeAlias = tuple[Any, ...]
Column: TypeAlias = ColumnElement[Any]
ColumnType: TypeAlias = TypeEngine[Any]
Parameters: TypeAlias = Mapping[str, Any]
Convert: TypeAlias = Callable[[Any], Any]
Fetch: TypeAlias = Callable[[Connection, Parameters], list[Row]]
Condition: TypeAlias = ColumnElement[bool]

Given: TypeAlias = Mapping[str, Column]
"""The values of a row, by name."""

Expressions: TypeAlias = Callable[[Given], Mapping[str, Column]]
"""Makes the expressions of columns from the values of a row."""

Types: TypeAlias = Mapping[str, ColumnType]

Build: TypeAlias = Callable[[Given, FromClause | None, Dialect], ClauseElement]
"""Makes the statement of a database for one row, or for all rows of a table."""


def of_run(table: Table) -> tuple[Condition, Condition]:
    """Return the conditions for the rows of one run; `place_of` gives their parameters."""
    return table.c.tenant_id == bindparam("tenant"), table.c.run_id == bindparam("run")


def place_of(run: RunKey) -> dict[str, object]:
    """Return the parameters of statements about one run."""
    return {"tenant": run.tenant_id, "run": run.run_id}


def in_keys(table: Table, *names: str) -> Condition:
    """Return the condition that these columns are one of the tuples in the parameter `keys`."""
    return sa.tuple_(*(table.c[name] for name in names)).in_(bindparam("keys", expanding=True))


class Prepared:
    """A statement whose parameters are given by name; its rows are tuples."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, Fetch] = {}

    def named_rows(self, connection: Connection, given: Parameters) -> list[dict[str, Any]]:
        """Return its rows by the names of their columns."""
        names = self._statement.exported_columns.keys()
        return [dict(zip(names, row, strict=True)) for row in self.rows(connection, given)]

    def rows(self, connection: Connection, given: Parameters) -> list[Row]:
        """Return its rows; an empty list for a statement that returns none."""
        name = connection.dialect.name
        if name not in self._compiled:
            self._compiled[name] = self._prepared(connection.dialect)
        return self._compiled[name](connection, given)

    def _prepared(self, dialect: Dialect) -> Fetch:
        compiled: Any = self._statement.compile(dialect=dialect)
        text, order = str(compiled), compiled.positiontup
        to_database = {name: _to_driver(dialect, bind.type) for bind, name in compiled.bind_names.items()}
        fixed = {name: given for name, given in compiled.params.items() if given is not None}
        returned = list(getattr(self._statement, "exported_columns", None) or ())
        converts = [each.type.dialect_impl(dialect).result_processor(dialect, None) for each in returned]
        from_database = [(place, convert) for place, convert in enumerate(converts) if convert]

        def rows(connection: Connection, given: Parameters) -> list[Row]:
            named = {**fixed, **given}
            values = {
                name: convert(named[name]) if convert else named[name]
                for name, convert in to_database.items()
            }
            sent = [values[name] for name in order] if order else values
            cursor = DatabaseLine(connection).carry_out(text, sent)
            try:
                return _from_driver(cursor.fetchall(), from_database) if returned else []
            finally:
                cursor.close()

        return rows


def prepared_insert(table: Table, build: Callable[[Any], Any]) -> Callable[[Connection], Prepared]:
    """Return a function that gives the insert of a connection's database; `build` makes it of a plain one, once."""

    @cache
    def prepared(name: str) -> Prepared:
        return Prepared(build(dialect_of(name).insert(table)))

    return lambda connection: prepared(connection.dialect.name)


def _from_driver(rows: list[Row], converts: Sequence[tuple[int, Convert]]) -> list[Row]:
    """Convert column by column, and pass over columns without any value: a journal has many of these."""
    if not rows or not converts:
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, convert in converts:
        values = columns[place]
        if values.count(None) < len(values):
            columns[place] = list(map(convert, values))
    return list(zip(*columns, strict=True))


def compiled_text(statement: ClauseElement, dialect: Dialect) -> tuple[str, Sequence[str]]:
    """Return the text of a statement, and the names of its positional parameters in order."""
    compiled: Any = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup or ()


class Sent(Protocol):
    """A statement that was sent; the number of changed rows is known when its result is there."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Row]:
        """Return the rows of a statement that returns some."""
        ...


class _Returned:
    """The number of rows that a statement changed, and columns of them that were read after it."""

    def __init__(self, rowcount: int, rows: list[Row]) -> None:
        self.rowcount, self._rows = rowcount, rows

    def fetchall(self) -> list[Row]:
        return self._rows


Send: TypeAlias = Callable[[DatabaseLine, Sequence[Values]], Sent]


class Bulk:
    """A statement that is executed for each of many rows."""

    def __init__(self, given: Types, build: Build, read: Build | None = None) -> None:
        self.given, self.build, self.read = given, build, read
        self.texts = [name for name, type_ in given.items() if isinstance(type_, ExactText)]
        self._compiled: dict[str, Send] = {}

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Execute it for all rows, and return the number of rows that were changed."""
        return self.send(DatabaseLine(connection), rows).rowcount if rows else 0

    def send(self, line: DatabaseLine, rows: Sequence[Values]) -> Sent:
        """Send it for all rows, at least one; the result may come later (see `Engines.in_one_trip`)."""
        send = self._compiled.get(line.dialect.name) or self._compile(line.dialect)
        return send(line, rows)

    def _compile(self, dialect: Dialect) -> Send:
        compiled = _all_at_once if dialect_of(dialect.name).takes_rows_as_json else _one_by_one
        self._compiled[dialect.name] = send = compiled(dialect, self)
        return send

    def over(self, parameter: str, dialect: Dialect) -> Any:
        """Return the statement over all rows in a parameter, for a database that takes rows as JSON."""
        source, given = self.given_in(parameter)
        return self.build(given, source, dialect)

    def given_in(self, parameter: str) -> tuple[FromClause, Given]:
        """Return the rows in a parameter as a table, and the values of each of them."""
        columns = [sa.column(name, _written_type(type_)) for name, type_ in self.given.items()]
        rows = sa.cast(bindparam(parameter, type_=sa.Text()), sa.JSON())
        table = sa.func.json_to_recordset(rows).table_valued(*columns, name="given")
        source = table.render_derived(with_types=True)
        return source, {name: _read(source.c[name], type_) for name, type_ in self.given.items()}

    def encoded(self, rows: Sequence[Values]) -> str:
        """Return the text of such a parameter; the database ignores names that are not asked for."""
        if not rows:
            return "[]"
        text = _encoded(rows)
        return text if is_stored_as_it_is(text) else _encoded([self._as_stored(row) for row in rows])

    def _as_stored(self, row: Values) -> Values:
        return {**row, **{name: stored_or_none(row[name]) for name in self.texts}}


def bulk_insert(
    table: Table,
    given: Sequence[str],
    computed: Expressions = lambda _: {},
    *,
    extra: Types | None = None,
    beside: tuple[Table, Sequence[str], str] | None = None,
    skips_known: bool = False,
    replaces: Sequence[str] = (),
    key: Sequence[str] = (),
    returning: Sequence[str] = (),
) -> Bulk:
    """Return an insert of rows with columns that are given and columns computed from these.

    `extra` are given values that are no columns. `beside` is a table with one row for each given row, its key, and a
    column that computed ones need: PostgreSQL reads it there, SQLite gets it with the given row.
    `skips_known` ignores rows that exist; `replaces` is the key by which rows are replaced. It may return columns of
    the rows with the given `key`.
    """
    returned = [table.c[name] for name in returning]

    def build(values: Given, source: FromClause | None, dialect: Dialect) -> ClauseElement:
        if source is not None and beside is not None:
            values = {**values, beside[2]: beside[0].c[beside[2]]}
        expressions = {**{name: values[name] for name in given}, **computed(values)}
        all_ = dialect_of(dialect.name).insert(table)
        if source is None:
            # Inline: it does not return the keys that the database makes.
            all_ = all_.values(expressions).inline()
        else:
            chosen = select(*expressions.values()).select_from(source)
            if beside is not None:
                chosen = chosen.where(*(beside[0].c[name] == values[name] for name in beside[1]))
            all_ = all_.from_select(list(expressions), chosen)
        if replaces:
            changed = {name: all_.excluded[name] for name in expressions if name not in replaces}
            all_ = all_.on_conflict_do_update(index_elements=list(replaces), set_=changed)
        elif skips_known:
            all_ = all_.on_conflict_do_nothing()
        made: ClauseElement = all_.returning(*returned) if returned and source is not None else all_
        return made

    types = {**{name: table.c[name].type for name in given}, **(extra or {})}
    return Bulk(types, build, _reading(table, key, returned) if returned else None)


def bulk_update(
    table: Table,
    key: Sequence[str],
    computed: Expressions,
    given: Types,
    condition: Callable[[Given], Condition],
    returning: Sequence[str] = (),
) -> Bulk:
    """Return an update of the rows with these keys for which the condition holds; it may return columns of them."""

    returned = [table.c[name] for name in returning]

    def build(values: Given, source: FromClause | None, _: Dialect) -> ClauseElement:
        matches = [table.c[name] == values[name] for name in key]
        changed = sa.update(table).where(*matches, condition(values)).values(dict(computed(values)))
        return changed.returning(*returned) if returned and source is not None else changed

    types = {**{name: table.c[name].type for name in key}, **given}
    return Bulk(types, build, _reading(table, key, returned) if returned else None)


def _reading(table: Table, key: Sequence[str], columns: Sequence[Column]) -> Build:
    def read(values: Given, _: FromClause | None, __: Dialect) -> ClauseElement:
        return sa.select(*columns).where(*(table.c[name] == values[name] for name in key))

    return read


def bulk_delete(table: Table, key: Sequence[str]) -> Bulk:
    """Return a deletion of the rows with these keys, as far as they exist."""

    def build(values: Given, _: FromClause | None, __: Dialect) -> ClauseElement:
        return sa.delete(table).where(*(table.c[name] == values[name] for name in key))

    return Bulk({name: table.c[name].type for name in key}, build)


def _one_by_one(dialect: Dialect, bulk: Bulk) -> Send:
    statement, sets_of = _parametrised(dialect, bulk, bulk.build)
    if bulk.read is None:

        def send(line: DatabaseLine, rows: Sequence[Values]) -> Sent:
            cursor: Sent = line.carry_out(statement, sets_of(rows), many=True)
            return cursor

        return send
    reading, keys_of = _parametrised(dialect, bulk, bulk.read)

    def send_and_read(line: DatabaseLine, rows: Sequence[Values]) -> Sent:
        # RETURNING of SQLite makes a table for its rows, which takes longer than reading them.
        changed: int = line.carry_out(statement, sets_of(rows), many=True).rowcount
        found = [row for key in keys_of(rows) for row in line.carry_out(reading, key).fetchall()]
        return _Returned(changed, found)

    return send_and_read


def _parametrised(
    dialect: Dialect, bulk: Bulk, build: Build
) -> tuple[str, Callable[[Sequence[Values]], list[Sequence[Any]]]]:
    """Return the text of a statement, and a function that makes its parameters of the given rows."""
    given = bulk.given
    # SQLAlchemy reserves the names of columns.
    names = {f"p_{name}": name for name in given}
    binds = {name: bindparam(bind, type_=given[name]) for bind, name in names.items()}
    statement, places = compiled_text(build(binds, None, dialect), dialect)
    # A name may occur several times in a statement, each time as a parameter of its own.
    placed = [names[place] for place in places]
    in_order = itemgetter(*placed)  # gives a tuple, for every statement has several parameters
    converts = [
        (place, convert) for place, name in enumerate(placed) if (convert := _binder(dialect, given[name]))
    ]
    texts = [place for place, name in enumerate(placed) if name in bulk.texts]
    strange = [(place, stored_or_none) for place in texts]
    texts_in = itemgetter(*texts) if len(texts) > 1 else None

    def sets_of(rows: Sequence[Values]) -> list[Sequence[Any]]:
        sets: list[Sequence[Any]] = [*map(in_order, rows)]
        # Hardly any text has to be escaped, so all of them are checked together.
        if texts_in is None or not is_stored_as_it_is(
            "".join(filter(None, chain.from_iterable(map(texts_in, sets))))
        ):
            sets = [_converted(values, strange) for values in sets]
        return [_converted(values, converts) for values in sets] if converts else sets

    return statement, sets_of


def _converted(values: Sequence[Any], converts: Sequence[tuple[int, Convert]]) -> Sequence[Any]:
    changed = list(values)
    for place, convert in converts:
        if changed[place] is not None:
            changed[place] = convert(changed[place])
    return changed


def _all_at_once(dialect: Dialect, bulk: Bulk) -> Send:
    statement, _ = compiled_text(bulk.over("rows", dialect), dialect)

    def send(line: DatabaseLine, rows: Sequence[Values]) -> Sent:
        cursor: Sent = line.carry_out(statement, {"rows": bulk.encoded(rows)})
        return cursor

    return send


def _written_type(type_: ColumnType) -> ColumnType:
    """Return the type of a column within JSON; bytes are hex digits there."""
    return sa.Text() if isinstance(type_, HexText) else type_


def _read(given: Column, type_: ColumnType) -> Column:
    return (
        sa.func.decode(given, sa.literal_column("'hex'"), type_=type_)
        if isinstance(type_, HexText)
        else given
    )


def _to_driver(dialect: Dialect, type_: ColumnType) -> Convert | None:
    return type_.dialect_impl(dialect).bind_processor(dialect)


def _binder(dialect: Dialect, type_: ColumnType) -> Convert | None:
    """Return the conversion to the driver's value, for types that are neither texts, bits nor packed already."""
    return None if isinstance(type_, ExactText | HexText | sa.Boolean) else _to_driver(dialect, type_)


def _in_json(value: bytearray | datetime) -> str:
    return value.isoformat() if isinstance(value, datetime) else value.hex()


_encoded = JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_in_json
).encode
