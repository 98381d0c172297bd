"""Projections between the items of a stream (`AgentYield`) and the events of a run. Pure.

The runtime emits events only. What an item has and its events have no field for is stored in their metadata under one
key, so that the same item is projected back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentStateReason
from pilotage.agent.yields import (
    AgentYield,
    Approval,
    Cancel,
    Error,
    Evidence,
    Final,
    Progress,
    State,
    StatePatch,
    Token,
    Tool,
)
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, to_json_value
from pilotage.safety.fields import SensitiveFieldDescriptor

ITEM_FIELDS = "pilotage.told_as"
"""The metadata key of the fields of an item that its events have no field for."""
CANCELLED = "cancelled"
"""The error code of a run that was cancelled."""

_EVIDENCE = "evidence"
_OUTPUT = "output"


def events_of(
    item: AgentYield[Any], by: AgentEventAttribution, message_id: str | None = None, *, ordinal: int | str = 1
) -> Iterator[AgentEvent]:
    """Return the events of an item; none for pauses and ends, which the runtime emits itself.

    `ordinal` is the number of the item in its stream: it distinguishes items that have no id of their own.

    Raises:
        AgentDefinitionError: the item holds a value that has no JSON form.
    """
    message = message_id or f"{by.run_id}:message"
    match item.payload:
        case Token(text, metadata):
            yield MessageDeltaEvent(by, message, text, metadata)
        case Progress(message=name, current_step=step, metadata=metadata):
            yield StepStartedEvent(by, name, {**metadata, ITEM_FIELDS: {"current_step": step}})
            yield StepFinishedEvent(by, name)
        case Tool() as tool:
            yield from _tool_events(tool, by, message, ordinal)
        case Evidence(evidence, metadata):
            is_record = isinstance(evidence, AgentEvidence)
            content = _encode_evidence(evidence) if isinstance(evidence, AgentEvidence) else evidence
            metadata = {**metadata, ITEM_FIELDS: {"is_record": is_record}}
            yield ArtifactEvent(by, f"{by.run_id}:evidence#{ordinal}", content, _EVIDENCE, metadata)
        case State(snapshot, metadata):
            yield StateSnapshotEvent(by, snapshot, metadata)
        case StatePatch(operations, metadata):
            yield StateDeltaEvent(by, operations, metadata)
        case _:
            return


def _tool_events(
    tool: Tool, by: AgentEventAttribution, message_id: str, ordinal: int | str
) -> Iterator[AgentEvent]:
    try:
        arguments = canonical_json(to_json_value(tool.arguments))
        result = to_json_value(tool.result)
    except (TypeError, ValueError) as error:
        raise AgentDefinitionError(f"Tool {tool.name!r} cannot be streamed: {error}.") from error
    call_id = tool.call_id or f"{by.run_id}:{tool.name}#{ordinal}"
    metadata: JsonObject = {} if tool.call_id else {ITEM_FIELDS: {"call_id": None}}
    yield ToolCallStartEvent(by, call_id, tool.name, message_id, metadata)
    yield ToolCallArgsDeltaEvent(by, call_id, arguments)
    yield ToolCallEndEvent(by, call_id)
    yield ToolCallResultEvent(
        attribution=by,
        call_id=call_id,
        tool_name=tool.name,
        message_id=message_id,
        result=result,
        metadata=tool.metadata,
    )


class YieldProjector:
    """Projects the events of one run to items; holds the tool calls that have no result yet.

    Events of child runs are not projected.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._calls: dict[str, _OpenCall] = {}

    def yield_of(self, event: AgentEvent) -> AgentYield[Any] | None:
        """Return the item that an event completes; None if it completes none."""
        if event.attribution.run_id != self._run_id:
            return None
        match event:
            case MessageDeltaEvent():
                return Token(event.delta, event.metadata)
            case ToolCallStartEvent():
                self._calls[event.call_id] = _OpenCall(event)
            case ToolCallArgsDeltaEvent():
                if call := self._calls.get(event.call_id):
                    call.arguments.append(event.args_delta)
            case ToolCallResultEvent():
                return self._tool(event)
            case _:
                return _single(event)
        return None

    def _tool(self, event: ToolCallResultEvent) -> Tool:
        # A reader that subscribed after the start of the call does not know its arguments.
        call = self._calls.pop(event.call_id, None)
        arguments = call.decoded() if call else empty_object()
        call_id = None if call and call.is_unnamed else event.call_id
        return Tool(event.tool_name, call_id, arguments, event.result, event.metadata)


class _OpenCall:
    def __init__(self, start: ToolCallStartEvent) -> None:
        self.is_unnamed = ITEM_FIELDS in start.metadata
        self.arguments: list[str] = []

    def decoded(self) -> JsonObject:
        """Return the arguments; none if the model wrote, or redaction left, no JSON object."""
        try:
            arguments: JsonValue = json.loads("".join(self.arguments) or "{}")
        except ValueError:
            return empty_object()
        return _object(arguments)


def _single(event: AgentEvent) -> AgentYield[Any] | None:
    """Return the item of an event that is a whole item."""
    match event:
        case StepStartedEvent() if ITEM_FIELDS in event.metadata:
            step = _object(event.metadata[ITEM_FIELDS]).get("current_step")
            return Progress(event.step_name, _text(step), _own(event.metadata))
        case ArtifactEvent(name="evidence"):
            return Evidence(_evidence_of(event), _own(event.metadata))
        case StateSnapshotEvent():
            return State(event.snapshot, _own(event.metadata))
        case StateDeltaEvent():
            return _patch_of(event)
        case RunPausedEvent(reason=AgentStateReason.LIMIT_REACHED):
            return Error(str(event.metadata.get("code", event.reason)), event.prompt, metadata=event.metadata)
        case RunPausedEvent():
            return _approval(event)
        case RunFinishedEvent():
            return _end(event)
        case _:
            return None


def _patch_of(event: StateDeltaEvent) -> StatePatch | None:
    """Return the patch of an event; None for one that redaction made unfit."""
    try:
        return StatePatch(cast("Sequence[JsonObject]", event.patch), _own(event.metadata))
    except AgentDefinitionError:
        return None


def _approval(event: RunPausedEvent) -> Approval:
    # The answers to a recovery request are no approval decisions; they are in the metadata.
    known = set(ApprovalDecision)
    allowed = tuple(ApprovalDecision(each) for each in event.allowed_decisions if each in known)
    return Approval(event.approval_id or event.state_id, event.prompt, allowed, event.metadata)


def _end(event: RunFinishedEvent) -> AgentYield[Any]:
    if event.error is None:
        rest = {key: value for key, value in event.metadata.items() if key != _OUTPUT}
        return Final(event.metadata.get(_OUTPUT), rest)
    code = str(event.error.get("code", "run_error"))
    facts = _object(event.error.get("metadata"))
    if code == CANCELLED:
        return Cancel(_text(facts.get("reason")), _text(facts.get("requested_by")), event.metadata)
    message = str(event.error.get("message", code))
    return Error(code, message, bool(event.error.get("retryable")), {**event.metadata, **facts})


def _own(metadata: JsonObject) -> JsonObject:
    """Return the metadata of the item itself."""
    return {key: value for key, value in metadata.items() if key != ITEM_FIELDS}


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _evidence_of(event: ArtifactEvent) -> AgentEvidence | JsonValue:
    """Return the evidence of an artifact; a record that redaction made undecodable is returned as JSON."""
    if not _object(event.metadata.get(ITEM_FIELDS)).get("is_record"):
        return event.content
    try:
        return _decode_evidence(_object(event.content))
    except (AgentDefinitionError, KeyError, TypeError, ValueError):
        return event.content


def _encode_evidence(evidence: AgentEvidence) -> JsonObject:
    fields = [descriptor.to_metadata() for descriptor in evidence.sensitive_fields]
    return {**cast(JsonObject, to_json_value(evidence)), "sensitive_fields": fields}


def _decode_evidence(record: Mapping[str, Any]) -> AgentEvidence:
    created_at = record["created_at"]
    changed: dict[str, Any] = {
        "kind": AgentEvidenceKind(record["kind"]),
        "sensitive_fields": tuple(map(SensitiveFieldDescriptor.from_metadata, record["sensitive_fields"])),
        "created_at": datetime.fromisoformat(created_at) if created_at else None,
    }
    return AgentEvidence(**{**record, **changed})
