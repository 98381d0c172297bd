"""Write the tables of this version down, with the stories in them: `python -m tests.adapters.sqlalchemy.released.dump`.

Do that when a version of the tables is released. The texts are kept, so that every later migration is tried on them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from pilotage.adapters.sqlalchemy.opening import open_database
from pilotage.adapters.sqlalchemy.schema import VERSION
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from tests.adapters.sqlalchemy.databases import SERVER
from tests.adapters.sqlalchemy.released.stories import tell

HERE = Path(__file__).parent
SCHEMA = "pilotage_released"
"""Stands in the texts for the schema that they are loaded into."""


def dump_of(version: str, kind: str) -> Path:
    """Where the tables of a version are written down."""
    return HERE / f"{version}.{kind}.sql"


def released_versions() -> list[str]:
    """The versions that are written down, the oldest first."""
    return sorted(file.name.partition(".")[0] for file in HERE.glob("*.sqlite.sql"))


def load_sqlite(version: str, file: Path) -> None:
    """Make a database file of a version."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(dump_of(version, "sqlite").read_text())


def load_postgresql(version: str, schema: str) -> None:
    """Make the tables of a version in a schema that is there."""
    text = dump_of(version, "postgresql").read_text().replace(SCHEMA, schema)
    with psycopg.connect(SERVER, autocommit=True) as connection:
        connection.execute(text.encode())


def _sqlite() -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pilotage.db"
        _tell(DatabaseSettings(f"sqlite:///{file}"))
        with closing(sqlite3.connect(file)) as connection:
            return "\n".join(connection.iterdump())


def _postgresql() -> str:
    with _schema():
        _tell(DatabaseSettings(f"{SERVER}?options=-csearch_path%3D{SCHEMA}"))
        words = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", "-n", SCHEMA, SERVER]
        done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    # Words of the tool about itself and the machine are nothing to keep.
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\", "SET "))]
    return "\n".join(line for line in lines if not line.startswith("CREATE SCHEMA"))


def _tell(settings: DatabaseSettings) -> None:
    with SqlAlchemyStore(open_database(settings)) as store:
        asyncio.run(tell(store))


@contextmanager
def _schema() -> Iterator[None]:
    with psycopg.connect(SERVER, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        try:
            yield
        finally:
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


if __name__ == "__main__":
    dump_of(VERSION, "sqlite").write_text(_sqlite() + "\n")
    dump_of(VERSION, "postgresql").write_text(_postgresql() + "\n")
