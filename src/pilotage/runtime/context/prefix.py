"""How much of a request was in the request before it: what a provider's cache can reuse. Pure.

Providers reuse a prompt from its beginning to the first difference, in the order of tools, messages. Sizes are those of
the texts as they are sent, without the framing of a wire.
"""

from __future__ import annotations

import json

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import JsonValue, to_json_value


class PrefixShares:
    """The requests of one attempt at a run, the last one of each scope."""

    def __init__(self) -> None:
        self._last: dict[str, ModelRequest] = {}

    def of(self, path: str, request: ModelRequest) -> float | None:
        """Return the share of the last request of a scope with which this one begins; None for its first request."""
        before, self._last[path] = self._last.get(path), request
        return None if before is None else prefix_share(before, request)


def prefix_share(before: ModelRequest, request: ModelRequest) -> float:
    """Return the share of the bytes of a request with which the next one begins, from 0 to 1."""
    sizes = [_bytes_in(_tools(before)), *(message_bytes(each) for each in before.assemble_messages())]
    if _tools(before) != _tools(request):
        return 0.0
    equal = 1
    for ours, theirs in zip(before.assemble_messages(), request.assemble_messages(), strict=False):
        if ours is not theirs and (ours.role, ours.parts) != (theirs.role, theirs.parts):
            break
        equal += 1
    return sum(sizes[:equal]) / (sum(sizes) or 1)


def message_bytes(message: ModelMessage) -> int:
    """Return the bytes of a message: its texts, calls and media."""
    return sum(_bytes_in(to_json_value(part)) for part in message.parts)


def _tools(request: ModelRequest) -> JsonValue:
    tools = () if request.tool_calling is None else request.tool_calling.tools
    return [[each.name, each.description, to_json_value(each.parameters.schema)] for each in tools]


def _bytes_in(given: JsonValue) -> int:
    return len(json.dumps(given).encode()) if given else 0
