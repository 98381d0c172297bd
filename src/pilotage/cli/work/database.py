"""`pilotage db`: the tables of the database that runs are kept in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings, shown
from pilotage.errors import CallerError


def with_database(command: Callable[[Any], int], url: str | None) -> int:
    """Carry a command out; 0 if all is well, 1 if the tables are not up to date.

    Raises:
        CallerError: the extra is not installed.
        DatabaseStartError: the database cannot be used.
    """
    if find_spec("sqlalchemy") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[sqlalchemy]".')
    settings = DatabaseSettings.from_environment()
    with opened(replace(settings, url=url or settings.url)) as database:
        return command(database)


def upgrade(database: Any) -> int:
    """Bring the tables up to date."""
    from pilotage.adapters.sqlalchemy.schema import VERSION, upgrade_schema  # noqa: PLC0415 - loads SQLAlchemy

    found = upgrade_schema(database)
    if found == VERSION:
        return _say(f"{database.name}: tables of version {VERSION}, nothing to do")
    return _say(f"{database.name}: upgraded from {found or 'nothing'} to version {VERSION}")


def current(database: Any) -> int:
    """Say which version the tables have."""
    from pilotage.adapters.sqlalchemy.schema import current_version  # noqa: PLC0415 - loads SQLAlchemy

    with database.engines.reading.connect() as connection:
        return _say(f"{database.name}: {current_version(connection) or 'no tables'}")


def check(database: Any) -> int:
    """Look whether an application could use the database as it is."""
    from pilotage.adapters.sqlalchemy.errors import DatabaseStartError  # noqa: PLC0415 - loads SQLAlchemy

    try:
        return _say(checked(database))
    except DatabaseStartError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def checked(database: Any) -> str:
    """Return how the database stands.

    Raises:
        DatabaseStartError: an application could not use it as it is.
    """
    from pilotage.adapters.sqlalchemy.schema import VERSION, check_schema  # noqa: PLC0415 - loads SQLAlchemy

    may_lose = database.settings.may_lose_commits_on_power_failure
    database.engines.check_durability(may_lose_commits=may_lose)
    check_schema(database)
    return f"{database.name}: tables of version {VERSION}, durable"


@contextmanager
def opened(settings: DatabaseSettings) -> Generator[Any]:
    """Open a database for a command.

    Raises:
        DatabaseStartError: it cannot be used.
    """
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - slow to load

    from pilotage.adapters.sqlalchemy.database import Database  # noqa: PLC0415
    from pilotage.adapters.sqlalchemy.schema import unreachable  # noqa: PLC0415

    database = Database(settings)
    try:
        yield database
    except DBAPIError as error:
        raise unreachable(shown(settings.url), error) from error
    finally:
        database.close()


def _say(words: str) -> int:
    sys.stdout.write(f"{words}\n")
    return 0
