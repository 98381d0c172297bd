"""Opening a database: connect, look whether it keeps what it confirms, bring its tables up to date."""

from __future__ import annotations

from sqlalchemy import exc

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.schema import check_schema, upgrade_schema
from pilotage.adapters.sqlalchemy.settings import URL, DatabaseSettings
from pilotage.adapters.sqlalchemy.start_errors import DatabaseUnreachableError
from pilotage.ids import IClock


def open_database(settings: DatabaseSettings, clock: IClock | None = None) -> Database:
    """A database that can be used; blocks while it looks.

    Raises:
        DatabaseStartError: it cannot be used; the message says why, and what to do.
    """
    database = Database(settings, clock)
    try:
        database.engines.check_durability(may_lose_commits=settings.may_lose_commits_on_power_failure)
        if settings.upgrades_at_start:
            upgrade_schema(database)
        else:
            check_schema(database)
    except exc.DBAPIError as error:
        database.close()
        raise unreachable(database.name, error) from error
    except BaseException:
        database.close()
        raise
    return database


def unreachable(name: str, error: exc.DBAPIError) -> DatabaseUnreachableError:
    """Nobody answers at an address, in words."""
    reason = str(error.orig).strip().partition("\n")[0]
    return DatabaseUnreachableError(
        f"{name} cannot be reached: {reason}. Start the server, or name another one in {URL}."
    )
