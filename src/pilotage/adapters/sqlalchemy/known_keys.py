"""The keys of a database: the ids of the keys that its codes were made with.

An application without any of these keys must not open the database: it could not distinguish its rows from those of
other writers, and a new key would make codes that the owners of the old one do not know.

The first use of a key covers what is stored: the key is known from the beginning, in small transactions every row
without a code gets one, and in the last transaction entries are counted. No application opens the database before that
is done. One that is killed in between leaves a key whose progress says so, and the next start goes on; a row that has a
code by then keeps it, right or wrong. An upgrade that makes a table marks the keys as grown, and the next application
with a key begins the count of that table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, literal, select, tuple_, update

from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import count_all, count_new_tables
from pilotage.adapters.sqlalchemy.errors import DatabaseKeyError
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import bulk_update
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes
from pilotage.adapters.sqlalchemy.tables import (
    audit,
    evidence,
    keys,
    late_outcomes,
    memories,
    outbox,
    runs,
    signals,
    spending,
    switches,
    tool_pins,
    turns,
)

COVERING, COUNTING, GROWN, DONE = "covering", "counting", "grown", "done"
_BATCH = 1_000
"""How many rows get their codes in one transaction."""
_TABLES = (
    runs,
    signals,
    evidence,
    turns,
    outbox,
    late_outcomes,
    switches,
    tool_pins,
    audit,
    memories,
    spending,
)
_REMEDY = (
    "Put the key file back from where you keep a copy of it, or name it in PILOTAGE_SEALING_OLD_KEY_FILES beside "
    "the new one. A new key opens and verifies nothing that is stored here."
)


def use_keys(database: Database, given: Mapping[str, bytes], codes: RowCodes) -> None:
    """Let a database make and check codes with these keys, the current one first; the first use covers every row.

    Raises:
        DatabaseKeyError: the database has codes, and the application has none of their keys.
    """
    with database.engines.reading.connect() as connection:
        known = _progress(connection)
    if known and known.keys().isdisjoint(given):
        raise missing_key(database.name, set(known))
    if not given:
        return
    current = next(iter(given))
    if current not in known:
        known = _with_key(database, current, given)
    if COVERING in known.values():
        for batch in code_batches(codes):
            with database.engines.writing.begin() as connection:
                batch(connection)
    if {COVERING, COUNTING} & set(known.values()):
        with database.engines.writing.begin() as connection:
            database.engines.take_turns(connection, "keys")
            if {COVERING, COUNTING} & set(_progress(connection).values()):
                count_all(codes, connection)
                connection.execute(update(keys).values(progress=DONE))
    elif GROWN in known.values():
        with database.engines.writing.begin() as connection:
            database.engines.take_turns(connection, "keys")
            count_new_tables(codes, connection)
            connection.execute(update(keys).values(progress=DONE))
    database.codes = codes


def _with_key(database: Database, current: str, given: Mapping[str, bytes]) -> dict[str, str]:
    """Return the keys of a database to which a new one is added; the first one has to cover what is stored."""
    with database.engines.writing.begin() as connection:
        database.engines.take_turns(connection, "keys")
        known = _progress(connection)
        if known and known.keys().isdisjoint(given):
            raise missing_key(database.name, set(known))
        if current not in known:
            known[current] = DONE if known else COVERING
            connection.execute(insert(keys).values(key_id=current, created_at=now(), progress=known[current]))
    return known


def _progress(connection: Connection) -> dict[str, str]:
    """Return how far the first use of each key has come."""
    return {row.key_id: row.progress for row in connection.execute(select(keys))}


def missing_key(name: str, known: set[str]) -> DatabaseKeyError:
    """Return the error that an application does not have the key of a database."""
    return DatabaseKeyError(
        f"{name} was written with the key {min(known)!r}, which this application does not have. {_REMEDY}"
    )


def keys_of_file(file: Path) -> set[str]:
    """Return the ids of the keys that an SQLite file was written with; none for a file that is not there.

    A file of an earlier version knows the keys of its sealed records only.
    """
    if not file.is_file():
        return set()
    found: set[str] = set()
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        for query in (
            "SELECT key_id FROM pilotage_keys",
            "SELECT DISTINCT key_id FROM pilotage_journal WHERE key_id IS NOT NULL",
        ):
            try:
                found.update(str(key_id) for (key_id,) in connection.execute(query))
            except sqlite3.DatabaseError:
                # No such table: it is empty, or of another version. What is no database is found when it is opened.
                continue
    return found


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
