"""Reading the address of a database: which one it is, with which driver. Pure but for looking for the driver."""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pilotage.adapters.sqlalchemy.settings import shown
from pilotage.adapters.sqlalchemy.start_errors import DatabaseDriverMissingError, DatabaseUrlError

_DRIVERS = {"sqlite": ("sqlite", "sqlite3"), "postgresql": ("postgresql+psycopg", "psycopg")}
_OTHER_NAMES = {"postgres": "postgresql"}
_EXAMPLES = "Write sqlite:///file.db, or postgresql://user:password@host/name."


def database_url(text: str) -> URL:
    """The address with the driver that is used here.

    Raises:
        DatabaseUrlError: it is no address, or one of a database that is not supported.
        DatabaseDriverMissingError: the driver is not installed.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise DatabaseUrlError(f"{shown(text)!r} is no address of a database. {_EXAMPLES}") from error
    name, _, asked = url.drivername.partition("+")
    name = _OTHER_NAMES.get(name, name)
    if name not in _DRIVERS:
        raise DatabaseUrlError(f"{shown(text)!r}: {name!r} is not supported. {_EXAMPLES}")
    drivername, package = _DRIVERS[name]
    if asked and f"{name}+{asked}" != drivername:
        raise DatabaseUrlError(f"{shown(text)!r}: the driver {asked!r} is not used here. {_EXAMPLES}")
    if find_spec(package) is None:
        raise DatabaseDriverMissingError(
            f'{shown(text)!r} needs the driver {package}. Install it: pip install "pilotage[postgres]".'
        )
    _refuse_memory(text, url)
    return url.set(drivername=drivername)


def _refuse_memory(text: str, url: URL) -> None:
    if url.get_backend_name() == "sqlite" and (not url.database or ":memory:" in url.database):
        raise DatabaseUrlError(
            f"{shown(text)!r} would forget everything with its process. Name a file: sqlite:///file.db; in tests "
            "use pilotage.testing.MemoryStore()."
        )
