"""The errors of the store, and the one table from the vendor's to ours."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import exc

from pilotage.adapters.sqlalchemy.start_errors import DatabaseStartError

__all__ = ["ConflictingWriteError", "DatabaseStartError", "StoreUnreachableError", "is_away", "translated"]


class StoreUnreachableError(OSError):
    """The database did not answer, or not in time; whether it has done what it was asked to is unknown.

    `is_away` says that the line to it was cut, or could not be made: it may come back.
    """

    code: ClassVar[str] = "store_unreachable"

    def __init__(self, words: str, *, is_away: bool = False) -> None:
        super().__init__(words)
        self.is_away = is_away


class ConflictingWriteError(Exception):
    """What was to be written does not fit what is there, or somebody else was faster; nothing is written."""


_MEANT_TO_BE_TRIED_AGAIN = frozenset({"40001", "40P01"})  # not serialisable; deadlock


def translated(error: exc.SQLAlchemyError) -> Exception:
    """The vendor's error as one of ours."""
    match error:
        case exc.IntegrityError() | exc.DataError():
            return ConflictingWriteError(_first_line(error.orig))
        case exc.DBAPIError() if getattr(error.orig, "sqlstate", None) in _MEANT_TO_BE_TRIED_AGAIN:
            return ConflictingWriteError(_first_line(error.orig))
        case exc.ProgrammingError():
            return error  # a mistake of ours, which waiting does not mend
        case exc.DBAPIError():
            words = f"the database did not answer: {_first_line(error.orig)}"
            return StoreUnreachableError(words, is_away=is_away(error))
        case exc.TimeoutError():
            return StoreUnreachableError("no connection to the database was free in time")
        case _:
            return error


def is_away(error: exc.DBAPIError) -> bool:
    """Whether the line to the database was cut, or could not be made: nobody was asked anything yet then."""
    was_refused = isinstance(error, exc.OperationalError) and error.statement is None
    return error.connection_invalidated or was_refused


def _first_line(error: BaseException | None) -> str:
    """What is wrong; the lines behind it may hold what was to be written."""
    return str(error).partition("\n")[0]
