"""`SqlDialect`: the differences between databases, one value each; `supported` lists them.

All other statements are the same for every database. They are in the modules of the ports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table
from sqlalchemy.types import TypeEngine

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.ids import IClock
from pilotage.values import value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Return a moment as a number, for databases that have no type for it."""
    return (moment - EPOCH) // _TICK


class WakeUpChannel(ABC):
    """Hints between processes that use one database."""

    @abstractmethod
    def send(self, connection: Connection, run_id: str) -> None:
        """Send the id of a run to all processes that listen."""

    @abstractmethod
    def begin(self) -> None:
        """Return when hints are received, or after a while: hints may be lost."""

    @abstractmethod
    def end(self) -> None:
        """Return when no more hints are received."""


class Engines(ABC):
    """The connections of one database, and what its transactions guarantee."""

    writing: Engine
    """One transaction at a time per connection; what is committed survives a power failure."""

    reading: Engine
    """No transaction: each statement sees what is committed."""

    single: Callable[[], AbstractContextManager[Connection]] | None
    """Gives a connection on which each statement is a durable transaction that may write to several tables, or None."""

    answers_at_once: bool
    """Whether the result of a statement is known as soon as it is sent: there is no network."""

    hinting: Engine
    """Like `writing`, for what may be lost with the machine: leases and hints."""

    writers: int
    """How many transactions can write at once."""

    retry_seconds: float
    """How long a request is retried while the server is away."""

    writes_in_place: bool
    """Whether a small transaction takes less time than waking a thread: it waits for no server and no disk."""

    @abstractmethod
    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Begin a transaction of `writing` or `hinting` for the length of a block; only for threads that write."""

    @abstractmethod
    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """Begin a transaction of `writing` on the event loop, where the engines write in place.

        Raises:
            WouldWaitError: another transaction is open, or the log must be checkpointed first; nothing has begun.
        """

    @abstractmethod
    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Lock a queue until the transaction ends, so that entries are numbered in the order of commits."""

    @abstractmethod
    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Send the statements of the block together; their results are known after the block.

        Raises:
            DBAPIError: one of them failed, as SQLAlchemy would raise it.
        """

    @abstractmethod
    def check_durability(self, *, may_lose_commits: bool) -> None:
        """Check that what the database confirms survives a power failure.

        Raises:
            DatabaseDurabilityError: it does not, and the settings do not allow that.
        """

    @abstractmethod
    def dispose(self) -> None:
        """Close all connections."""

    def wake_ups(self, publish: Callable[[str], None]) -> WakeUpChannel | None:
        """Return a channel that gives what it receives to `publish`; None where the database has none."""
        return None


@value
class SqlDialect:
    """One database: its addresses, its SQL where that differs, and its connections.

    `name`              the name that SQLAlchemy has for it
    `driver`            the driver that is used, as an address names it
    `package`           the package of the driver
    `extra`             the extra of Pilotage that installs the driver
    `example`           an address
    `engines`           makes the connections
    `insert`            makes an insert with `excluded`, `on_conflict_do_update` and `on_conflict_do_nothing`
    `has_moments`       whether moments are stored as such, in UTC; else they are microseconds since 1970
    `moment_type`       the type of columns of moments
    `takes_rows_as_json` whether many rows are one parameter, see `statements`; else a statement is repeated for each
    `now`               the time of day
    `lease_now`         the clock of leases
    `later`             the moment `{seconds}` after `{now}`
    `hour`              the number of whole hours from 1970 to `{moment}`
    `upgrade_lock`      locks the tables of a database for an upgrade; None where every transaction that writes does so
    `unreachable`       says that a database cannot be opened, with `{name}`, `{reason}` and the `{variable}`
                        of the environment that names another one
    `other_names`       names in addresses, beside `name`
    `refusal`           returns why an address cannot be used, or None
    """

    name: str
    driver: str
    package: str
    extra: str
    example: str
    engines: Callable[[URL, DatabaseSettings, IClock], Engines]
    insert: Callable[[Table], Any]
    has_moments: bool
    moment_type: TypeEngine[Any]
    takes_rows_as_json: bool
    now: str
    lease_now: str
    later: str
    hour: str
    upgrade_lock: str | None
    unreachable: str
    other_names: tuple[str, ...] = ()
    refusal: Callable[[URL], str | None] = lambda _: None
