"""The settings of the database. Loads nothing of SQLAlchemy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from pilotage.adapters.sqlalchemy.errors import DatabaseStartError
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.environment import Variables
from pilotage.values import value

PREFIX = "PILOTAGE_DATABASE_"
URL = f"{PREFIX}URL"
POOL_SIZE = f"{PREFIX}POOL_SIZE"
TIMEOUT_SECONDS = f"{PREFIX}TIMEOUT_SECONDS"
UPGRADES_AT_START = f"{PREFIX}UPGRADES_AT_START"
MAY_LOSE_COMMITS = f"{PREFIX}MAY_LOSE_COMMITS_ON_POWER_FAILURE"
BLOBS_FOLDER = "PILOTAGE_BLOBS_FOLDER"

DEFAULT_URL = "sqlite:///.pilotage/pilotage.db"


@value
class DatabaseSettings:
    """The database of an application's runs.

    `url`                   `sqlite:///file.db` or `postgresql://user:password@host/name`
    `pool_size`             how many connections are used at once, beside the one that is reserved for commits
    `timeout_seconds`       how long to wait: for a connection, for a server that is away, for the lock of a file
    `upgrades_at_start`     whether tables of an older version are brought up to date when the application starts
    `blobs_folder`          where the bytes of media are, in files: on a disk that all processes of the database share.
                            Without it they are in the database.
    `opens_without_key`     whether an application without a key opens a database whose entries have codes. For tools
                            that only read: to the others, rows that such an application writes are damaged.
    `may_lose_commits_on_power_failure`
                            allows a database to confirm what is not on the disk yet. It is faster. After a power
                            failure, effects that were confirmed as recorded may be lost from the record, and repeated.
    """

    url: str = DEFAULT_URL
    pool_size: int = 5
    timeout_seconds: float = 30.0
    upgrades_at_start: bool = True
    opens_without_key: bool = False
    may_lose_commits_on_power_failure: bool = False
    blobs_folder: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, url=self.url, blobs_folder=self.blobs_folder)
        reject_not_positive(self, pool_size=self.pool_size, timeout_seconds=self.timeout_seconds)

    def __repr__(self) -> str:
        # The url may contain a password, and settings are logged.
        return f"DatabaseSettings({shown(self.url)!r})"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> DatabaseSettings:
        """Return the settings of the environment variables PILOTAGE_DATABASE_..., with defaults for the rest.

        Raises:
            DatabaseStartError: a variable is no positive number, or no switch.
        """
        variables = Variables(environ, PREFIX, DatabaseStartError)
        return cls(
            url=environ.get(URL) or DEFAULT_URL,
            **variables.numbers(fields(cls)),
            upgrades_at_start=variables.switch("UPGRADES_AT_START", usual=True),
            may_lose_commits_on_power_failure=variables.switch("MAY_LOSE_COMMITS_ON_POWER_FAILURE"),
            blobs_folder=environ.get(BLOBS_FOLDER) or None,
        )


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for other databases."""
    scheme, _, rest = url.partition(":///")
    file = rest.partition("?")[0]
    return Path(file) if scheme.partition("+")[0] == "sqlite" and file and file != ":memory:" else None


def shown(url: str) -> str:
    """Return the address without user and password, for logs and errors."""
    scheme, separator, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if credentials and at else ''}{place.partition('?')[0]}"
