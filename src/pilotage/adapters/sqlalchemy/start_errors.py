"""What keeps an application from using its database, each with the way out.

DatabaseStartError                      the developer, or whoever runs the application
├── DatabaseUrlError                    the address is none, or of a database that is not supported
├── DatabaseDriverMissingError          a package has to be installed
├── DatabaseUnreachableError            nobody answers there
├── DatabaseSchemaError                 the tables are older or newer than this version of Pilotage
└── DatabaseDurabilityError             the database would lose what it has confirmed
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import StartupError


class DatabaseStartError(StartupError):
    """The database cannot be used."""

    message: ClassVar[str] = "The database cannot be used."
    code: ClassVar[str] = "database_start_error"


class DatabaseUrlError(DatabaseStartError):
    """The address of the database is none, or names a database that is not supported."""

    message: ClassVar[str] = "The address of the database cannot be used."
    code: ClassVar[str] = "database_url_error"


class DatabaseDriverMissingError(DatabaseStartError):
    """The package that talks to this database is not installed."""

    message: ClassVar[str] = 'A driver is missing. Install it: pip install "pilotage[postgres]".'
    code: ClassVar[str] = "database_driver_missing"


class DatabaseUnreachableError(DatabaseStartError):
    """Nobody answers at the address of the database."""

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
