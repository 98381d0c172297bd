"""The first use of a key: every row that is stored gets its code, in small transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table, literal, select, tuple_

from pilotage.adapters.sqlalchemy.codes import RowCodes
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_update
from pilotage.adapters.sqlalchemy.tables import (
    audit,
    evidence,
    late_outcomes,
    memories,
    outbox,
    runs,
    signals,
    spending,
    switches,
    turns,
)

_BATCH = 1_000
"""How many rows get their codes in one transaction."""
_TABLES = (runs, signals, evidence, turns, outbox, late_outcomes, switches, audit, memories, spending)


def code_batches(codes: RowCodes) -> Iterator[Callable[[Connection], None]]:
    """Yield the work of giving codes to all rows that have none, a batch of them in each transaction."""
    for table in _TABLES:
        coding = _Coding(codes, table)
        while not coding.is_done:
            yield coding.next_batch


class _Coding:
    """Gives codes to the rows of a table, in the order of their keys."""

    def __init__(self, codes: RowCodes, table: Table) -> None:
        self._codes = codes
        self._table = table
        self._key = list(table.primary_key)
        self._last: Sequence[Any] | None = None
        self.is_done = False
        ends = {"end_code": table.c.end_code.type} if table is signals else {}
        self._update = bulk_update(
            table,
            [column.name for column in self._key],
            lambda given: {name: given[f"new_{name}"] for name in ("code", *ends)},
            {"new_code": table.c.code.type, **{f"new_{name}": type_ for name, type_ in ends.items()}},
            lambda _: table.c.code.is_(None),
        )

    def next_batch(self, connection: Connection) -> None:
        """Give codes to the next rows without one."""
        table = self._table
        wanted = select(table).where(table.c.code.is_(None)).order_by(*self._key).limit(_BATCH)
        if table is runs:
            wanted = wanted.where(runs.c.head > 0)
        if self._last is not None:
            last = [literal(each, column.type) for each, column in zip(self._last, self._key, strict=True)]
            wanted = wanted.where(tuple_(*self._key) > tuple_(*last))
        found = connection.execute(wanted).mappings().all()
        self.is_done = len(found) < _BATCH
        if found:
            self._last = [found[-1][column.name] for column in self._key]
            self._update.run(connection, [self._coded(row) for row in found])

    def _coded(self, row: Stored) -> Values:
        values: Values = {column.name: row[column.name] for column in self._key}
        values["new_code"] = self._codes.packed(self._table, row)
        if self._table is signals:
            is_ended = row["consumed_at"] is not None
            values["new_end_code"] = self._codes.end_of_signal(row) if is_ended else None
        return values
