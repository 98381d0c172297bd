"""Values of the contract as columns and back. Pure; nothing is pickled, and everything survives the round trip."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, cast

from sqlalchemy import RowMapping

from pilotage.adapters.sqlalchemy.payloads import (
    BLOB_LENGTH,
    Payloads,
    blob_digest,
    payloads_of,
    values_of,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    OutboxEvent,
    RunKey,
)
from pilotage.agent.ports.outbox import OutboxEntry, OutboxStatus
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.trust import TrustLabel

Values: TypeAlias = dict[str, Any]
"""The columns of a row that is to be written, by name."""

Stored: TypeAlias = RowMapping
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


def value_of(text: str) -> JsonValue:
    """The JSON value that was stored."""
    return cast(JsonValue, json.loads(text))


def row_values(run: RunKey, rows: Sequence[JournalRow], token: str) -> list[Values]:
    """The rows of a commit as columns; texts that are large are still in their place (see `take_out_blobs`).

    Raises:
        UnstorableError: a payload has no JSON form.
    """
    values = [
        {
            "tenant_id": run.tenant_id,
            "run_id": run.run_id,
            "seq": row.seq,
            "action_id": row.action_id,
            "kind": row.kind and row.kind.value,
            "stage": row.stage.value,
            "attempt": row.attempt,
            "epoch": row.epoch,
            "fingerprint": row.fingerprint,
            "idempotency": row.idempotency.value,
            "key_id": stored.key_id,
            "record": stored.record,
            "record_blob": None,
            "view": stored.view,
            "view_blob": None,
            "digest": row.digest,
            "salt": row.salt,
            "token": None,
        }
        for row, stored in zip(rows, _payloads_of(rows), strict=True)
    ]
    values[-1]["token"] = token
    return values


def _payloads_of(rows: Sequence[JournalRow]) -> list[Payloads]:
    try:
        return payloads_of(rows)
    except (TypeError, ValueError, RecursionError) as error:
        named = ", ".join(f"{row.seq} ({row.action_id!r})" for row in rows)
        raise UnstorableError(f"the payloads of row {named} cannot be stored as JSON: {error}") from error


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


class StoredRow(NamedTuple):
    """A row of a journal as it was read, its columns in this order."""

    seq: int
    action_id: str
    kind: str | None
    stage: str
    attempt: int
    epoch: int
    fingerprint: str
    idempotency: str
    key_id: str | None
    record: str
    record_blob: str | None
    view: str | None
    view_blob: str | None
    digest: str
    salt: str
    erased: str | None
    created_at: datetime

    def payloads(self, blobs: Mapping[str, str]) -> Payloads:
        """Its texts; those that are blobs are given."""
        record = self.record if self.record_blob is None else blobs[self.record_blob]
        return Payloads(record, self.view if self.view_blob is None else blobs[self.view_blob], self.key_id)


_KINDS: Mapping[str | None, AgentActionKind | None] = {
    None: None,
    **{kind.value: kind for kind in AgentActionKind},
}
_STAGES = {stage.value: stage for stage in JournalStage}
_CLASSES = {each.value: each for each in Idempotency}


def row_of(stored: StoredRow, payloads: Payloads, record_of: Callable[[int], str]) -> JournalRow:
    """The journal row in these columns; `record_of` gives the record of another row of the run."""
    record, view = (
        values_of(payloads, record_of) if stored.erased is None else (ErasedRecord(stored.erased), None)
    )
    return JournalRow(
        seq=stored.seq,
        action_id=stored.action_id,
        kind=_KINDS[stored.kind],
        stage=_STAGES[stored.stage],
        attempt=stored.attempt,
        epoch=stored.epoch,
        fingerprint=stored.fingerprint,
        idempotency=_CLASSES[stored.idempotency],
        record=record,
        view=view,
        digest=stored.digest,
        created_at=stored.created_at,
        salt=stored.salt,
    )


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


def event_values(run: RunKey, event: OutboxEvent) -> Values:
    """An outbox event as columns; what its row says of the run anyway is left out of the payload."""
    payload = event.payload
    names: JsonObject = {"run_id": run.run_id, "tenant_id": run.tenant_id}
    is_named = all(payload.get(name) == said for name, said in names.items())
    kept = {name: said for name, said in payload.items() if name not in names} if is_named else payload
    text = text_of(f"the payload of outbox event {event.event_type!r}", kept)
    return {
        **names,
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
    payload = cast("dict[str, JsonValue]", value_of(text.removeprefix(_OF_ITS_RUN)))
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
    return TrustLabel.from_payload(cast(JsonObject, value_of(text)))
