"""Whose turn it is to write to an SQLite file: one transaction at a time, of the thread that writes or in place.

Connections are kept, because getting one takes as long as the transaction. The driver begins and ends it; SQLAlchemy
joins in only where somebody executes a statement through it.
"""

from __future__ import annotations

import sqlite3
from threading import Lock
from typing import cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from pilotage.adapters.sqlalchemy.driver import as_sqlalchemy_says_it, carry_out
from pilotage.adapters.sqlalchemy.engines import WouldWaitError

LOG_PAGES = 4000
"""How long the log may get before it is carried over: pages that are written again and again are carried over once."""

IN_A_ROW = 200
"""So many transactions in place, then one in the thread: that carries the log over where it has become too long."""

_BEGIN = "BEGIN IMMEDIATE"
_ERROR = 0xFF
"""The part of an error code that says what is wrong; the rest says where."""


class Turns:
    """The transactions of this process in one file.

    A connection that is used in place waits for nobody and leaves the log alone; in the thread it does neither.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._patience = round(timeout_seconds * 1000)
        self._turn = Lock()
        self._kept: dict[Engine, Connection] = {}
        self._in_a_row = 0

    def begin(self, engine: Engine) -> Turn:
        """In the thread that writes."""
        self._turn.acquire()
        try:
            if self._in_a_row:
                self._in_a_row = 0
                for connection in self._kept.values():
                    _tune(connection, self._patience, LOG_PAGES)
            if engine not in self._kept:
                self._kept[engine] = engine.connect()
            begin_immediate(self._kept[engine])
        except BaseException:
            self._turn.release()
            raise
        return Turn(self._kept[engine], self._turn)

    def begin_in_place(self, engine: Engine) -> Turn:
        """In the event loop.

        Raises:
            WouldWaitError: somebody is writing, in this process or another, or the thread is due.
        """
        if self._in_a_row >= IN_A_ROW or engine not in self._kept or not self._turn.acquire(blocking=False):
            raise WouldWaitError
        try:
            if not self._in_a_row:
                _tune(self._kept[engine], 0, 0)
            self._in_a_row += 1
            _begin_at_once(self._kept[engine])
        except BaseException:
            self._turn.release()
            raise
        return Turn(self._kept[engine], self._turn)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._kept.values():
            connection.close()


class Turn:
    """A transaction that has begun: for the length of a block, committed at its end; where the block fails, undone."""

    def __init__(self, connection: Connection, turn: Lock) -> None:
        self._connection, self._turn = connection, turn

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._undo()
        finally:
            self._turn.release()

    def _commit(self) -> None:
        try:
            if self._connection.in_transaction():
                self._connection.commit()
            else:
                carry_out(self._connection, "COMMIT", ()).close()
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        with as_sqlalchemy_says_it(self._connection):
            # SQLAlchemy may think of its part as over already, or have none.
            self._connection.rollback()
            _line_of(self._connection).rollback()


def begin_immediate(connection: Connection) -> None:
    """Take the lock of the file when the transaction begins: one that reads first might not be allowed to write."""
    if not _line_of(connection).in_transaction:
        carry_out(connection, _BEGIN, ()).close()


def _begin_at_once(connection: Connection) -> None:
    try:
        carry_out(connection, _BEGIN, ()).close()
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & _ERROR == sqlite3.SQLITE_BUSY:
            raise WouldWaitError from error
        raise


def _tune(connection: Connection, patience_milliseconds: int, log_pages: int) -> None:
    for pragma in (f"busy_timeout = {patience_milliseconds}", f"wal_autocheckpoint = {log_pages}"):
        carry_out(connection, f"PRAGMA {pragma}", ()).close()


def _line_of(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.driver_connection)
