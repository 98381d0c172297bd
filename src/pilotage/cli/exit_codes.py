"""What the exit codes of `pilotage` mean, and which error leads to which. Pure."""

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


class ExitCode(IntEnum):
    """How a command came out."""

    DONE = 0
    """All is well; a run that was followed completed."""
    WRONG = 1
    """Something is wrong: a run failed, a check found something, the application or its database cannot be used."""
    MISUSE = 2
    """The command was called wrongly; nothing was done."""
    WAITING = 3
    """The run waits for somebody; the output says for whom and how to answer."""
    NOT_FOUND = 4
    """There is no such run, or several whose ids begin like this."""
    CONFLICT = 5
    """Another process has the run, its question has another answer, or its instruction another revision."""
    CANCELLED = 6
    """The run was cancelled, by somebody else than this command."""
    STALLED = 75
    """`worker` and `serve`: the watchdog ended the process, because its event loop stood still."""
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
    """The code of a command that ended with an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def code_of_status(status: str) -> ExitCode:
    """The code of a command that followed a run to this status."""
    return _STATUSES.get(status, ExitCode.CONFLICT)
