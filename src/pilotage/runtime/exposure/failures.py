"""Failures: exceptions whose words may quote anything, such as a connection string or what a tool has read.

The words of Pilotage's own errors, `ToolError` and the classes derived from it included, are written to be read and
travel. Of every other exception readers and models get the type and an id. The words go to the logger
`pilotage.failures` with the id and, where the application has a key, into the sealed record.
"""

from __future__ import annotations

import logging
from traceback import format_exception

from pilotage.errors import PilotageError, ToolError
from pilotage.jsonvalue import text_digest
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.values import value

LOGGER = "pilotage.failures"
_LOG = logging.getLogger(LOGGER)
_LONGEST_WORDS = 4000
_LONGEST_LOGGED = 20_000


@value
class Failure:
    """An exception as models and readers get it: its type and an id; `words` are None where they are not stored."""

    error_type: str
    error_id: str
    words: str | None = None

    @property
    def message(self) -> str:
        """The failure for models and readers."""
        return f"{self.error_type} (error {self.error_id})"

    def raised(self) -> ToolError:
        """Return the error that a program gets."""
        error = ToolError(self.message)
        error.error_type, error.error_id, error.words = self.error_type, self.error_id, self.words
        return error


def is_foreign(error: BaseException) -> bool:
    """Return whether the words of an exception stay inside: it is none of Pilotage's own errors."""
    return not isinstance(error, PilotageError)


def passed_on(error: BaseException) -> Failure | None:
    """Return the failure that an error stands for: a call inside failed with it, and the program did not catch it."""
    if not isinstance(error, ToolError) or error.error_type is None or error.error_id is None:
        return None
    return Failure(error.error_type, error.error_id, error.words)


def log_failure(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> Failure:
    """Log the words of a foreign exception, redacted, and return the failure with them.

    The id follows from run and place, which names the action and the attempt at it.
    """
    failure = Failure(
        type(error).__name__,
        text_digest(f"failure\n{run_id}\n{place}")[:12],
        redactor.without_secrets(str(error))[:_LONGEST_WORDS],
    )
    logged = redactor.text("".join(format_exception(error)))[-_LONGEST_LOGGED:]
    _LOG.error("error %s in run %s at %s: %s", failure.error_id, run_id, place, logged)
    return failure


def told(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> str:
    """Return an error as models and readers get it; the words of a foreign exception are logged."""
    return shown_with_words(error, redactor, run_id=run_id, place=place)[0]


def shown_with_words(
    error: BaseException, redactor: Redactor, *, run_id: str, place: str
) -> tuple[str, str | None]:
    """Return an error as models and readers get it, and the words that they do not get, for a sealed record."""
    if is_foreign(error):
        failure = log_failure(error, redactor, run_id=run_id, place=place)
        return failure.message, failure.words
    return f"{type(error).__name__}: {error}", None
