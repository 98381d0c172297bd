"""The exit codes of `pilotage`, and the code of each error. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from pilotage.errors import (
    AnswerConflictError,
    CallerError,
    NotAuthenticatedError,
    PermissionDeniedError,
    PilotageError,
    RunConflictError,
    RunNotFoundError,
    SteeringConflictError,
)

TRACEBACK = "PILOTAGE_TRACEBACK"
"""The environment variable that shows the stack of unexpected errors."""


class ExitCode(IntEnum):
    """The result of a command."""

    DONE = 0
    """All is well; a run that was followed completed."""
    WRONG = 1
    """Something is wrong: a run failed, a check found something, the application or its database cannot be used."""
    MISUSE = 2
    """The command was called wrongly; nothing was done."""
    WAITING = 3
    """The run waits for an answer; the output shows the question and how to answer it."""
    NOT_FOUND = 4
    """There is no such run, or several whose ids begin like this."""
    CONFLICT = 5
    """Another process has the run, its question has another answer, or its instruction another revision."""
    CANCELLED = 6
    """The run was cancelled, but not by this command."""
    STALLED = 75
    """`worker` and `serve`: the watchdog ended the process, because its event loop was blocked."""
    INTERRUPTED = 130
    """Ctrl-C: once, and the run was cancelled; twice, and it was left as it is."""


# The first row that fits.
_CODES: Sequence[tuple[type[PilotageError], ExitCode]] = (
    (RunNotFoundError, ExitCode.NOT_FOUND),
    (RunConflictError, ExitCode.CONFLICT),
    (AnswerConflictError, ExitCode.CONFLICT),
    (SteeringConflictError, ExitCode.CONFLICT),
    (NotAuthenticatedError, ExitCode.WRONG),
    (PermissionDeniedError, ExitCode.WRONG),
    (CallerError, ExitCode.MISUSE),
    (PilotageError, ExitCode.WRONG),
)

_STATUSES = {
    "completed": ExitCode.DONE,
    "cancelled": ExitCode.CANCELLED,
    "failed": ExitCode.WRONG,
    "interrupted": ExitCode.WAITING,
}


def code_of(error: PilotageError) -> ExitCode:
    """Return the exit code of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def code_of_status(status: str) -> ExitCode:
    """Return the exit code of a run that was followed to this status."""
    return _STATUSES.get(status, ExitCode.CONFLICT)
