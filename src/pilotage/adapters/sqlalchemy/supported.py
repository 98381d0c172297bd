"""The databases that are supported, found by an address or by the name that SQLAlchemy has for them."""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy import URL, exc, make_url

from pilotage.adapters.sqlalchemy.dialect import SqlDialect
from pilotage.adapters.sqlalchemy.errors import DatabaseDriverMissingError, DatabaseUrlError
from pilotage.adapters.sqlalchemy.postgresql import POSTGRESQL
from pilotage.adapters.sqlalchemy.settings import shown
from pilotage.adapters.sqlalchemy.sqlite import SQLITE

_SUPPORTED = {dialect.name: dialect for dialect in (SQLITE, POSTGRESQL)}
_BY_ADDRESS = {name: each for each in _SUPPORTED.values() for name in (each.name, *each.other_names)}
_EXAMPLES = f"Write {', or '.join(dialect.example for dialect in _SUPPORTED.values())}."


def dialect_of(name: str) -> SqlDialect:
    """Return the differences of a database that is supported."""
    return _SUPPORTED[name]


def database_url(text: str) -> URL:
    """Return the address with the driver that is used here.

    Raises:
        DatabaseUrlError: it is no address, or one of a database that is not supported.
        DatabaseDriverMissingError: the driver is not installed.
    """
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        raise DatabaseUrlError(f"{shown(text)!r} is no address of a database. {_EXAMPLES}") from error
    name, _, asked = url.drivername.partition("+")
    dialect = _BY_ADDRESS.get(name)
    if dialect is None:
        raise DatabaseUrlError(f"{shown(text)!r}: {name!r} is not supported. {_EXAMPLES}")
    if asked and f"{dialect.name}+{asked}" != dialect.driver:
        raise DatabaseUrlError(f"{shown(text)!r}: the driver {asked!r} is not used here. {_EXAMPLES}")
    if find_spec(dialect.package) is None:
        raise DatabaseDriverMissingError(
            f'{shown(text)!r} needs the driver {dialect.package}. Install it: pip install "pilotage[{dialect.extra}]".'
        )
    refusal = dialect.refusal(url)
    if refusal is not None:
        raise DatabaseUrlError(f"{shown(text)!r} {refusal}")
    return url.set(drivername=dialect.driver)
