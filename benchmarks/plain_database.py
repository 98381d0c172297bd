"""The floor of durable runs: the loop written by hand with a plain driver, a small row before and after each action.

Each row is a commit of its own, as a loop without a journal writer does it; where commits reach a disk, those of a run
are as many as ours, so that it is not the disk that is compared. A server is asked through the driver's
connection for event loops: a loop that waited for it in place would hold up everything else in the process.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks import floor

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_TABLE = "CREATE TABLE floor (run TEXT, seq INTEGER, row TEXT, PRIMARY KEY (run, seq))"
_names = map(str, count(1))


class Plain(ABC):
    """One connection."""

    @abstractmethod
    def write(self, run: str, seq: int, row: str) -> Awaitable[None] | None:
        """Write a row and commit it."""

    @abstractmethod
    async def read(self, run: str) -> list[str]:
        """The rows of a run, in order."""

    async def run(self, turns: int) -> str:
        """A run; its id."""
        notes = _Notes(self, next(_names))
        async for _ in floor.events(turns, notes):
            pass
        return notes.run

    async def resume(self, run: str) -> None:
        """Read the rows of a run, and write the one before its next action, for another run: this one stays."""
        await floor.resume(await self.read(run), _Notes(self, next(_names)))


class _Notes:
    """The journal of the floor's loop: what is appended is committed."""

    def __init__(self, database: Plain, run: str) -> None:
        self._database = database
        self._count = 0
        self.run = run

    def append(self, row: str, /) -> Awaitable[None] | None:
        self._count += 1
        return self._database.write(self.run, self._count, row)

    def __len__(self) -> int:
        return self._count


class PlainSqlite(Plain):
    """A file, in WAL mode. A commit takes so many rows; one is what a loop without a journal writer does."""

    def __init__(self, file: Path, synchronous: str, rows_per_commit: int = 1) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._rows_per_commit = rows_per_commit
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.execute(_TABLE)

    def write(self, run: str, seq: int, row: str) -> None:
        if not self._connection.in_transaction and self._rows_per_commit > 1:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO floor VALUES (?, ?, ?)", (run, seq, row))
        if self._connection.in_transaction and seq % self._rows_per_commit == 0:
            self._connection.execute("COMMIT")

    async def read(self, run: str) -> list[str]:
        statement = "SELECT row FROM floor WHERE run = ? ORDER BY seq"
        return [row for (row,) in self._connection.execute(statement, (run,))]

    def close(self) -> None:
        self._connection.close()


class PlainPostgresql(Plain):
    """A server."""

    @classmethod
    async def connected(cls, server: str, schema: str) -> Self | None:
        """A connection to a new schema; None where there is no driver, or no server."""
        try:
            from psycopg import AsyncConnection, OperationalError
        except ImportError:
            return None
        url = f"{server}?options=-csearch_path%3D{schema}"
        try:
            connection = await AsyncConnection.connect(url)
        except OperationalError:
            return None
        await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute(_TABLE)
        await connection.commit()
        return cls(connection, url, schema)

    def __init__(self, connection: AsyncConnection, url: str, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.url = url

    async def write(self, run: str, seq: int, row: str) -> None:
        await self._connection.execute("INSERT INTO floor VALUES (%s, %s, %s)", (run, seq, row))
        await self._connection.commit()

    async def read(self, run: str) -> list[str]:
        statement = "SELECT row FROM floor WHERE run = %s ORDER BY seq"
        return [row async for (row,) in await self._connection.execute(statement, (run,))]

    async def close(self) -> None:
        await self._connection.execute(f"DROP SCHEMA {self._schema} CASCADE")
        await self._connection.commit()
        await self._connection.close()
