"""Listening to PostgreSQL's notifications: one connection and one thread, which come back by themselves."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, cast

import psycopg
from sqlalchemy import Engine, exc

from pilotage.adapters.sqlalchemy.columns import from_stored
from pilotage.adapters.sqlalchemy.hub import WakeUpHub

_PATIENCE = 0.2
_READY_WITHIN = 5.0

Listening = psycopg.Connection[tuple[Any, ...]]


class PostgresqlListener:
    """Passes notifications on to a hub, from when somebody first listens until `end`.

    The name of a channel is followed by that of the schema, for channels belong to the whole database.
    """

    def __init__(self, engine: Engine, channel: str, hub: WakeUpHub) -> None:
        self._engine, self._channel, self._hub = engine, channel, hub
        self._lock = Lock()
        self._is_over = Event()
        self._is_ready = Event()
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Return when notifications are heard, or after a while: a channel that is down harms nobody."""
        with self._lock:
            if self._thread is None and not self._is_over.is_set():
                self._thread = Thread(target=self._listen, name="pilotage-listener", daemon=True)
                self._thread.start()
        self._is_ready.wait(_READY_WITHIN)

    def end(self) -> None:
        """Return when nobody listens any more."""
        self._is_over.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _listen(self) -> None:
        while not self._is_over.is_set():
            try:
                with _own_connection(self._engine) as connection:
                    self._pass_on(connection)
            except (psycopg.Error, exc.SQLAlchemyError):
                self._is_ready.clear()
                self._is_over.wait(_PATIENCE)

    def _pass_on(self, connection: Listening) -> None:
        row = connection.execute("SELECT quote_ident(%s || current_schema())", [self._channel]).fetchone()
        if row is not None:
            connection.execute(f"LISTEN {row[0]}".encode())
        self._is_ready.set()
        while not self._is_over.is_set():
            for notice in connection.notifies(timeout=_PATIENCE):
                self._hub.tell(from_stored(notice.payload))
                if self._is_over.is_set():
                    return


@contextmanager
def _own_connection(engine: Engine) -> Generator[Listening]:
    """A connection that is made like all others and does not count among those of the pool."""
    borrowed = engine.raw_connection()
    connection = cast(Listening, borrowed.driver_connection)
    borrowed.detach()
    try:
        connection.rollback()
        connection.autocommit = True
        yield connection
    finally:
        connection.close()
