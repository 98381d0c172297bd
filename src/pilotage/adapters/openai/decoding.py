"""Decoding of JSON from outside: strict about UTF-8, bounded in depth, faster than the standard library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pilotage.jsonvalue import JsonValue


@cache
def json_decoder() -> Callable[..., JsonValue]:
    """The decoder; it raises ValueError for everything that is no JSON."""
    # Loaded with the first reply, so that applications without a model do not wait for it.
    from pydantic_core import from_json  # noqa: PLC0415

    return from_json
