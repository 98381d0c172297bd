"""The engines of a database: how its connections begin, write and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine

from pilotage.adapters.sqlalchemy.kept_connection import KeptConnection


class WouldWaitError(Exception):
    """It cannot be done at once. A thread can wait."""


class Engines(ABC):
    """What differs between databases. Statements do not: those are in the modules of the ports."""

    writing: Engine
    """One transaction at a time per connection; what is committed survives a power failure."""

    reading: Engine
    """No transaction: each statement sees what is committed."""

    single: KeptConnection | None
    """Each statement is a transaction, and as durable; None where one statement cannot write to several tables."""

    hinting: Engine
    """Like `writing`, for what may be lost with the machine: leases and hints."""

    writers: int
    """How many transactions can write at once."""

    patience_seconds: float
    """How long to wait for a database that is away to come back."""

    writes_in_place: bool
    """Whether a small transaction is over before a thread would begin with it: it waits for no server and no disk."""

    @abstractmethod
    def transaction(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A transaction of one of the engines that write, for the length of the block; only for threads that write."""

    @abstractmethod
    def transaction_in_place(self) -> AbstractContextManager[Connection]:
        """A transaction of `writing` for the event loop itself, where the engines write in place.

        Raises:
            WouldWaitError: somebody else is writing, or something is due that takes longer; nothing has begun.
        """

    @abstractmethod
    def take_turns(self, connection: Connection, *queue: str) -> None:
        """Until the transaction ends, let nobody else number what belongs to this queue."""

    @abstractmethod
    def in_one_trip(self, connection: Connection) -> AbstractContextManager[object]:
        """Send the statements of the block together; what they did is known behind it.

        Raises:
            DBAPIError: one of them failed, as SQLAlchemy would raise it.
        """

    @abstractmethod
    def check_durability(self, *, may_lose_commits: bool) -> None:
        """Look whether the database keeps what it confirms.

        Raises:
            DatabaseDurabilityError: it does not, and nobody has allowed that.
        """

    @abstractmethod
    def dispose(self) -> None:
        """Close all connections."""


def first_value(connection: Connection, statement: str) -> Any:
    """The one value of a statement in the words of the database."""
    return connection.exec_driver_sql(statement).scalar_one()
