"""The version of the tables: which one is there, and bringing it up to date.

A database has exactly one version. Whoever brings it up to date holds a lock meanwhile, so of several processes that
start at once one does it and the others find it done.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.start_errors import DatabaseSchemaError

VERSION = "0003"
"""The version this Pilotage works with; the last migration has its name."""

VERSION_TABLE = "pilotage_schema"

_LOCK = 7_045_410_417_361_133


def current_version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - ours
    return None if found is None else str(found)


def check_schema(database: Database) -> None:
    """Look whether the tables are those of this version.

    Raises:
        DatabaseSchemaError: they are older, newer, or not there.
    """
    with database.engines.reading.connect() as connection:
        found = current_version(connection)
    if found == VERSION:
        return
    if found is not None and found > VERSION:
        raise DatabaseSchemaError(
            f"{database.name} has tables of version {found}, and this Pilotage knows versions up to {VERSION}. "
            "Upgrade Pilotage: a newer one has been here.",
            found=found,
            expected=VERSION,
        )
    how = "no tables of Pilotage" if found is None else f"tables of version {found}"
    raise DatabaseSchemaError(
        f"{database.name} has {how}, and {VERSION} is needed. Run: pilotage db upgrade.",
        found=found,
        expected=VERSION,
    )


def upgrade_schema(database: Database) -> str | None:
    """Bring the tables up to date; the version they had. Where they are, nothing is done.

    Raises:
        DatabaseSchemaError: they are newer than this Pilotage.
    """
    with database.engines.reading.connect() as connection:
        found = current_version(connection)
    if found is None or found < VERSION:
        with database.engines.writing.begin() as connection:
            # On SQLite the transaction is the lock.
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            if current_version(connection) != VERSION:
                _migrate(connection)
    check_schema(database)
    return found


def _migrate(connection: Connection) -> None:
    # Most processes find everything done, and need not load it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "pilotage.adapters.sqlalchemy:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, VERSION)
