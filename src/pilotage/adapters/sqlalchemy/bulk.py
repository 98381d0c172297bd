"""Statements over many rows at once, as each database does them best.

SQLite repeats a statement for each row without leaving the process. PostgreSQL gets one statement with an array for
each column: one round trip, however many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ARRAY, Connection, FromClause, Table, bindparam, column, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.expression import ColumnElement, Executable
from sqlalchemy.types import TypeEngine

from pilotage.adapters.sqlalchemy.mapping import Values

Given: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What is given for each row, by name."""

Expressions: TypeAlias = Callable[[Given], dict[str, ColumnElement[Any]]]
"""What becomes of it: expressions by column."""

_COUNTED = {"preserve_rowcount": True}


class Bulk:
    """A statement that is carried out for each of many rows; `run` says how many of them it changed."""

    def __init__(
        self,
        given: Mapping[str, TypeEngine[Any]],
        build: Callable[[Given, FromClause | None], Executable],
    ) -> None:
        self._names = tuple(given)
        self._each = build({name: bindparam(f"p_{name}", type_=given[name]) for name in given}, None)
        arrays = [bindparam(f"p_{name}", type_=ARRAY(type_)) for name, type_ in given.items()]
        columns = [column(name, type_) for name, type_ in given.items()]
        table = func.unnest(*arrays).table_valued(*columns, name="given").render_derived()
        self._all = build({name: table.c[name] for name in given}, table)

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Carry it out for all rows; the number of rows that were changed."""
        if not rows:
            return 0
        names = self._names
        if connection.dialect.name == "postgresql":
            arrays = {f"p_{name}": [row[name] for row in rows] for name in names}
            done = connection.execute(self._all, arrays, execution_options=_COUNTED)
        else:
            each = [{f"p_{name}": row[name] for name in names} for row in rows]
            done = connection.execute(self._each, each, execution_options=_COUNTED)
        return done.rowcount


def bulk_insert(
    table: Table,
    given: Sequence[str],
    computed: Expressions,
    *,
    extra: Mapping[str, TypeEngine[Any]] | None = None,
    skips_known: bool = False,
) -> Bulk:
    """Inserts rows: the columns that are given, and those that are computed from what is given.

    `extra` names what is given and no column. Rows that are known already are left alone if `skips_known`.
    """

    def build(values: Given, source: FromClause | None) -> Executable:
        expressions = {**{name: values[name] for name in given}, **computed(values)}
        if source is None:
            each = sqlite.insert(table).values(expressions)
            return each.on_conflict_do_nothing() if skips_known else each
        chosen = select(*expressions.values()).select_from(source)
        all_ = postgresql.insert(table).from_select(list(expressions), chosen)
        return all_.on_conflict_do_nothing() if skips_known else all_

    return Bulk({**{name: table.c[name].type for name in given}, **(extra or {})}, build)


def bulk_update(
    table: Table,
    key: Sequence[str],
    computed: Expressions,
    given: Mapping[str, TypeEngine[Any]],
    condition: Callable[[Given], ColumnElement[bool]],
) -> Bulk:
    """Changes the rows with these keys, those of them that the condition holds for."""

    def build(values: Given, source: FromClause | None) -> Executable:
        matches = [table.c[name] == values[name] for name in key]
        return update(table).where(*matches, condition(values)).values(computed(values))

    return Bulk({**{name: table.c[name].type for name in key}, **given}, build)
