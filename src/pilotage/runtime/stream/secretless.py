"""Records without secrets: what replay needs is kept, sealed where need be; a secret is kept nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.jsonvalue import JsonValue
from pilotage.runtime.stream.redactor import Redactor


def secretless(value: JsonValue, redactor: Redactor) -> JsonValue:
    """The value with a mark in the place of every secret that the run has seen; itself where there is none."""
    return _without(value, redactor) if redactor.revision else value


def _without(value: JsonValue, redactor: Redactor) -> JsonValue:
    if isinstance(value, str):
        return redactor.without_secrets(value)
    if isinstance(value, Mapping):
        entries = {redactor.without_secrets(key): _without(item, redactor) for key, item in value.items()}
        return value if entries == value else entries
    if isinstance(value, Sequence):
        items = [_without(item, redactor) for item in value]
        return value if items == list(value) else items
    return value
