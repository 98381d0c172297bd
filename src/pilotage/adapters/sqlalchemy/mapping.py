"""Values of the contract as columns and back. Pure; nothing is pickled, and everything survives the round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypeAlias, cast

from sqlalchemy import RowMapping

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    OutboxEvent,
    RunKey,
    SealedRecord,
)
from pilotage.agent.ports.outbox import OutboxEntry, OutboxStatus
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_bytes
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.trust import TrustLabel

Values: TypeAlias = dict[str, Any]
"""The columns of a row that is to be written, by name."""

Stored: TypeAlias = RowMapping
"""The columns of a row that was read."""

BLOB_LENGTH = 8192
"""Texts from this length on are stored as blobs: once per tenant, however often they occur."""


_ADDED = "+"
"""Begins the text of a view that adds to its record; no JSON text begins like this."""


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


def value_of(text: str) -> JsonValue:
    """The JSON value that was stored."""
    return cast(JsonValue, json.loads(text))


def blob_digest(tenant_id: str, content: str) -> str:
    """By what a blob is found within its tenant; equal blobs of two tenants do not show that they are equal."""
    return sha256(to_bytes(f"{tenant_id}\n{content}")).hexdigest()


def row_values(tenant_id: str, run_id: str, row: JournalRow, token: str | None) -> Values:
    """A journal row as columns; texts that are large are still in their place (see `with_blobs`)."""
    sealed = row.record if isinstance(row.record, SealedRecord) else None
    record, view = _texts_of(row)
    return {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "seq": row.seq,
        "action_id": row.action_id,
        "kind": None if row.kind is None else row.kind.value,
        "stage": row.stage.value,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "fingerprint": row.fingerprint,
        "idempotency": row.idempotency.value,
        "key_id": sealed.key_id if sealed else None,
        "record": sealed.ciphertext if sealed else record,
        "record_blob": None,
        "view": _stored_view(row, record, view),
        "view_blob": None,
        "digest": row.digest,
        "salt": row.salt,
        "token": token,
    }


def _stored_view(row: JournalRow, record: str, view: str) -> str | None:
    """The text of a view: none where it is the record, and only what it adds where it says all of the record."""
    if isinstance(row.record, SealedRecord):
        return view
    if view == record:
        return None
    if not (isinstance(row.record, dict) and isinstance(row.view, dict)):
        return view
    shown = row.view
    if any(name not in shown or shown[name] is not said for name, said in row.record.items()):
        return view
    return _ADDED + canonical_json({name: said for name, said in shown.items() if name not in row.record})


def _read_view(record: JsonValue, stored: str) -> JsonValue:
    if not stored.startswith(_ADDED):
        return value_of(stored)
    added = cast("dict[str, JsonValue]", value_of(stored.removeprefix(_ADDED)))
    return {**cast("dict[str, JsonValue]", record), **added}


def _texts_of(row: JournalRow) -> tuple[str, str]:
    """The canonical texts of record and view; most rows bring them along."""
    try:
        texts = row.texts
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableError(
            f"the payloads of row {row.seq} ({row.action_id!r}) cannot be stored as JSON: {error}"
        ) from error
    return texts.record_json, texts.view_json


def take_out_blobs(values: Values) -> list[Values]:
    """Put the digests of large texts in their place, and give the texts."""
    found: list[Values] = []
    for column in ("record", "view"):
        content = cast("str | None", values[column])
        if content is not None and len(content) >= BLOB_LENGTH:
            digest = blob_digest(values["tenant_id"], content)
            values[column], values[f"{column}_blob"] = None, digest
            found.append({"tenant_id": values["tenant_id"], "digest": digest, "content": content})
    return found


def row_of(values: Stored, blobs: Mapping[str, str]) -> JournalRow:
    """The journal row in these columns."""
    record, view = _payloads(values, blobs)
    kind = values["kind"]
    return JournalRow(
        seq=values["seq"],
        action_id=values["action_id"],
        kind=None if kind is None else AgentActionKind(kind),
        stage=JournalStage(values["stage"]),
        attempt=values["attempt"],
        epoch=values["epoch"],
        fingerprint=values["fingerprint"],
        idempotency=Idempotency(values["idempotency"]),
        record=record,
        view=view,
        digest=values["digest"],
        created_at=values["created_at"],
        salt=values["salt"],
    )


def _payloads(
    values: Stored, blobs: Mapping[str, str]
) -> tuple[JsonValue | SealedRecord | ErasedRecord, JsonValue]:
    if values["erased"] is not None:
        return ErasedRecord(values["erased"]), None
    kept: str = values["record"] if values["record_blob"] is None else blobs[values["record_blob"]]
    view: str | None = values["view"] if values["view_blob"] is None else blobs[values["view_blob"]]
    if values["key_id"] is not None:
        return SealedRecord(values["key_id"], kept), value_of(kept if view is None else view)
    # Read twice rather than shared: what a reader changes in the one must not show in the other.
    return value_of(kept), value_of(kept) if view is None else _read_view(value_of(kept), view)


def state_values(state: AgentState | None) -> Values:
    """What a run's columns say of its state; nothing where there is none."""
    if state is None:
        return {
            "status": None,
            "agent_type": None,
            "state": None,
            "given_at": None,
            "wake_at": None,
            "awaits": None,
        }
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
    document = cast("dict[str, Any]", value_of(values["state"]))
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
        payload=cast(JsonObject, value_of(values["payload"])),
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
    document = cast("dict[str, Any]", value_of(values["document"]))
    descriptors = cast("list[JsonObject]", document.pop("sensitive_fields"))
    return AgentEvidence(
        id=values["evidence_id"],
        agent_state_id=values["run_id"],
        kind=AgentEvidenceKind(values["kind"]),
        manifest_ref=values["manifest_ref"],
        sensitive_fields=tuple(map(SensitiveFieldDescriptor.from_metadata, descriptors)),
        created_at=values["created_at"],
        **document,
    )


def event_values(tenant_id: str, run_id: str, event: OutboxEvent) -> Values:
    """An outbox event as columns."""
    return {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "event_type": event.event_type,
        "version": event.version,
        "payload": text_of(f"the payload of outbox event {event.event_type!r}", event.payload),
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
    return OutboxEvent(values["event_type"], values["version"], cast(JsonObject, value_of(values["payload"])))


def turn_of(values: Stored) -> ConversationTurn:
    """The turn in these columns."""
    trust = TrustLabel() if values["trust"] is None else _label_of(values["trust"])
    return ConversationTurn(values["role"], values["content"], trust)


def trust_text(label: TrustLabel) -> str | None:
    """A trust label as it is stored; nothing for the neutral one, which most turns have."""
    return None if label == TrustLabel() else canonical_json(label.to_payload())


def _label_of(text: str) -> TrustLabel:
    return TrustLabel.from_payload(cast(JsonObject, value_of(text)))
