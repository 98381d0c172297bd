"""The keys of a database: the ids of the keys that its codes were made with.

An application without any of these keys must not open the database: it could not tell its rows from those of others,
and a new key would make codes that the owners of the old one do not know.

The first key covers what is stored: it is known from the beginning, in small transactions every row without a code gets
one, and in the last transaction entries are counted. No application opens the database before that is done. One that is
killed in between leaves a key whose progress says so, and the next start goes on; a row that has a code by then keeps
it, right or wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from pilotage.adapters.sqlalchemy.codes import RowCodes
from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.covering import code_batches
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import count_all
from pilotage.adapters.sqlalchemy.errors import DatabaseKeyError
from pilotage.adapters.sqlalchemy.tables import keys

COVERING, COUNTING, DONE = "covering", "counting", "done"
_WAY_OUT = (
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
    database.engines.codes = codes


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
        f"{name} was written with the key {min(known)!r}, which this application does not have. {_WAY_OUT}"
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
