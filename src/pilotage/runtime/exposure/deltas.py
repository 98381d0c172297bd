"""Text deltas: the streamed text that an event continues, and marks that supersede a text. Pure."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.events import (
    AgentEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject

TextId: TypeAlias = tuple[str, str, str]
"""Kind, run id and id of a streamed text. The arguments of a tool call are one."""

Delta: TypeAlias = tuple[TextId, str]

MESSAGE, REASONING, ARGUMENTS = "message", "reasoning", "arguments"
"""The kinds of texts."""

_message = unchecked(MessageDeltaEvent)
_reasoning, _arguments = unchecked(ReasoningDeltaEvent), unchecked(ToolCallArgsDeltaEvent)


DELTAS = frozenset({MessageDeltaEvent, ReasoningDeltaEvent, ToolCallArgsDeltaEvent})
"""The events that continue a text."""


def delta_of(event: AgentEvent) -> Delta | None:
    """Return the text that the event continues and the added text; None for an event that is no delta."""
    # `type() is` instead of `match`: called for every event of every stream.
    if type(event) is MessageDeltaEvent:
        return (MESSAGE, event.attribution.run_id, event.message_id), event.delta
    if type(event) is ReasoningDeltaEvent:
        return (REASONING, event.attribution.run_id, event.reasoning_id), event.delta
    if type(event) is ToolCallArgsDeltaEvent:
        return (ARGUMENTS, event.attribution.run_id, event.call_id), event.args_delta
    return None


def text_of(event: AgentEvent) -> TextId | None:
    """Return the text that the event belongs to; every event of a tool call belongs to its arguments."""
    if isinstance(event, ToolCallStartEvent | ToolCallEndEvent | ToolCallResultEvent):
        return ARGUMENTS, event.attribution.run_id, event.call_id
    delta = delta_of(event)
    return delta[0] if delta else None


def with_text(event: AgentEvent, text: str, metadata: JsonObject | None = None) -> AgentEvent:
    """Return the delta with another text and, if given, other metadata; any other event is returned as it is."""
    metadata = event.metadata if metadata is None else metadata
    match event:
        case MessageDeltaEvent():
            return _message(event.attribution, event.message_id, text, metadata)
        case ReasoningDeltaEvent():
            return _reasoning(event.attribution, event.reasoning_id, text, metadata)
        case ToolCallArgsDeltaEvent():
            return _arguments(event.attribution, event.call_id, text, metadata)
        case _:
            return event
