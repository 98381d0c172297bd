"""The base of all errors, and an error in words for a log."""

from __future__ import annotations

from typing import ClassVar

_MOST_CHARACTERS = 1000


class PilotageError(Exception):
    """The base of every error Pilotage raises.

    `code` is stable and meant for programs; `str(error)` is meant for people. Raised without
    arguments, an error says its class's `message`.
    """

    message: ClassVar[str] = "Pilotage failed."
    code: ClassVar[str] = "pilotage_error"

    def __str__(self) -> str:
        return super().__str__() if self.args else self.message


def error_words(error: BaseException) -> str:
    """Return class and message of an error for a log.

    Messages of Pilotage hold ids and remedies and no payloads. Other libraries put values, statements and parameters
    into the lines after the first: of their messages only the first line is used.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = " ".join(lines if isinstance(error, PilotageError) else lines[:1])
    name = type(error).__name__
    return f"{name}: {message}"[:_MOST_CHARACTERS] if message else name
