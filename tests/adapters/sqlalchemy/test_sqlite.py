"""Transactions of SQLite are the driver's, and whoever goes through SQLAlchemy takes part in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from pilotage.adapters.sqlalchemy.dialect import DatabaseLine
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore

Write = Callable[[Connection, str], None]


def by_driver(connection: Connection, name: str) -> None:
    DatabaseLine(connection).carry_out("INSERT INTO kept VALUES (?)", (name,)).close()


def by_sqlalchemy(connection: Connection, name: str) -> None:
    connection.execute(text("INSERT INTO kept VALUES (:name)"), {"name": name})


WAYS = pytest.mark.parametrize("write", [by_driver, by_sqlalchemy])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlAlchemyStore]:
    with SqlAlchemyStore.open(DatabaseSettings(f"sqlite:///{tmp_path / 'file.db'}")) as store:
        with store.database.engines.writing.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE kept (name TEXT PRIMARY KEY)")
            connection.exec_driver_sql(
                "CREATE TABLE pointing (name TEXT REFERENCES kept (name) DEFERRABLE INITIALLY DEFERRED)"
            )
        yield store


async def names(store: SqlAlchemyStore) -> list[str]:
    def look(connection: Connection) -> list[str]:
        return list(connection.execute(text("SELECT name FROM kept ORDER BY name")).scalars())

    return await store.database.read(look)


@WAYS
async def test_what_is_written_is_there_when_the_transaction_is_over(
    store: SqlAlchemyStore, write: Write
) -> None:
    for name in ("a", "b"):
        await store.database.write(lambda connection, name=name: write(connection, name))  # type: ignore[misc]
    assert await names(store) == ["a", "b"]


async def test_both_ways_are_one_transaction(store: SqlAlchemyStore) -> None:
    def fails(connection: Connection) -> None:
        for number, write in enumerate((by_driver, by_sqlalchemy, by_driver)):
            write(connection, str(number))
        raise LookupError

    with pytest.raises(LookupError):
        await store.database.write(fails)
    assert await names(store) == []


@WAYS
async def test_one_that_fails_leaves_nothing_and_the_next_one_begins_anew(
    store: SqlAlchemyStore, write: Write
) -> None:
    def twice(connection: Connection) -> None:
        for _ in range(2):
            write(connection, "a")

    for _ in range(2):
        with pytest.raises(ConflictingWriteError):
            await store.database.write(twice)
    await store.database.write(lambda connection: write(connection, "b"))
    assert await names(store) == ["b"]


@WAYS
async def test_one_that_fails_at_its_end_leaves_nothing_and_says_so(
    store: SqlAlchemyStore, write: Write
) -> None:
    def points_nowhere(connection: Connection) -> None:
        write(connection, "a")
        DatabaseLine(connection).carry_out("INSERT INTO pointing VALUES ('nowhere')", ()).close()

    with pytest.raises(ConflictingWriteError):
        await store.database.write(points_nowhere)
    await store.database.write(lambda connection: write(connection, "b"))
    assert await names(store) == ["b"]
