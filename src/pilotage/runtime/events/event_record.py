"""Encoding of events as JSON records and decoding of the records. Pure.

A record holds the kind, the fields that are set, the metadata if there is any and, for an event of a child run, its
attribution (`by`). Only the table in this module decides which class a kind is decoded to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from pilotage.agent.events import (
    DELTAS,
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
    delta_of,
)
from pilotage.agent.state import AgentStateReason
from pilotage.errors import DamagedEntryError
from pilotage.jsonvalue import JsonObject, JsonValue

_Kind = AgentEventKind
_TEXT_FIELDS = frozenset({"delta", "args_delta"})


class _Shape(NamedTuple):
    """The fields of an event between its attribution and its metadata; an optional field is left out while None."""

    kind: str
    make: type[AgentEvent]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    names: tuple[str, ...]
    read: Callable[[AgentEvent], tuple[Any, ...]]
    """Returns attribution, metadata and these fields of an event."""
    text: str | None
    """The field with the text of a delta."""


def _shape(
    kind: _Kind, make: type[AgentEvent], required: str = "", optional: str = ""
) -> tuple[type[AgentEvent], _Shape]:
    always, sometimes = tuple(required.split()), tuple(optional.split())
    names = always + sometimes
    text = next((name for name in names if name in _TEXT_FIELDS), None)
    read = attrgetter("attribution", "metadata", *names)
    shape = _Shape(
        kind=kind.value, make=make, required=always, optional=sometimes, names=names, read=read, text=text
    )
    return make, shape


_SHAPES: Mapping[type[AgentEvent], _Shape] = dict(
    [
        _shape(_Kind.MESSAGE_DELTA, MessageDeltaEvent, "message_id delta"),
        _shape(_Kind.REASONING_DELTA, ReasoningDeltaEvent, "reasoning_id delta"),
        _shape(_Kind.TOOL_CALL_START, ToolCallStartEvent, "call_id tool_name", "parent_message_id"),
        _shape(_Kind.TOOL_CALL_ARGS_DELTA, ToolCallArgsDeltaEvent, "call_id args_delta"),
        _shape(_Kind.TOOL_CALL_END, ToolCallEndEvent, "call_id"),
        _shape(_Kind.TOOL_CALL_RESULT, ToolCallResultEvent, "call_id tool_name message_id", "result"),
        _shape(_Kind.RUN_STARTED, RunStartedEvent),
        _shape(
            _Kind.RUN_PAUSED,
            RunPausedEvent,
            "reason prompt state_id",
            "approval_id tool_call_id allowed_decisions",
        ),
        _shape(_Kind.RUN_FINISHED, RunFinishedEvent, "", "error"),
        _shape(_Kind.STEP_STARTED, StepStartedEvent, "step_name"),
        _shape(_Kind.STEP_FINISHED, StepFinishedEvent, "step_name"),
        _shape(_Kind.STATE_SNAPSHOT, StateSnapshotEvent, "snapshot"),
        _shape(_Kind.STATE_DELTA, StateDeltaEvent, "patch"),
        _shape(_Kind.ARTIFACT, ArtifactEvent, "artifact_id content", "name"),
    ]
)
_BY_KIND: Mapping[str, _Shape] = {shape.kind: shape for shape in _SHAPES.values()}


def encode_event(event: AgentEvent, by: AgentEventAttribution) -> dict[str, JsonValue]:
    """Return the record of an event in the log of the run `by`."""
    kind, _, required, optional, *_ = _SHAPES[type(event)]
    record: dict[str, JsonValue] = {"kind": kind}
    for name in required:
        record[name] = getattr(event, name)
    for name in optional:
        if (field := getattr(event, name)) is not None:
            record[name] = field
    if event.metadata:
        record["metadata"] = event.metadata
    if event.attribution is not by and event.attribution != by:
        record["by"] = _encode_attribution(event.attribution)
    if isinstance(event, RunPausedEvent):
        record["reason"] = event.reason.value
        record["allowed_decisions"] = list(event.allowed_decisions)
    return record


def encode_frame(event: AgentEvent, by: AgentEventAttribution) -> JsonObject:
    """Return the record of a delta with an empty text: the log stores its text beside the record."""
    record = encode_event(event, by)
    for name in _TEXT_FIELDS.intersection(record):
        record[name] = ""
    return record


def log_record(event: AgentEvent, by: AgentEventAttribution) -> JsonObject:
    """Return the record of an event in a log: that of a delta without metadata has its text beside it."""
    if type(event) not in DELTAS or event.metadata or (delta := delta_of(event)) is None:
        return encode_event(event, by)
    return {"event": encode_frame(event, by), "text": delta[1]}


def is_record_of(record: Mapping[str, Any], event: AgentEvent, by: AgentEventAttribution) -> bool:
    """Return whether a stored record, with the text beside it, is the one of an event, without encoding the event.

    May be False for values that are equal and not the same JSON, such as a tuple and a list.
    """
    shape = _SHAPES[type(event)]
    stored: Mapping[str, Any] = record.get("event", record)
    attribution, metadata, *fields = shape.read(event)
    # Nearly all events of a log are the run's own: compare by identity before calling a function.
    is_by = "by" not in stored if attribution is by else _is_by(stored, attribution, by)
    if not is_by or stored["kind"] != shape.kind:
        return False
    if (metadata or "metadata" in stored) and metadata != stored.get("metadata"):
        return False
    if stored is not record and shape.text is not None and record.get("text") is not None:
        stored = {**stored, shape.text: record["text"]}
    return fields == [*map(stored.get, shape.names)]


def _is_by(stored: Mapping[str, Any], attribution: AgentEventAttribution, by: AgentEventAttribution) -> bool:
    if attribution == by:
        return "by" not in stored
    return stored.get("by") == _encode_attribution(attribution)


def decode_event(record: JsonObject, by: AgentEventAttribution) -> AgentEvent:
    """Return the event of a record in the log of the run `by`.

    Raises:
        DamagedEntryError: the kind of the record is unknown, or a field is missing.
    """
    kind = record.get("kind")
    shape = _BY_KIND.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise DamagedEntryError(
            f"An event of kind {kind!r} is recorded, which this version of Pilotage does not know. "
            f"Read the run with the version that wrote it, or a newer one. Known: {', '.join(_BY_KIND)}."
        )
    if missing := [name for name in shape.required if name not in record]:
        raise DamagedEntryError(
            f"The record of a {shape.kind!r} event lacks {', '.join(map(repr, missing))}. "
            "It was changed after it was written: verify the run."
        )
    fields: dict[str, Any] = {name: record[name] for name in (*shape.names, "metadata") if name in record}
    if shape.make is RunPausedEvent:
        fields["reason"] = AgentStateReason(fields["reason"])
        fields["allowed_decisions"] = tuple(fields.get("allowed_decisions", ()))
    return shape.make(_decode_attribution(record["by"]) if "by" in record else by, **fields)


def _encode_attribution(by: AgentEventAttribution) -> list[JsonValue]:
    fields: list[JsonValue] = [by.agent_id, by.run_id, by.conversation_id, by.parent_run_id]
    return fields if by.branch is None else [*fields, by.branch]


def _decode_attribution(record: JsonValue) -> AgentEventAttribution:
    match record:
        case [str(agent), str(run), str(conversation), None | str() as parent]:
            return AgentEventAttribution(agent, run, conversation, parent)
        case [str(agent), str(run), str(conversation), None | str() as parent, str(branch)]:
            return AgentEventAttribution(agent, run, conversation, parent, branch)
        case _:
            raise DamagedEntryError(
                f"The attribution {record!r} of a recorded event cannot be decoded. "
                "It was changed after it was written: verify the run."
            )
