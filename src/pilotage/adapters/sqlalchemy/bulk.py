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
from typing import Any, Protocol, TypeAlias

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

from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, is_stored_as_it_is, stored_or_none
from pilotage.adapters.sqlalchemy.driver import Convert, Line, compiled_text, to_driver
from pilotage.adapters.sqlalchemy.mapping import Values

Given: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What is given for each row, by name."""

Expressions: TypeAlias = Callable[[Given], Mapping[str, ColumnElement[Any]]]
"""What becomes of it: expressions by column."""

Types: TypeAlias = Mapping[str, TypeEngine[Any]]

Build: TypeAlias = Callable[[Given, FromClause | None], ClauseElement]
"""The statement over what is given; for one row, or for all of a table of rows."""


class Sent(Protocol):
    """A statement that is carried out, perhaps later: how many rows it has changed is known then."""

    @property
    def rowcount(self) -> int: ...


Run: TypeAlias = Callable[[Line, Sequence[Values]], Sent]


class Bulk:
    """A statement that is carried out for each of many rows; how many rows it changed is known then."""

    def __init__(self, given: Types, build: Build) -> None:
        self.given, self.build = given, build
        self.texts = [name for name, type_ in given.items() if isinstance(type_, ExactText)]
        self._compiled: dict[str, Run] = {}

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Carry it out for all rows; the number of rows that were changed."""
        return self.send(Line(connection), rows).rowcount if rows else 0

    def send(self, line: Line, rows: Sequence[Values]) -> Sent:
        """Let it be carried out for all rows, at least one, perhaps later (see `Engines.in_one_trip`)."""
        run = self._compiled.get(line.dialect.name) or self._compile(line.dialect)
        return run(line, rows)

    def _compile(self, dialect: Dialect) -> Run:
        compiled = _all_at_once if dialect.name == "postgresql" else _one_by_one
        self._compiled[dialect.name] = run = compiled(dialect, self)
        return run

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

    def encoded(self, rows: Sequence[Values]) -> str:
        """The text of such a parameter; whatever else a row says, the database passes over."""
        if not rows:
            return "[]"
        text = _encoded(rows)
        return text if is_stored_as_it_is(text) else _encoded([self._as_stored(row) for row in rows])

    def _as_stored(self, row: Values) -> Values:
        return {**row, **{name: stored_or_none(row[name]) for name in self.texts}}


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
    given, texts = bulk.given, bulk.texts
    binds = {name: bindparam(_bind(name), type_=type_) for name, type_ in given.items()}
    statement, places = compiled_text(bulk.build(binds, None), dialect)
    # A name may occur several times in a statement, and each time is a place of its own.
    names = {_bind(name): name for name in given}
    placed = [names[place] for place in places]
    in_order = itemgetter(*placed)  # gives a tuple, for every statement is given several things
    converts = [
        (place, convert) for place, name in enumerate(placed) if (convert := _binder(dialect, given[name]))
    ]
    strange = [(place, stored_or_none) for place, name in enumerate(placed) if name in texts]

    def run(line: Line, rows: Sequence[Values]) -> Sent:
        sets: list[Sequence[Any]] = [in_order(row) for row in rows]
        if converts:
            sets = [_converted(values, converts) for values in sets]
        # Hardly any text has to be changed, so they are looked at together.
        if not is_stored_as_it_is("".join([row[name] or "" for row in rows for name in texts])):
            sets = [_converted(values, strange) for values in sets]
        cursor: Sent = line.carry_out(statement, sets, many=True)
        return cursor

    return run


def _converted(values: Sequence[Any], converts: Sequence[tuple[int, Callable[[Any], Any]]]) -> Sequence[Any]:
    changed = list(values)
    for place, convert in converts:
        if changed[place] is not None:
            changed[place] = convert(changed[place])
    return changed


def _all_at_once(dialect: Dialect, bulk: Bulk) -> Run:
    statement, _ = compiled_text(bulk.over("rows"), dialect)

    def run(line: Line, rows: Sequence[Values]) -> Sent:
        cursor: Sent = line.carry_out(statement, {"rows": bulk.encoded(rows)})
        return cursor

    return run


def _written_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """The type of a column within JSON; bytes are hex digits there."""
    return Text() if isinstance(type_, HexText) else type_


def _read(given: ColumnElement[Any], type_: TypeEngine[Any]) -> ColumnElement[Any]:
    return func.decode(given, literal_column("'hex'"), type_=type_) if isinstance(type_, HexText) else given


def _binder(dialect: Dialect, type_: TypeEngine[Any]) -> Convert:
    """What makes of a value what the driver takes, for those that are neither texts nor packed already."""
    return None if isinstance(type_, ExactText | HexText) else to_driver(dialect, type_)


def _in_json(said: bytes | datetime) -> str:
    """What stands for a value that JSON has no word for."""
    return said.hex() if isinstance(said, bytes) else said.isoformat()


_encoded = JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_in_json
).encode


def _bind(name: str) -> str:
    """The name of a parameter: SQLAlchemy keeps the names of columns for itself."""
    return f"p_{name}"
