"""The errors of the store, and the one table from the vendor's to ours."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import exc

from pilotage.adapters.sqlalchemy.start_errors import DatabaseStartError

__all__ = ["ConflictingWriteError", "DatabaseStartError", "StoreUnreachableError", "translated"]


class StoreUnreachableError(OSError):
    """The database did not answer, or not in time; whether it has done what it was asked to is unknown."""

    code: ClassVar[str] = "store_unreachable"


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
            return StoreUnreachableError(f"the database did not answer: {_first_line(error.orig)}")
        case exc.TimeoutError():
            return StoreUnreachableError("no connection to the database was free in time")
        case _:
            return error


def _first_line(error: BaseException | None) -> str:
    """What is wrong; the lines behind it may hold what was to be written."""
    return str(error).partition("\n")[0]
