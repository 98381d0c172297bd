"""The errors of the store; the table from the vendor's errors to these is `dialect.translated`.

DatabaseStartError                      the database cannot be used: for the developer or the operator
├── DatabaseUrlError                    the address is invalid, or names a database that is not supported
├── DatabaseDriverMissingError          a package has to be installed
├── DatabaseUnreachableError            no server answers at the address
├── DatabaseSchemaError                 the tables are older or newer than this version of Pilotage
└── DatabaseDurabilityError             the database would lose what it has confirmed
StoreUnreachableError                   the open database did not answer
ConflictingWriteError                   a write does not fit the stored rows
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import StartupError


class DatabaseStartError(StartupError):
    """The database cannot be used."""

    message: ClassVar[str] = "The database cannot be used."
    code: ClassVar[str] = "database_start_error"


class DatabaseUrlError(DatabaseStartError):
    """The address of the database is invalid, or names a database that is not supported."""

    message: ClassVar[str] = "The address of the database cannot be used."
    code: ClassVar[str] = "database_url_error"


class DatabaseDriverMissingError(DatabaseStartError):
    """The package that talks to this database is not installed."""

    message: ClassVar[str] = 'A driver is missing. Install it: pip install "pilotage[postgres]".'
    code: ClassVar[str] = "database_driver_missing"


class DatabaseUnreachableError(DatabaseStartError):
    """No server answers at the address of the database."""

    message: ClassVar[str] = "The database cannot be reached."
    code: ClassVar[str] = "database_unreachable"


class DatabaseSchemaError(DatabaseStartError):
    """The tables are older or newer than this version of Pilotage; `found` and `expected` are their versions."""

    message: ClassVar[str] = "The tables are not those of this version."
    code: ClassVar[str] = "database_schema_error"

    def __init__(self, *args: object, found: str | None = None, expected: str = "") -> None:
        super().__init__(*args)
        self.found, self.expected = found, expected


class DatabaseDurabilityError(DatabaseStartError):
    """The database is set up to lose what it has confirmed."""

    message: ClassVar[str] = "The database would lose what it has confirmed."
    code: ClassVar[str] = "database_durability_error"


class DatabaseKeyError(DatabaseStartError):
    """The database was written with a key that the application does not have."""

    message: ClassVar[str] = "The application does not have the key of the database."
    code: ClassVar[str] = "database_key_error"


class StoreUnreachableError(OSError):
    """The database did not answer, or not in time; whether the request was carried out is unknown.

    `is_away` says that the connection was lost, or could not be made: the server may come back.
    """

    code: ClassVar[str] = "store_unreachable"

    def __init__(self, words: str, *, is_away: bool = False) -> None:
        super().__init__(words)
        self.is_away = is_away


class ConflictingWriteError(Exception):
    """A write does not fit the stored rows, or another writer has changed them; nothing is written."""
