"""Opening a database: what is wrong with it is said then, with the way out; its tables are brought up to date once."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from pilotage.adapters.sqlalchemy import (
    DatabaseDurabilityError,
    DatabaseSchemaError,
    DatabaseSettings,
    DatabaseStartError,
    DatabaseUnreachableError,
)
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.store import (
    VERSION,
    VERSION_TABLE,
    current_version,
    make_tables,
    migrate,
    open_database,
    upgrade_schema,
)
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.testing.conformance.kit import RUN, claim, commit_of, rows_of
from tests.adapters.sqlalchemy.databases import (
    BACKENDS,
    SCHEMA,
    SERVER,
    need_server,
    opened,
    postgresql_settings,
    schema_named,
    sqlite_settings,
)


@pytest.fixture(params=BACKENDS)
def nothing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseSettings]:
    """A database without tables."""
    if request.param == "sqlite":
        yield sqlite_settings(tmp_path)
        return
    need_server()
    with schema_named(f"{SCHEMA}_empty"):
        yield postgresql_settings(f"{SCHEMA}_empty")


def test_a_database_without_tables_gets_those_of_this_version(nothing: DatabaseSettings) -> None:
    with opened(nothing) as store, store.database.engines.reading.connect() as connection:
        assert current_version(connection) == VERSION
        assert differences(connection) == []


def test_the_migrations_make_the_tables_that_the_code_knows(nothing: DatabaseSettings) -> None:
    database = Database(nothing)
    try:
        with database.engines.writing.begin() as connection:
            migrate(connection)
        with database.engines.reading.connect() as connection:
            assert current_version(connection) == VERSION
            assert differences(connection) == []
    finally:
        database.close()


def test_the_tables_of_a_new_database_are_those_of_all_migrations(tmp_path: Path) -> None:
    assert tables_made_by(make_tables, tmp_path / "at_once") == tables_made_by(migrate, tmp_path / "migrated")


def tables_made_by(make: Callable[[Connection], None], folder: Path) -> dict[str, object]:
    """What SQLite knows of the tables and indexes of a new database, whatever the order of their columns."""
    folder.mkdir()
    database = Database(sqlite_settings(folder))
    try:
        with database.engines.writing.begin() as connection:
            make(connection)
            return {name: described(connection, name) for name in inspect(connection).get_table_names()}
    finally:
        database.close()


def described(connection: Connection, table: str) -> object:
    columns = connection.execute(text(f"PRAGMA table_info({table})")).mappings()
    indexes = connection.execute(
        text("SELECT name, sql FROM sqlite_master WHERE tbl_name = :table AND type = 'index'"),
        {"table": table},
    )
    keys = connection.execute(text(f"PRAGMA foreign_key_list({table})")).mappings()
    return (
        sorted(
            (each["name"], each["type"], each["notnull"], each["dflt_value"], each["pk"]) for each in columns
        ),
        sorted((name, sql) for name, sql in indexes),
        sorted((each["from"], each["table"], each["to"]) for each in keys),
    )


def test_a_new_database_is_made_without_the_migrations(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pilotage.adapters.sqlalchemy import DatabaseSettings\n"
        "from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore\n"
        f"SqlAlchemyStore.open(DatabaseSettings('sqlite:///{tmp_path}/new.db')).close()\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('alembic', 'mako')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "[]\n"


def differences(connection: Connection) -> list[object]:
    """What the tables of the migrations have or lack, compared with those that the code knows."""
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "include_name": lambda name, kind, _: _is_ours(name, kind)}
    )
    return list(compare_metadata(context, metadata))


def _is_ours(name: str | None, kind: str) -> bool:
    return kind != "table" or (name in metadata.tables)


def test_of_many_that_start_at_once_one_makes_the_tables(nothing: DatabaseSettings) -> None:
    def start(_: int) -> str | None:
        with opened(nothing) as store, store.database.engines.reading.connect() as connection:
            return current_version(connection)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(start, range(6))) == [VERSION] * 6


def test_upgrading_again_does_nothing(nothing: DatabaseSettings) -> None:
    database = Database(nothing)
    try:
        assert upgrade_schema(database) is None
        assert upgrade_schema(database) == VERSION
    finally:
        database.close()


async def test_what_was_kept_is_there_after_an_upgrade(nothing: DatabaseSettings) -> None:
    with opened(nothing) as store:
        await store.journal.commit([commit_of(claim(1, epoch=1))])
        before = await rows_of(store.journal)
    with opened(nothing) as store:
        upgrade_schema(store.database)
        assert await rows_of(store.journal) == before
        assert await store.journal.head(RUN) is not None


def test_a_database_is_left_as_it_is_where_nobody_wants_it_changed(nothing: DatabaseSettings) -> None:
    with pytest.raises(DatabaseSchemaError) as caught:
        open_database(replace(nothing, upgrades_at_start=False))
    assert (caught.value.found, caught.value.expected) == (None, VERSION)
    assert "Run: pilotage db upgrade." in str(caught.value)
    with opened(nothing):
        pass
    with opened(replace(nothing, upgrades_at_start=False)):
        pass


def test_tables_of_a_newer_version_are_left_alone(nothing: DatabaseSettings) -> None:
    with opened(nothing) as store, store.database.engines.writing.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))  # noqa: S608 - ours
    with pytest.raises(DatabaseSchemaError) as caught:
        open_database(nothing)
    assert caught.value.found == "9999"
    assert "Upgrade Pilotage" in str(caught.value)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    settings = DatabaseSettings("postgresql://ada:s3cret@127.0.0.1:1/shop", timeout_seconds=2)
    with pytest.raises(DatabaseUnreachableError) as caught:
        open_database(settings)
    assert "postgresql://***@127.0.0.1:1/shop cannot be reached" in str(caught.value)
    assert "PILOTAGE_DATABASE_URL" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(DatabaseUnreachableError) as caught:
        open_database(DatabaseSettings(f"sqlite:///{tmp_path}/a file/pilotage.db"))
    assert "a file/pilotage.db cannot be used" in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "pilotage.db").write_text("something else " * 100)
    with pytest.raises(DatabaseStartError) as caught:
        open_database(sqlite_settings(tmp_path))
    assert "pilotage.db" in str(caught.value)


def test_an_sqlite_file_is_durable_and_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "below" / "shop.db"
    with opened(DatabaseSettings(f"sqlite:///{file}")) as store:
        with store.database.engines.writing.begin() as connection:
            pragmas = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
        for each in file.parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_server_that_confirms_what_it_would_lose_is_refused_unless_somebody_says_so() -> None:
    need_server()
    careless = DatabaseSettings(f"{SERVER}?options=-csynchronous_commit%3Doff")
    with pytest.raises(DatabaseDurabilityError) as caught:
        open_database(careless)
    assert "synchronous_commit is off" in str(caught.value)
    assert "may_lose_commits_on_power_failure=True" in str(caught.value)
    with schema_named(f"{SCHEMA}_careless"), opened(postgresql_settings(f"{SCHEMA}_careless")):
        pass
