"""The neutral event vocabulary: what a run does, fine enough for every protocol.

Adapters project these events; the runtime emits nothing else. Small slotted values, encoded once, at the edge.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.state import AgentStateReason
from pilotage.checks import reject_blank
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.values import value

SUPERSEDED = "superseded"
"""Metadata key of a mark: a repeated model call replaces the text or tool call that the event belongs to."""


class AgentEventKind(StrEnum):
    """The kinds of neutral event."""

    MESSAGE_DELTA = "message_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_ARGS_DELTA = "tool_call_args_delta"
    TOOL_CALL_END = "tool_call_end"
    TOOL_CALL_RESULT = "tool_call_result"
    RUN_STARTED = "run_started"
    RUN_PAUSED = "run_paused"
    RUN_FINISHED = "run_finished"
    STEP_STARTED = "step_started"
    STEP_FINISHED = "step_finished"
    STATE_SNAPSHOT = "state_snapshot"
    STATE_DELTA = "state_delta"
    ARTIFACT = "artifact"


@value
class AgentEventAttribution:
    """Whose event it is: the agent, its run, the conversation, and the run that delegated to it.

    `branch` is the place in the work where it happened: of a child the step of its parent, of a part of a run its
    scope.
    """

    agent_id: str
    run_id: str
    conversation_id: str
    parent_run_id: str | None = None
    branch: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, agent_id=self.agent_id, run_id=self.run_id, conversation_id=self.conversation_id)
        reject_blank(self, parent_run_id=self.parent_run_id, branch=self.branch)


@value
class MessageDeltaEvent:
    """A piece of the text of a message."""

    attribution: AgentEventAttribution
    message_id: str
    delta: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.MESSAGE_DELTA)


@value
class ReasoningDeltaEvent:
    """A piece of the model's reasoning."""

    attribution: AgentEventAttribution
    reasoning_id: str
    delta: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.REASONING_DELTA)


@value
class ToolCallStartEvent:
    """The model asks for a tool."""

    attribution: AgentEventAttribution
    call_id: str
    tool_name: str
    parent_message_id: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.TOOL_CALL_START)


@value
class ToolCallArgsDeltaEvent:
    """A piece of the JSON text of a tool call's arguments."""

    attribution: AgentEventAttribution
    call_id: str
    args_delta: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.TOOL_CALL_ARGS_DELTA)


@value
class ToolCallEndEvent:
    """The arguments of a tool call are complete."""

    attribution: AgentEventAttribution
    call_id: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.TOOL_CALL_END)


@value
class ToolCallResultEvent:
    """A tool call has its result."""

    attribution: AgentEventAttribution
    call_id: str
    tool_name: str
    message_id: str
    result: JsonValue = None
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.TOOL_CALL_RESULT)


@value
class RunStartedEvent:
    """A run began, or came back."""

    attribution: AgentEventAttribution
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.RUN_STARTED)


@value
class RunPausedEvent:
    """A run waits; the stream ends here and nothing of the run is left in memory."""

    attribution: AgentEventAttribution
    reason: AgentStateReason
    prompt: str
    state_id: str
    approval_id: str | None = None
    tool_call_id: str | None = None
    allowed_decisions: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.RUN_PAUSED)

    def __post_init__(self) -> None:
        reject_blank(self, prompt=self.prompt, state_id=self.state_id, approval_id=self.approval_id)
        reject_blank(self, tool_call_id=self.tool_call_id)


@value
class RunFinishedEvent:
    """A run ended; `error` says why it did not succeed, where it did not."""

    attribution: AgentEventAttribution
    error: JsonObject | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.RUN_FINISHED)


@value
class StepStartedEvent:
    """A named step began."""

    attribution: AgentEventAttribution
    step_name: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.STEP_STARTED)


@value
class StepFinishedEvent:
    """A named step ended."""

    attribution: AgentEventAttribution
    step_name: str
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.STEP_FINISHED)


@value
class StateSnapshotEvent:
    """The whole state the agent shares with its clients."""

    attribution: AgentEventAttribution
    snapshot: JsonValue
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.STATE_SNAPSHOT)


@value
class StateDeltaEvent:
    """A change of the shared state, as a list of RFC 6902 operations."""

    attribution: AgentEventAttribution
    patch: JsonValue
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.STATE_DELTA)


@value
class ArtifactEvent:
    """An artifact that the run produced beside its text."""

    attribution: AgentEventAttribution
    artifact_id: str
    content: JsonValue
    name: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    kind: AgentEventKind = field(init=False, default=AgentEventKind.ARTIFACT)


AgentEvent: TypeAlias = (
    MessageDeltaEvent
    | ReasoningDeltaEvent
    | ToolCallStartEvent
    | ToolCallArgsDeltaEvent
    | ToolCallEndEvent
    | ToolCallResultEvent
    | RunStartedEvent
    | RunPausedEvent
    | RunFinishedEvent
    | StepStartedEvent
    | StepFinishedEvent
    | StateSnapshotEvent
    | StateDeltaEvent
    | ArtifactEvent
)

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
