"""Whose turn it is to write to an SQLite file: one transaction at a time, of the thread that writes or in place.

Connections are kept, because getting one takes as long as the transaction. The driver begins and ends it; SQLAlchemy
joins in only where somebody executes a statement through it.
"""

from __future__ import annotations

import sqlite3
from threading import Lock

from sqlalchemy import Connection, Engine

from pilotage.adapters.sqlalchemy.columns import microseconds
from pilotage.adapters.sqlalchemy.driver import Line, as_sqlalchemy_says_it, carry_out
from pilotage.adapters.sqlalchemy.engines import WouldWaitError
from pilotage.ids import IClock

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

    def __init__(self, timeout_seconds: float, clock: IClock) -> None:
        self._patience = round(timeout_seconds * 1000)
        self._clock = clock
        self._turn = Lock()
        self._kept: dict[Engine, Connection] = {}
        self._in_a_row = 0
        self._moment = 0

    def moment(self) -> int:
        """When the transaction that is under way began: what is written together has one moment.

        There is one at a time for all connections, because it has the lock of the file.
        """
        return self._moment

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
            return self._begun(engine)
        except BaseException:
            self._turn.release()
            raise

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
            return self._begun(engine)
        except BaseException as error:
            self._turn.release()
            if _is_busy(error):
                raise WouldWaitError from error
            raise

    def begin_immediate(self, connection: Connection) -> None:
        """What SQLAlchemy begins: nothing where it only joins in."""
        line = Line(connection)
        if not line.driver.in_transaction:
            self._take_the_file(line)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._kept.values():
            connection.close()

    def _begun(self, engine: Engine) -> Turn:
        line = Line(self._kept[engine])
        self._take_the_file(line)
        return Turn(line, self._turn)

    def _take_the_file(self, line: Line) -> None:
        """Lock the file when the transaction begins: one that reads first might not be allowed to write."""
        line.carry_out(_BEGIN, ())
        # Now, not before: others may have been waited for, and what they wrote is older.
        self._moment = microseconds(self._clock.now())


class Turn:
    """A transaction that has begun: for the length of a block, committed at its end; where the block fails, undone."""

    def __init__(self, line: Line, turn: Lock) -> None:
        self._line, self._turn = line, turn

    def __enter__(self) -> Connection:
        return self._line.connection

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
            if self._line.connection.in_transaction():
                self._line.connection.commit()
            else:
                self._line.carry_out("COMMIT", ())
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        with as_sqlalchemy_says_it(self._line.connection):
            # SQLAlchemy may think of its part as over already, or have none.
            self._line.connection.rollback()
            self._line.driver.rollback()


def _is_busy(error: BaseException) -> bool:
    code: int = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & _ERROR == sqlite3.SQLITE_BUSY


def _tune(connection: Connection, patience_milliseconds: int, log_pages: int) -> None:
    for pragma in (f"busy_timeout = {patience_milliseconds}", f"wal_autocheckpoint = {log_pages}"):
        carry_out(connection, f"PRAGMA {pragma}", ()).close()
