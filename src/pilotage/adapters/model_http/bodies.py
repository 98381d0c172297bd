"""The order of the fields of a request. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.jsonvalue import JsonValue


def growing_last(body: Mapping[str, JsonValue], transcript: str) -> dict[str, JsonValue]:
    """Return a body whose transcript is its last field, so that the bodies of a loop begin with the same bytes."""
    return {**{name: each for name, each in body.items() if name != transcript}, transcript: body[transcript]}
