"""Tokens as the server counted them. Pure."""

from __future__ import annotations

from pilotage.agent.model_reply import ModelUsage
from pilotage.jsonvalue import JsonValue, object_or_empty

_DETAILS = {
    "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
}


def usage_of(counted: JsonValue) -> ModelUsage:
    """The usage; what the server did not say, or not as a number, stays unknown."""
    fields = object_or_empty(counted)
    asked, answered = _count(fields.get("prompt_tokens")), _count(fields.get("completion_tokens"))
    total = _count(fields.get("total_tokens"))
    if total is None and asked is not None and answered is not None:
        total = asked + answered
    return ModelUsage(asked, answered, total)


def usage_details(counted: JsonValue) -> dict[str, JsonValue]:
    """How many of the tokens came from a cache or were spent on thinking, where the server says so."""
    fields = object_or_empty(counted)
    found = {
        name: _count(object_or_empty(fields.get(part)).get(key)) for name, (part, key) in _DETAILS.items()
    }
    return {name: count for name, count in found.items() if count is not None}


def _count(part: JsonValue) -> int | None:
    return part if isinstance(part, int) and not isinstance(part, bool) and part >= 0 else None
