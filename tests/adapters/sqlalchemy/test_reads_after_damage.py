"""A row that cannot be read ends one question: what is asked next is read as it is stored then."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import switches

NAMES = select(switches.c.name)
ROWS = 3_000


def unreadable(values: Stored) -> str:
    raise LookupError(f"{values['name']} cannot be read")


def name(values: Stored) -> str:
    return str(values["name"])


async def test_a_row_that_cannot_be_converted_leaves_no_query_open(tmp_path: Path) -> None:
    path, errors = tmp_path / "pilotage.db", list[Exception]()
    settings = DatabaseSettings(f"sqlite:///{path}", may_lose_commits_on_power_failure=True)
    with SqlAlchemyStore.open(settings) as store, closing(sqlite3.connect(path)) as connection:
        rows = [("agent", f"agent-{number}", "r", "b", 0) for number in range(ROWS)]
        connection.executemany(
            'INSERT INTO pilotage_switches (kind, name, reason, "by", since) VALUES (?, ?, ?, ?, ?)', rows
        )
        connection.commit()
        for _ in range(8):  # as often as there may be readers
            try:
                await store.database.rows(NAMES, {}, unreadable)
            except Exception as error:  # noqa: BLE001 - kept, and with it all that it refers to
                errors.append(error)
        connection.execute("DELETE FROM pilotage_switches")
        connection.commit()
        for _ in range(8):
            assert await store.database.rows(NAMES, {}, name) == []
    assert len(errors) == 8
