"""Failures: exceptions whose texts may quote any data, such as a connection string or content that a tool has read.

The texts of Pilotage's own errors, `ToolError` and the classes derived from it included, are shown. Of every other
exception readers and models get the type and an id. Its text goes to the logger `pilotage.failures` with the id and,
where the application has a key, into the sealed record.
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
    """An exception as models and readers get it: its type and an id. `words` is its text, None if it is not stored."""

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
    """Return whether the text of an exception is withheld: it is none of Pilotage's own errors."""
    return not isinstance(error, PilotageError)


def passed_on(error: BaseException) -> Failure | None:
    """Return the failure of a call inside that the program did not catch; None for any other error."""
    if not isinstance(error, ToolError) or error.error_type is None or error.error_id is None:
        return None
    return Failure(error.error_type, error.error_id, error.words)


def log_failure(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> Failure:
    """Log the text of a foreign exception, redacted, and return the failure with it.

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


def public_text(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> str:
    """Return the text of an error for models and readers; that of a foreign exception is logged."""
    return shown_with_words(error, redactor, run_id=run_id, place=place)[0]


def shown_with_words(
    error: BaseException, redactor: Redactor, *, run_id: str, place: str
) -> tuple[str, str | None]:
    """Return the text of an error for models and readers, and the withheld text for a sealed record."""
    if is_foreign(error):
        failure = log_failure(error, redactor, run_id=run_id, place=place)
        return failure.message, failure.words
    return f"{type(error).__name__}: {error}", None
