"""A connection that is not given back after every statement: getting one from a pool takes SQLAlchemy its time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection, Engine


class KeptConnection:
    """One connection of an engine, for one user at a time; whoever comes meanwhile gets another one from the pool."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._idle: Connection | None = None

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """A connection for the length of the block, on which no transaction is left open."""
        with self._lock:
            connection, self._idle = self._idle, None
        connection = connection or self._engine.connect()
        try:
            yield connection
        except BaseException:
            # The pool knows what to do with one that may be broken.
            connection.close()
            raise
        with self._lock:
            spare, self._idle = self._idle, connection
        if spare is not None:
            spare.close()

    def close(self) -> None:
        """Give it back; only when nobody uses it any more."""
        with self._lock:
            connection, self._idle = self._idle, None
        if connection is not None:
            connection.close()
