"""The floor of durable runs: the loop written by hand with a plain driver, a small row before and after each action.

Each row is a commit of its own, as a loop without a journal writer does it.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from itertools import count
from pathlib import Path
from typing import Any, Self

from benchmarks import floor

_TABLE = "CREATE TABLE floor (run TEXT, seq INTEGER, row TEXT, PRIMARY KEY (run, seq))"
_names = map(str, count(1))


class Plain(ABC):
    """One connection."""

    @abstractmethod
    def write(self, run: str, seq: int, row: str) -> None:
        """Write a row and commit it."""

    @abstractmethod
    def read(self, run: str) -> list[tuple[str]]:
        """The rows of a run, in order."""

    async def run(self, turns: int) -> str:
        """A run; its id."""
        notes = _Notes(self, next(_names))
        async for _ in floor.events(turns, notes):
            pass
        return notes.run

    async def resume(self, run: str) -> list[dict[str, Any]]:
        """The messages of a run from its rows."""
        return await floor.resume([row for (row,) in self.read(run)])


class _Notes(list[str]):
    """The journal of the floor's loop: what is appended is committed."""

    def __init__(self, database: Plain, run: str) -> None:
        super().__init__()
        self.database = database
        self.run = run

    def append(self, text: str) -> None:
        super().append("")
        self.database.write(self.run, len(self), text)


class PlainSqlite(Plain):
    """A file, in WAL mode."""

    def __init__(self, file: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.execute(_TABLE)

    def write(self, run: str, seq: int, row: str) -> None:
        self._connection.execute("INSERT INTO floor VALUES (?, ?, ?)", (run, seq, row))

    def read(self, run: str) -> list[tuple[str]]:
        return self._connection.execute("SELECT row FROM floor WHERE run = ? ORDER BY seq", (run,)).fetchall()

    def close(self) -> None:
        self._connection.close()


class PlainPostgresql(Plain):
    """A server."""

    @classmethod
    def connected(cls, server: str, schema: str) -> Self | None:
        """A connection to a new schema; None where there is no driver, or no server."""
        try:
            import psycopg
        except ImportError:
            return None
        try:
            psycopg.connect(server, autocommit=True).close()
        except psycopg.OperationalError:
            return None
        return cls(server, schema)

    def __init__(self, server: str, schema: str) -> None:
        import psycopg

        self._schema = schema
        self.url = f"{server}?options=-csearch_path%3D{schema}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        self._connection = psycopg.connect(self.url, autocommit=True)
        self._connection.execute(_TABLE.replace("floor", "pilotage_floor", 1))

    def write(self, run: str, seq: int, row: str) -> None:
        self._connection.execute("INSERT INTO pilotage_floor VALUES (%s, %s, %s)", (run, seq, row))

    def read(self, run: str) -> list[tuple[str]]:
        statement = "SELECT row FROM pilotage_floor WHERE run = %s ORDER BY seq"
        return self._connection.execute(statement, (run,)).fetchall()

    def close(self) -> None:
        self._connection.execute(f"DROP SCHEMA {self._schema} CASCADE")
        self._connection.close()
