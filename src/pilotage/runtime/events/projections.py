"""Between the two vocabularies of a run: what an item of the stream is told as, and what events say as items. Pure.

The runtime tells events only. Where an item says more than the events it is told as, the rest stands in their
metadata under one key of our own, so that exactly this item comes back.
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
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.yields import AgentYield, Approval, Cancel, Error, Evidence, Final, Progress, Token, Tool
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, to_json_value
from pilotage.safety.fields import SensitiveFieldDescriptor

TOLD_AS = "pilotage.told_as"
"""The key of our own in the metadata of an event."""
CANCELLED = "cancelled"
"""The error code of a run that was cancelled."""

_EVIDENCE = "evidence"
_OUTPUT = "output"


def events_of(
    item: AgentYield[Any], by: AgentEventAttribution, message_id: str | None = None, *, ordinal: int | str = 1
) -> Iterator[AgentEvent]:
    """The events an item is told as; pauses and ends are told by the run itself.

    `ordinal` is the number of the item in its stream: it keeps items apart that have no id of their own.

    Raises:
        AgentDefinitionError: the item holds something that has no JSON form.
    """
    message = message_id or f"{by.run_id}:message"
    match item.payload:
        case Token(text, metadata):
            yield MessageDeltaEvent(by, message, text, metadata)
        case Progress(message=words, current_step=step, metadata=metadata):
            yield StepStartedEvent(by, words, {**metadata, TOLD_AS: {"current_step": step}})
            yield StepFinishedEvent(by, words)
        case Tool() as tool:
            yield from _told_tool(tool, by, message, ordinal)
        case Evidence(evidence, metadata):
            content = _encode_evidence(evidence) if isinstance(evidence, AgentEvidence) else evidence
            told_as = {**metadata, TOLD_AS: {"is_record": isinstance(evidence, AgentEvidence)}}
            yield ArtifactEvent(by, f"{by.run_id}:evidence#{ordinal}", content, _EVIDENCE, told_as)
        case _:
            return


class YieldProjector:
    """Says as items what one run tells as events; remembers the tool calls whose result has not come.

    Only the run's own events are items: what its children tell is for readers of events.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._calls: dict[str, _OpenCall] = {}

    def yield_of(self, event: AgentEvent) -> AgentYield[Any] | None:
        """The item that an event completes; None for one that is only a part of an item, or of none."""
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
                return self._result(event)
            case _:
                return _alone(event)
        return None

    def _result(self, event: ToolCallResultEvent) -> Tool:
        """A reader who comes in between has missed the start; the arguments are unknown then."""
        call = self._calls.pop(event.call_id, None)
        arguments = call.decoded() if call else empty_object()
        call_id = None if call and call.is_unnamed else event.call_id
        return Tool(event.tool_name, call_id, arguments, event.result, event.metadata)


class _OpenCall:
    def __init__(self, start: ToolCallStartEvent) -> None:
        self.is_unnamed = TOLD_AS in start.metadata
        self.arguments: list[str] = []

    def decoded(self) -> JsonObject:
        """What is no JSON object, from a model that cannot write or after redaction, is left out."""
        try:
            arguments: JsonValue = json.loads("".join(self.arguments) or "{}")
        except ValueError:
            return empty_object()
        return arguments if isinstance(arguments, Mapping) else empty_object()


def _alone(event: AgentEvent) -> AgentYield[Any] | None:
    """Items that one event says by itself."""
    match event:
        case StepStartedEvent() if (told_as := _told_as(event.metadata)) is not None:
            step = cast("str | None", told_as.get("current_step"))
            return Progress(event.step_name, step, _own(event.metadata))
        case ArtifactEvent(name="evidence"):
            return Evidence(_evidence_in(event), _own(event.metadata))
        case RunPausedEvent():
            return _question(event)
        case RunFinishedEvent():
            return _end(event)
        case _:
            return None


def _told_tool(
    tool: Tool, by: AgentEventAttribution, message_id: str, ordinal: int | str
) -> Iterator[AgentEvent]:
    try:
        arguments = canonical_json(to_json_value(tool.arguments))
        result = to_json_value(tool.result)
    except (TypeError, ValueError) as error:
        raise AgentDefinitionError(f"Tool {tool.name!r} cannot be told: {error}.") from error
    call_id = tool.call_id or f"{by.run_id}:{tool.name}#{ordinal}"
    marked: JsonObject = {} if tool.call_id else {TOLD_AS: {"call_id": None}}
    yield ToolCallStartEvent(by, call_id, tool.name, message_id, marked)
    yield ToolCallArgsDeltaEvent(by, call_id, arguments)
    yield ToolCallEndEvent(by, call_id)
    yield ToolCallResultEvent(by, call_id, tool.name, message_id, result, tool.metadata)


def _question(event: RunPausedEvent) -> Approval:
    """The answers to a recovery request are no approval decisions; they stand in the metadata."""
    known = set(ApprovalDecision)
    allowed = tuple(ApprovalDecision(each) for each in event.allowed_decisions if each in known)
    return Approval(event.approval_id or event.state_id, event.prompt, allowed, event.metadata)


def _end(event: RunFinishedEvent) -> AgentYield[Any]:
    if event.error is None:
        rest = {key: value for key, value in event.metadata.items() if key != _OUTPUT}
        return Final(event.metadata.get(_OUTPUT), rest)
    code = str(event.error.get("code", "run_error"))
    facts = cast(JsonObject, event.error.get("metadata") or {})
    if code == CANCELLED:
        reason, who = facts.get("reason"), facts.get("requested_by")
        return Cancel(cast("str | None", reason), cast("str | None", who), event.metadata)
    message = str(event.error.get("message", code))
    return Error(code, message, bool(event.error.get("retryable")), {**event.metadata, **facts})


def _told_as(metadata: JsonObject) -> JsonObject | None:
    told_as = metadata.get(TOLD_AS)
    return told_as if isinstance(told_as, Mapping) else None


def _own(metadata: JsonObject) -> JsonObject:
    """The metadata of the item: all but our key."""
    return {key: value for key, value in metadata.items() if key != TOLD_AS}


def _evidence_in(event: ArtifactEvent) -> AgentEvidence | JsonValue:
    """A record of which redaction has left too little is shown as the JSON that it is."""
    if not (_told_as(event.metadata) or {}).get("is_record"):
        return event.content
    try:
        return _decode_evidence(cast("Mapping[str, Any]", event.content))
    except (AgentDefinitionError, KeyError, TypeError, ValueError):
        return event.content


def _encode_evidence(evidence: AgentEvidence) -> JsonObject:
    fields = [descriptor.to_metadata() for descriptor in evidence.sensitive_fields]
    return {**cast(JsonObject, to_json_value(evidence)), "sensitive_fields": fields}


def _decode_evidence(record: Mapping[str, Any]) -> AgentEvidence:
    descriptors = cast("Sequence[JsonObject]", record["sensitive_fields"])
    created_at = record["created_at"]
    changed: dict[str, Any] = {
        "kind": AgentEvidenceKind(record["kind"]),
        "sensitive_fields": tuple(map(SensitiveFieldDescriptor.from_metadata, descriptors)),
        "created_at": datetime.fromisoformat(created_at) if created_at else None,
    }
    return AgentEvidence(**{**record, **changed})
