"""Databases for tests: an SQLite file each, and a PostgreSQL schema for each process that runs tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore, open_database
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.ids import IClock, SystemClock

SERVER = os.environ.get("PILOTAGE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
BACKENDS = ["sqlite", "postgresql"]

_DRIVEN = SERVER.replace("postgresql://", "postgresql+psycopg://")
SCHEMA = f"pilotage_test_{os.getpid()}"


def sqlite_settings(path: Path) -> DatabaseSettings:
    """An SQLite file of its own; tests do not wait for a disk."""
    return DatabaseSettings(f"sqlite:///{path / 'pilotage.db'}", may_lose_commits_on_power_failure=True)


def postgresql_settings(schema: str = SCHEMA) -> DatabaseSettings:
    """A schema on the server for tests."""
    return DatabaseSettings(
        f"{SERVER}?options=-csearch_path%3D{schema},pg_catalog%20-csynchronous_commit%3Doff",
        may_lose_commits_on_power_failure=True,
    )


# Stands before the server's own: tests put the clock of the store forward instead of waiting.
_CLOCK = """
    CREATE TABLE {schema}.clock (ahead interval);
    INSERT INTO {schema}.clock VALUES ('0');
    CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT pg_catalog.clock_timestamp() + ahead FROM {schema}.clock'
"""


class ClockOfFile(SystemClock):
    """The clocks of the machine with an SQLite file: a test lets time pass, and sets the time of day."""

    def __init__(self) -> None:
        self.ahead = timedelta()
        self.set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead + self.set_by

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


def put_forward(store: SqlAlchemyStore, seconds: float) -> None:
    """Put the clock of a store on a server forward."""
    with store.database.engines.writing.begin() as connection:
        connection.execute(text("UPDATE clock SET ahead = ahead + make_interval(secs => :s)"), {"s": seconds})


@cache
def why_no_server() -> str | None:
    """Why there is no server; None where there is one."""
    engine = create_engine(_DRIVEN, connect_args={"connect_timeout": 3})
    try:
        with engine.connect():
            return None
    except OperationalError as error:
        return f"no PostgreSQL server: {str(error.orig).splitlines()[0]}"
    finally:
        engine.dispose()


def need_server() -> None:
    """Skip the test where there is no server."""
    if (reason := why_no_server()) is not None:
        pytest.skip(reason)


@contextmanager
def schema_named(name: str) -> Iterator[None]:
    """A schema on the server, dropped at the end."""
    engine = create_engine(_DRIVEN)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
            connection.execute(text(f"CREATE SCHEMA {name}"))
            connection.execute(text(_CLOCK.format(schema=name)))
        yield
    finally:
        with suppress(OperationalError), engine.begin() as connection:
            connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
        engine.dispose()


def empty(store: SqlAlchemyStore) -> None:
    """Forget everything that is in the tables; for a few rows this is quicker than TRUNCATE."""
    with store.database.engines.writing.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        if store.database.dialect.name != "sqlite":
            connection.execute(text("UPDATE clock SET ahead = '0'"))


@contextmanager
def opened(settings: DatabaseSettings, clock: IClock | None = None) -> Iterator[SqlAlchemyStore]:
    """A store over a database, closed at the end."""
    with SqlAlchemyStore(open_database(settings, clock)) as store:
        yield store
