"""Values of the contract as columns and back. Pure; nothing is pickled, and everything survives the round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from sqlalchemy import RowMapping

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import (
    OutboxEvent,
    RunKey,
)
from pilotage.agent.ports.outbox import OutboxEntry, OutboxStatus
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.trust import TrustLabel

Values: TypeAlias = dict[str, Any]
"""The columns of a row that is to be written, by name; digests and salts are packed (`columns.to_packed`)."""

Stored: TypeAlias = RowMapping | Mapping[str, Any]
"""The columns of a row that was read."""


_OF_ITS_RUN = "@"
"""Begins the payload of a fact that names the run and the tenant of its row; no JSON text begins like this."""


class UnstorableError(Exception):
    """A value has a part without a JSON form; the message says where and which."""


def text_of(where: str, json_value: JsonValue) -> str:
    """A JSON value as it is stored.

    Raises:
        UnstorableError: it has no JSON form.
    """
    try:
        return canonical_json(json_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableError(f"{where} cannot be stored as JSON: {error}") from error


def document_of(text: str) -> dict[str, Any]:
    """Return the JSON object that was stored as this text."""
    document: dict[str, Any] = json.loads(text)
    return document


NO_STATE: Mapping[str, Any] = {
    "status": None,
    "agent_type": None,
    "state": None,
    "given_at": None,
    "wake_at": None,
    "awaits": None,
}
"""What a run's columns say of a state that there is none of."""


def state_values(state: AgentState) -> Values:
    """What a run's columns say of its state."""
    document: JsonObject = {
        "transition": state.transition,
        "reason": state.reason,
        "current_activity": state.current_activity,
        "input_ref": state.input_ref,
        "output_ref": state.output_ref,
        "last_event_cursor": state.last_event_cursor,
        "recovery_marker": state.recovery_marker,
        "metadata": state.metadata,
    }
    return {
        "status": state.status.value,
        "agent_type": state.agent_type,
        "state": text_of(f"the metadata of state {state.id!r}", document),
        "given_at": state.created_at,
        "wake_at": state.wake_at,
        "awaits": state.awaits,
    }


def state_of(values: Stored) -> AgentState:
    """The state in these columns; `pending` is how many signals wait."""
    document = document_of(values["state"])
    transition, reason = document.pop("transition"), document.pop("reason")
    return AgentState(
        id=values["run_id"],
        tenant_id=values["tenant_id"],
        agent_type=values["agent_type"],
        status=AgentStatus(values["status"]),
        transition=None if transition is None else AgentStateTransition(transition),
        reason=None if reason is None else AgentStateReason(reason),
        pending_signal_count=values["pending"],
        created_at=values["created_at"],
        updated_at=values["updated_at"],
        wake_at=values["wake_at"],
        awaits=values["awaits"],
        **document,
    )


def signal_of(values: Stored) -> AgentSignal:
    """The signal in these columns."""
    return AgentSignal(
        id=values["signal_id"],
        agent_state_id=values["run_id"],
        kind=AgentSignalKind(values["kind"]),
        payload=document_of(values["payload"]),
        created_at=values["created_at"],
    )


def evidence_values(tenant_id: str, evidence: AgentEvidence) -> Values:
    """Evidence as columns."""
    where = f"the payload of evidence {evidence.id!r}"
    document: JsonObject = {
        "payload": evidence.payload,
        "summary": evidence.summary,
        "digest": evidence.digest,
        "reference": evidence.reference,
        "sensitive_fields": [descriptor.to_metadata() for descriptor in evidence.sensitive_fields],
    }
    return {
        "tenant_id": tenant_id,
        "run_id": evidence.agent_state_id,
        "evidence_id": evidence.id,
        "kind": evidence.kind.value,
        "manifest_ref": evidence.manifest_ref,
        "document": text_of(where, document),
        "given_at": evidence.created_at,
    }


def evidence_of(values: Stored) -> AgentEvidence:
    """The evidence in these columns."""
    document = document_of(values["document"])
    descriptors: list[JsonObject] = document.pop("sensitive_fields")
    return AgentEvidence(
        id=values["evidence_id"],
        agent_state_id=values["run_id"],
        kind=AgentEvidenceKind(values["kind"]),
        manifest_ref=values["manifest_ref"],
        sensitive_fields=tuple(map(SensitiveFieldDescriptor.from_metadata, descriptors)),
        created_at=values["created_at"],
        **document,
    )


def event_values(run: RunKey, event: OutboxEvent) -> Values:
    """An outbox event as columns; what its row says of the run anyway is left out of the payload."""
    kept = dict(event.payload)
    is_named = kept.get("run_id") == run.run_id and kept.get("tenant_id") == run.tenant_id
    if is_named:
        del kept["run_id"], kept["tenant_id"]
    text = text_of(f"the payload of outbox event {event.event_type!r}", kept)
    return {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "event_type": event.event_type,
        "version": event.version,
        "payload": _OF_ITS_RUN + text if is_named else text,
    }


def entry_of(values: Stored) -> OutboxEntry:
    """The outbox entry in these columns."""
    return OutboxEntry(
        RunKey(values["tenant_id"], values["run_id"]),
        values["number"],
        event_of(values),
        values["created_at"],
        OutboxStatus(values["status"]),
        values["failures"],
        values["problem"],
    )


def event_of(values: Stored) -> OutboxEvent:
    """The outbox event in these columns."""
    text: str = values["payload"]
    payload = document_of(text.removeprefix(_OF_ITS_RUN))
    if text.startswith(_OF_ITS_RUN):
        payload |= {"run_id": values["run_id"], "tenant_id": values["tenant_id"]}
    return OutboxEvent(values["event_type"], values["version"], payload)


def turn_of(values: Stored) -> ConversationTurn:
    """The turn in these columns."""
    trust = TrustLabel() if values["trust"] is None else _label_of(values["trust"])
    return ConversationTurn(values["role"], values["content"], trust)


def trust_text(label: TrustLabel) -> str | None:
    """A trust label as it is stored; nothing for the neutral one, which most turns have."""
    return None if label == TrustLabel() else canonical_json(label.to_payload())


def _label_of(text: str) -> TrustLabel:
    return TrustLabel.from_payload(document_of(text))
