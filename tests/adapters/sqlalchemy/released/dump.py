"""Write the tables of this version down, with the stories in them: `python -m tests.adapters.sqlalchemy.released.dump`.

Do that when a version of the tables is released. The texts are kept, so that every later migration is tried on them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import VERSION, SqlAlchemyStore, open_database
from tests.adapters.sqlalchemy import dumping
from tests.adapters.sqlalchemy.databases import postgresql_settings, schema_named
from tests.adapters.sqlalchemy.released.stories import tell

HERE = Path(__file__).parent


def dump_of(version: str, kind: str) -> Path:
    """Where the tables of a version are written down."""
    return HERE / f"{version}.{kind}.sql"


def released_versions() -> list[str]:
    """The versions that are written down, the oldest first."""
    return sorted(file.name.partition(".")[0] for file in HERE.glob("*.sqlite.sql"))


def load_sqlite(version: str, file: Path) -> None:
    """Make a database file of a version."""
    dumping.load_sqlite(dump_of(version, "sqlite").read_text(), file)


def load_postgresql(version: str, schema: str) -> None:
    """Make the tables of a version in a schema that is there."""
    dumping.load_postgresql(dump_of(version, "postgresql").read_text(), schema)


def _sqlite() -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pilotage.db"
        _tell(DatabaseSettings(f"sqlite:///{file}"))
        return dumping.sqlite_text(file)


def _postgresql() -> str:
    with schema_named(dumping.SCHEMA):
        _tell(postgresql_settings(dumping.SCHEMA))
        return dumping.postgresql_text(dumping.SCHEMA)


def _tell(settings: DatabaseSettings) -> None:
    with SqlAlchemyStore(open_database(settings)) as store:
        asyncio.run(tell(store))


if __name__ == "__main__":
    dump_of(VERSION, "sqlite").write_text(_sqlite())
    dump_of(VERSION, "postgresql").write_text(_postgresql())
