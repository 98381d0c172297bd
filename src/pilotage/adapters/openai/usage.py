"""Tokens as the server counted them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pilotage.agent.model_reply import ModelUsage
from pilotage.jsonvalue import JsonValue

_DETAILS = {
    "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
}


def usage_of(counted: object) -> ModelUsage:
    """The usage; what the server did not say, or not as a number, stays unknown."""
    fields = _fields(counted)
    asked, answered = _count(fields.get("prompt_tokens")), _count(fields.get("completion_tokens"))
    total = _count(fields.get("total_tokens"))
    if total is None and asked is not None and answered is not None:
        total = asked + answered
    return ModelUsage(asked, answered, total)


def usage_details(counted: object) -> dict[str, JsonValue]:
    """How many of the tokens came from a cache or were spent on thinking, where the server says so."""
    fields = _fields(counted)
    found = {name: _count(_fields(fields.get(part)).get(key)) for name, (part, key) in _DETAILS.items()}
    return {name: count for name, count in found.items() if count is not None}


def _fields(part: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", part) if isinstance(part, dict) else {}


def _count(part: object) -> int | None:
    return part if isinstance(part, int) and not isinstance(part, bool) and part >= 0 else None
