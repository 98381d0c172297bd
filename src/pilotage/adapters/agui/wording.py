"""The error of a run in the words and with the code that a client gets. Pure."""

from __future__ import annotations

from pilotage.jsonvalue import JsonObject, canonical_json


def message_of(error: JsonObject) -> str:
    """What went wrong, for a person: the message, else the reason, else everything there is."""
    for name in ("message", "reason"):
        if isinstance(words := error.get(name), str):
            return words
    return canonical_json(error)


def code_of(error: JsonObject) -> str | None:
    """What went wrong, for a program."""
    code = error.get("code")
    return code if isinstance(code, str) else None
