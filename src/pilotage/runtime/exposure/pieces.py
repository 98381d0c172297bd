"""Events that are pieces of a text: whose text it is, and the same event with another piece. Pure."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.events import AgentEvent, MessageDeltaEvent, ReasoningDeltaEvent, ToolCallArgsDeltaEvent
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject

TextId: TypeAlias = tuple[str, str, str]
"""Kind, run and id of a text that comes in pieces."""

Piece: TypeAlias = tuple[TextId, str]

_message = unchecked(MessageDeltaEvent)
_reasoning, _arguments = unchecked(ReasoningDeltaEvent), unchecked(ToolCallArgsDeltaEvent)


def piece_of(event: AgentEvent) -> Piece | None:
    """Whose text the event continues, and with what; None for every other event."""
    if type(event) is MessageDeltaEvent:
        return ("message", event.attribution.run_id, event.message_id), event.delta
    if type(event) is ReasoningDeltaEvent:
        return ("reasoning", event.attribution.run_id, event.reasoning_id), event.delta
    if type(event) is ToolCallArgsDeltaEvent:
        return ("arguments", event.attribution.run_id, event.call_id), event.args_delta
    return None


def with_text(event: AgentEvent, text: str, metadata: JsonObject | None = None) -> AgentEvent:
    """The event with another piece of text, and with other metadata where some are given; others as they are."""
    said = event.metadata if metadata is None else metadata
    match event:
        case MessageDeltaEvent():
            return _message(event.attribution, event.message_id, text, said)
        case ReasoningDeltaEvent():
            return _reasoning(event.attribution, event.reasoning_id, text, said)
        case ToolCallArgsDeltaEvent():
            return _arguments(event.attribution, event.call_id, text, said)
        case _:
            return event
