"""The counts of a chat server as a usage. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pilotage.agent.model_reply import ModelUsage
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty

_ASKED, _ANSWERED = "prompt_tokens_details", "completion_tokens_details"
_NAMED = frozenset({"cached_tokens", "cache_write_tokens", "reasoning_tokens", "text_tokens"})


def usage_of(counted: JsonValue) -> ModelUsage:
    """Return the usage; counts that the server did not send, or not as a number, are None."""
    fields = object_or_empty(counted)
    read, answered = count_in(fields, "prompt_tokens"), count_in(fields, "completion_tokens")
    total = count_in(fields, "total_tokens")
    if total is None and read is not None and answered is not None:
        total = read + answered
    of_prompt, of_reply = object_or_empty(fields.get(_ASKED)), object_or_empty(fields.get(_ANSWERED))
    cached = count_in(of_prompt, "cached_tokens")
    return ModelUsage(
        read,
        answered,
        total,
        cached_tokens=count_in(fields, "prompt_cache_hit_tokens") if cached is None else cached,
        cache_written_tokens=count_in(of_prompt, "cache_write_tokens"),
        reasoning_tokens=count_in(of_reply, "reasoning_tokens"),
        other_tokens=dict([*_others(of_prompt, "input_"), *_others(of_reply, "output_")]) or None,
    )


def count_in(fields: JsonObject, name: str) -> int | None:
    """Return a count; None for one that is missing, no whole number, or below zero."""
    found = fields.get(name)
    return found if type(found) is int and found >= 0 else None


def _others(fields: JsonObject, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the counts that have no name of their own, if they are more than zero."""
    for name in fields:
        if name not in _NAMED and (count := count_in(fields, name)):
            yield f"{prefix}{name}", count
