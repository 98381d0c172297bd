"""Statements over many rows at once, as each database does them best.

SQLite repeats a statement for each row without leaving the process. PostgreSQL gets one statement with all rows as one
JSON text: one round trip, and one parameter to make, however many rows. (An array for each column takes psycopg ten
times as long.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from json import JSONEncoder
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import (
    JSON,
    Connection,
    Dialect,
    FromClause,
    Table,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.expression import ClauseElement, ColumnElement
from sqlalchemy.types import TypeEngine

from pilotage.adapters.sqlalchemy.columns import (
    HexText,
    Moment,
    are_stored_as_they_are,
    stored_or_none,
    to_packed,
)
from pilotage.adapters.sqlalchemy.driver import Convert, carry_out, compiled_text, to_driver
from pilotage.adapters.sqlalchemy.mapping import Values

Given: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What is given for each row, by name."""

Expressions: TypeAlias = Callable[[Given], Mapping[str, ColumnElement[Any]]]
"""What becomes of it: expressions by column."""

Types: TypeAlias = Mapping[str, TypeEngine[Any]]

Build: TypeAlias = Callable[[Given, FromClause | None], ClauseElement]
"""The statement over what is given; for one row, or for all of a table of rows."""

Changed: TypeAlias = Callable[[], int]
"""How many rows a statement has changed, for whoever asks when it is carried out."""

Run: TypeAlias = Callable[[Connection, Sequence[Values]], Changed]


class Bulk:
    """A statement that is carried out for each of many rows; how many rows it changed is known then."""

    def __init__(self, given: Types, build: Build) -> None:
        self.given, self.build = given, build
        self._compiled: dict[str, Run] = {}
        self._plan: list[tuple[str, Convert]] | None = None

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Carry it out for all rows; the number of rows that were changed."""
        return self.send(connection, rows)()

    def send(self, connection: Connection, rows: Sequence[Values]) -> Changed:
        """Let it be carried out for all rows, perhaps later (see `Engines.in_one_trip`)."""
        if not rows:
            return _nothing
        name = connection.dialect.name
        if name not in self._compiled:
            compiled = _all_at_once if name == "postgresql" else _one_by_one
            self._compiled[name] = compiled(connection.dialect, self)
        return self._compiled[name](connection, rows)

    def over(self, parameter: str) -> Any:
        """The statement as PostgreSQL carries it out: over all rows that a parameter holds."""
        source, given = self.given_in(parameter)
        return self.build(given, source)

    def given_in(self, parameter: str) -> tuple[FromClause, Given]:
        """The rows that a parameter holds, as a table, and what is given for each of them."""
        columns = [column(name, _written_type(type_)) for name, type_ in self.given.items()]
        rows = cast(bindparam(parameter, type_=Text()), JSON())
        table = func.json_to_recordset(rows).table_valued(*columns, name="given")
        source = table.render_derived(with_types=True)
        return source, {name: _read(source.c[name], type_) for name, type_ in self.given.items()}

    def encoded(self, dialect: Dialect, rows: Sequence[Values]) -> str:
        """The text of such a parameter."""
        if not rows:
            return "[]"
        if self._plan is None:
            self._plan = [(name, _writer(dialect, type_)) for name, type_ in self.given.items()]
        plan = self._plan
        # What is left out is NULL.
        written = [
            {
                name: convert(said) if convert else said
                for name, convert in plan
                if (said := row[name]) is not None
            }
            for row in rows
        ]
        return _encoded(written)


def bulk_insert(
    table: Table,
    given: Sequence[str],
    computed: Expressions,
    *,
    extra: Types | None = None,
    beside: tuple[Table, Sequence[str]] | None = None,
    skips_known: bool = False,
    replaces: Sequence[str] = (),
) -> Bulk:
    """Inserts rows: the columns that are given, and those that are computed from what is given.

    `extra` names what is given and no column. `beside` is a table with a row for each that is given, found by its key:
    columns may be computed from that too. Rows that are known already are left alone if `skips_known`; those that are
    known by the key `replaces` are replaced.
    """

    def build(values: Given, source: FromClause | None) -> ClauseElement:
        expressions = {**{name: values[name] for name in given}, **computed(values)}
        insert = sqlite.insert(table) if source is None else postgresql.insert(table)
        if source is None and beside is None:
            all_ = insert.values(expressions)
        else:
            chosen = select(*expressions.values())
            if source is not None:
                chosen = chosen.select_from(source)
            if beside is not None:
                chosen = chosen.where(*(beside[0].c[name] == values[name] for name in beside[1]))
            all_ = insert.from_select(list(expressions), chosen)
        if replaces:
            changed = {name: all_.excluded[name] for name in expressions if name not in replaces}
            return all_.on_conflict_do_update(index_elements=list(replaces), set_=changed)
        return all_.on_conflict_do_nothing() if skips_known else all_

    return Bulk({**{name: table.c[name].type for name in given}, **(extra or {})}, build)


def bulk_update(
    table: Table,
    key: Sequence[str],
    computed: Expressions,
    given: Types,
    condition: Callable[[Given], ColumnElement[bool]],
) -> Bulk:
    """Changes the rows with these keys, those of them that the condition holds for."""

    def build(values: Given, _: FromClause | None) -> ClauseElement:
        matches = [table.c[name] == values[name] for name in key]
        return update(table).where(*matches, condition(values)).values(dict(computed(values)))

    return Bulk({**{name: table.c[name].type for name in key}, **given}, build)


def bulk_delete(table: Table, key: Sequence[str]) -> Bulk:
    """Deletes the rows with these keys, as far as there are any."""

    def build(values: Given, _: FromClause | None) -> ClauseElement:
        return delete(table).where(*(table.c[name] == values[name] for name in key))

    return Bulk({name: table.c[name].type for name in key}, build)


def _one_by_one(dialect: Dialect, bulk: Bulk) -> Run:
    given = bulk.given
    binds = {name: bindparam(_bind(name), type_=type_) for name, type_ in given.items()}
    statement, places = compiled_text(bulk.build(binds, None), dialect)
    # A name may occur several times in a statement, and each time is a place of its own.
    names = {_bind(name): name for name in given}
    placed = [names[place] for place in places]
    in_order = itemgetter(*placed)  # gives a tuple, for every statement has a key of several columns
    converted = _converter([to_driver(dialect, given[name]) for name in placed])

    def run(connection: Connection, rows: Sequence[Values]) -> Changed:
        sets = [converted(in_order(row)) for row in rows]
        return _changed(carry_out(connection, statement, sets, many=True))

    return run


def _converter(converts: Sequence[Convert]) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """Makes the parameters of a statement of the values of a row. Hardly any text has to be changed, so they are looked
    at together.
    """
    texts = [place for place, convert in enumerate(converts) if convert is stored_or_none]
    others = [
        (place, convert)
        for place, convert in enumerate(converts)
        if convert and convert is not stored_or_none
    ]

    def converted(row: tuple[Any, ...]) -> Sequence[Any]:
        values = list(row)
        if not are_stored_as_they_are([row[place] for place in texts]):
            for place in texts:
                values[place] = stored_or_none(values[place])
        for place, convert in others:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values

    return converted


def _all_at_once(dialect: Dialect, bulk: Bulk) -> Run:
    statement, _ = compiled_text(bulk.over("rows"), dialect)

    def run(connection: Connection, rows: Sequence[Values]) -> Changed:
        return _changed(carry_out(connection, statement, {"rows": bulk.encoded(dialect, rows)}))

    return run


def _written_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """The type of a column within JSON; bytes are hex digits there."""
    return Text() if isinstance(type_, HexText) else type_


def _read(given: ColumnElement[Any], type_: TypeEngine[Any]) -> ColumnElement[Any]:
    return func.decode(given, literal_column("'hex'"), type_=type_) if isinstance(type_, HexText) else given


def _writer(dialect: Dialect, type_: TypeEngine[Any]) -> Convert:
    """What makes of a value what stands in the JSON."""
    match type_:
        case HexText():
            return lambda text: to_packed(text).hex()
        case Moment():
            return datetime.isoformat
        case _:
            return to_driver(dialect, type_)


_encoded = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def _changed(cursor: Any) -> Changed:
    def changed() -> int:
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    return changed


def _nothing() -> int:
    return 0


def _bind(name: str) -> str:
    """The name of a parameter: SQLAlchemy keeps the names of columns for itself."""
    return f"p_{name}"
