"""The neutral event vocabulary: what a run does, fine enough for every protocol.

Adapters project these events; the runtime emits nothing else. Small slotted values, encoded once, at the edge.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.state import AgentStateReason
from pilotage.checks import reject_blank
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
