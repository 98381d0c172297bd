"""Marks of the prefixes that the provider may cache, placed from the manifest of the context. Pure.

A prompt is cached from its beginning (tools, system, messages) to a mark. Three marks are set: after the system,
after the turn before the last, and at the end. None is set beyond something volatile, because no later request would
have that prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty

_UNMARKABLE = ("thinking", "redacted_thinking")


def steady_prefix(request: ModelRequest, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return the messages before the first one that is volatile."""
    manifest = request.context_manifest
    volatile = frozenset[str]() if manifest is None else manifest.volatile_packs
    if not volatile:
        return messages
    packs = [message.metadata.get("context_pack_id") for message in messages]
    return messages[: next((at for at, pack in enumerate(packs) if pack in volatile), len(messages))]


def mark_prefix(
    system: list[JsonValue],
    tools: list[JsonValue],
    turns: list[JsonObject],
    *,
    steady_system: int,
    steady_turns: Sequence[JsonObject],
    is_long: bool,
) -> None:
    """Mark the ends of prefixes to cache: of the system, or else the tools, and of two turns of the user."""
    mark: JsonObject = {"type": "ephemeral", "ttl": "1h"} if is_long else {"type": "ephemeral"}
    if steady_system:
        _mark(system, steady_system, mark)
    elif tools:
        _mark(tools, len(tools), mark)
    if steady_system < len(system):
        return  # something volatile is in the system, which is in front of all messages
    last = len(steady_turns) - 1
    for at in (last - 2, last):
        if at >= 0:
            blocks = [*list_or_empty(turns[at]["content"])]
            _mark(blocks, len(list_or_empty(steady_turns[at]["content"])), mark)
            turns[at] = {**turns[at], "content": blocks}


def _mark(blocks: list[JsonValue], end: int, mark: JsonObject) -> None:
    """Mark the last block before a place that can have a mark."""
    for at in range(end - 1, -1, -1):
        block = blocks[at]
        if isinstance(block, dict) and block.get("type") not in _UNMARKABLE:
            blocks[at] = {**block, "cache_control": mark}
            return
