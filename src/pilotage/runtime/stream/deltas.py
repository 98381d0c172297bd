"""Events that are pieces of a text: whose text it is, and the same event with another piece. Pure."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.events import (
    AgentEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    ToolCallArgsDeltaEvent,
)

TextId: TypeAlias = tuple[str, str, str]
"""Kind, run and id of a text that comes in pieces."""

Piece: TypeAlias = tuple[TextId, str]

_PIECES: frozenset[type[AgentEvent]] = frozenset(
    {MessageDeltaEvent, ReasoningDeltaEvent, ToolCallArgsDeltaEvent}
)


def piece_of(event: AgentEvent) -> Piece | None:
    """Whose text the event continues, and with what; None for every other event."""
    if type(event) not in _PIECES:
        return None
    if isinstance(event, MessageDeltaEvent):
        return ("message", event.attribution.run_id, event.message_id), event.delta
    if isinstance(event, ReasoningDeltaEvent):
        return ("reasoning", event.attribution.run_id, event.reasoning_id), event.delta
    if isinstance(event, ToolCallArgsDeltaEvent):
        return ("arguments", event.attribution.run_id, event.call_id), event.args_delta
    return None


def with_text(event: AgentEvent, text: str) -> AgentEvent:
    """The event with another piece of text; others as they are."""
    match event:
        case MessageDeltaEvent():
            return MessageDeltaEvent(event.attribution, event.message_id, text, event.metadata)
        case ReasoningDeltaEvent():
            return ReasoningDeltaEvent(event.attribution, event.reasoning_id, text, event.metadata)
        case ToolCallArgsDeltaEvent():
            return ToolCallArgsDeltaEvent(event.attribution, event.call_id, text, event.metadata)
        case _:
            return event
