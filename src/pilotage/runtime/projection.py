"""From what a hand-written `execute()` yields to neutral events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.yields import AgentYield, Evidence, Progress, Token, Tool
from pilotage.jsonvalue import to_json_value


def events_of(item: AgentYield[Any], by: AgentEventAttribution) -> Iterator[AgentEvent]:
    """The events an item stands for; pauses and ends are told by the run itself."""
    message_id = f"{by.run_id}:message"
    match item.payload:
        case Token(text, metadata):
            yield MessageDeltaEvent(by, message_id, text, metadata)
        case Progress(message, _, metadata):
            yield StepStartedEvent(by, message, metadata)
            yield StepFinishedEvent(by, message, metadata)
        case Tool(name, call_id, arguments, result, metadata):
            call = call_id or f"{by.run_id}:{name}"
            yield ToolCallStartEvent(by, call, name, None, {"arguments": arguments})
            yield ToolCallEndEvent(by, call)
            yield ToolCallResultEvent(by, call, name, message_id, to_json_value(result), metadata)
        case Evidence(evidence, metadata):
            yield ArtifactEvent(by, f"{by.run_id}:evidence", to_json_value(evidence), "evidence", metadata)
        case _:
            return
