"""Events as JSON and back: what the journal keeps of what a run told. Pure.

A record holds the kind, the fields that say something and, only where the event is not the run's own, whose it
is. Which class a kind stands for is decided by the table in here and by nothing that is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.state import AgentStateReason
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue


class _Shape(NamedTuple):
    """The fields of an event between its attribution and its metadata; an optional one is left out while None."""

    kind: str
    make: type[AgentEvent]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    names: tuple[str, ...]


def _shape(
    kind: AgentEventKind, make: type[AgentEvent], required: str = "", optional: str = ""
) -> tuple[type[AgentEvent], _Shape]:
    always, at_times = tuple(required.split()), tuple(optional.split())
    return make, _Shape(kind.value, make, always, at_times, always + at_times)


_SHAPES: Mapping[type[AgentEvent], _Shape] = dict(
    [
        _shape(AgentEventKind.MESSAGE_DELTA, MessageDeltaEvent, "message_id delta"),
        _shape(AgentEventKind.REASONING_DELTA, ReasoningDeltaEvent, "reasoning_id delta"),
        _shape(AgentEventKind.TOOL_CALL_START, ToolCallStartEvent, "call_id tool_name", "parent_message_id"),
        _shape(AgentEventKind.TOOL_CALL_ARGS_DELTA, ToolCallArgsDeltaEvent, "call_id args_delta"),
        _shape(AgentEventKind.TOOL_CALL_END, ToolCallEndEvent, "call_id"),
        _shape(
            AgentEventKind.TOOL_CALL_RESULT, ToolCallResultEvent, "call_id tool_name message_id", "result"
        ),
        _shape(AgentEventKind.RUN_STARTED, RunStartedEvent),
        _shape(
            AgentEventKind.RUN_PAUSED,
            RunPausedEvent,
            "reason prompt state_id",
            "approval_id tool_call_id allowed_decisions",
        ),
        _shape(AgentEventKind.RUN_FINISHED, RunFinishedEvent, "", "error"),
        _shape(AgentEventKind.STEP_STARTED, StepStartedEvent, "step_name"),
        _shape(AgentEventKind.STEP_FINISHED, StepFinishedEvent, "step_name"),
        _shape(AgentEventKind.STATE_SNAPSHOT, StateSnapshotEvent, "snapshot"),
        _shape(AgentEventKind.STATE_DELTA, StateDeltaEvent, "patch"),
        _shape(AgentEventKind.ARTIFACT, ArtifactEvent, "artifact_id content", "name"),
    ]
)
_TEXTS = frozenset({"delta", "args_delta"})
"""The fields of pieces of texts."""

_BY_KIND: Mapping[str, _Shape] = {shape.kind: shape for shape in _SHAPES.values()}


def encode_event(event: AgentEvent, by: AgentEventAttribution) -> dict[str, JsonValue]:
    """The event as it is kept in the journal of the run that tells it."""
    kind, _, required, optional, _ = _SHAPES[type(event)]
    record: dict[str, JsonValue] = {"kind": kind}
    for name in required:
        record[name] = getattr(event, name)
    for name in optional:
        if (held := getattr(event, name)) is not None:
            record[name] = held
    if event.metadata:
        record["metadata"] = event.metadata
    if event.attribution is not by and event.attribution != by:
        record["by"] = _encode_attribution(event.attribution)
    if isinstance(event, RunPausedEvent):
        record["reason"] = event.reason.value
        record["allowed_decisions"] = list(event.allowed_decisions)
    return record


def encode_frame(event: AgentEvent, by: AgentEventAttribution) -> JsonObject:
    """A piece of a text without it: as it is kept where the text stands beside it."""
    record = encode_event(event, by)
    for name in _TEXTS.intersection(record):
        record[name] = ""
    return record


def is_kept_as(record: Mapping[str, Any], event: AgentEvent, by: AgentEventAttribution) -> bool:
    """Whether `encode_event` gives what a log has kept; the text of a piece of one stands beside it.

    Of what is equal without being the same JSON, such as a tuple and a list, it may say no.
    """
    shape = _SHAPES[type(event)]
    kept: Mapping[str, Any] = record.get("event", record)
    whose = event.attribution
    # Nearly all of a log is the run's own, and needs no call to find out.
    is_by = "by" not in kept if whose is by else _is_by(kept, whose, by)
    if not is_by or kept["kind"] != shape.kind:
        return False
    if (event.metadata or "metadata" in kept) and event.metadata != kept.get("metadata"):
        return False
    text = None if kept is record else record.get("text")
    for name in shape.names:
        said = text if text is not None and name in _TEXTS else kept.get(name)
        if getattr(event, name) != said:
            return False
    return True


def _is_by(kept: Mapping[str, Any], whose: AgentEventAttribution, by: AgentEventAttribution) -> bool:
    if whose == by:
        return "by" not in kept
    return kept.get("by") == _encode_attribution(whose)


def decode_event(record: JsonObject, by: AgentEventAttribution) -> AgentEvent:
    """The event that was kept in the journal of a run.

    Raises:
        AgentDefinitionError: the record is of no kind that is known here, or lacks something.
    """
    shape = _BY_KIND.get(cast(str, record.get("kind")))
    if shape is None:
        raise AgentDefinitionError(
            f"An event of kind {record.get('kind')!r} is recorded, which this version of Pilotage does not know. "
            f"Read the run with the version that wrote it, or a newer one. Known: {', '.join(_BY_KIND)}."
        )
    if missing := [name for name in shape.required if name not in record]:
        raise AgentDefinitionError(
            f"The record of a {shape.kind!r} event lacks {', '.join(map(repr, missing))}. "
            "It was changed after it was written: verify the run."
        )
    return _decoded(shape, record, by)


def _decoded(shape: _Shape, record: JsonObject, by: AgentEventAttribution) -> AgentEvent:
    names = (*shape.names, "metadata")
    values = cast("dict[str, Any]", {name: record[name] for name in names if name in record})
    if shape.make is RunPausedEvent:
        values["reason"] = AgentStateReason(values["reason"])
        values["allowed_decisions"] = tuple(values.get("allowed_decisions", ()))
    whose = record.get("by")
    attribution = by if whose is None else _decode_attribution(whose)
    return shape.make(attribution, **values)


def _encode_attribution(by: AgentEventAttribution) -> JsonValue:
    whose = [by.agent_id, by.run_id, by.conversation_id, by.parent_run_id]
    return whose if by.branch is None else [*whose, by.branch]


def _decode_attribution(record: JsonValue) -> AgentEventAttribution:
    return AgentEventAttribution(*cast("Sequence[str]", record))
