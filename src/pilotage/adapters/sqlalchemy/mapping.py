"""Values of the contract as columns and back, without loss. Pure: no I/O; nothing is pickled."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import RowMapping

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.ports.leases import WAITS_FOR_PERSON
from pilotage.agent.ports.observability import AuditEntry
from pilotage.agent.ports.outbox import OutboxEntry, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import LateOutcome
from pilotage.agent.principal import Principal
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, as_list, as_object, as_string, canonical_json, parsed
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.trust import TrustLabel

T = TypeVar("T")

Values: TypeAlias = dict[str, Any]
"""The columns of a row that is to be written, by name; digests and salts are packed (`columns.to_packed`)."""

Stored: TypeAlias = RowMapping | Mapping[str, Any]
"""The columns of a row that was read."""

_OF_ITS_RUN = "@"
"""Begins the payload of a fact that names the run and the tenant of its row; no JSON text begins like this."""

# No column of a position holds a larger number, and a database may fail to compare it.
_MOST_DIGITS = 18


class UnstorableError(Exception):
    """A value has a part without a JSON form; the message says where and which."""


@contextmanager
def refusing_unstorable(method: str) -> Generator[None]:
    """Raise `UnstorableError` in the block as the definition error of a method."""
    try:
        yield
    except UnstorableError as error:
        raise AgentDefinitionError(f"{method}: {error}.") from error


def position_of(cursor: str | None) -> int:
    """Return the position in a table that the cursor of a page stands for; 0 without a cursor.

    Raises:
        CallerError: it is no cursor of a page.
    """
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MOST_DIGITS):
        raise CallerError(f"there is no page after {cursor!r}. Give the cursor of a page as `after`.")
    return int(cursor)


def page_of(
    found: Sequence[Stored], limit: int, make: Callable[[Stored], T]
) -> tuple[tuple[T, ...], str | None]:
    """Return the entries of a page and the cursor of the next one; `found` has one row more if there is a next."""
    cursor = str(found[limit - 1]["position"]) if len(found) > limit else None
    return tuple(map(make, found[:limit])), cursor


def text_of(where: str, json_value: JsonValue) -> str:
    """Return a JSON value as it is stored.

    Raises:
        UnstorableError: it has no JSON form.
    """
    try:
        return canonical_json(json_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableError(f"{where} cannot be stored as JSON: {error}") from error


def document_of(text: str) -> dict[str, Any]:
    """Return the JSON object that was stored as this text.

    Raises:
        TypeError, ValueError: it is another value, or no JSON.
    """
    return dict(as_object(parsed(text)))


def _optional_text(document: JsonObject, name: str) -> str | None:
    """Return a text of a document, or None where it has none.

    Raises:
        TypeError: it is something else.
    """
    found = document.get(name)
    return None if found is None else as_string(found)


OF_WAITING = ("wake_at", "awaits", "quarantined")
"""The columns of a state that say when a run which waits goes on; a commit without a state leaves them."""

NO_STATE: Mapping[str, Any] = dict.fromkeys(("status", "agent_type", "state", "given_at", *OF_WAITING))
"""The columns of a run that has no state."""


def state_values(state: AgentState) -> Values:
    """Return the state of a run as columns."""
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
        "quarantined": state.reason in WAITS_FOR_PERSON,
    }


def state_of(values: Stored) -> AgentState:
    """Return the state in these columns; `pending` is the number of pending signals."""
    document = document_of(values["state"])
    transition, reason = document["transition"], document["reason"]
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
        current_activity=_optional_text(document, "current_activity"),
        input_ref=_optional_text(document, "input_ref"),
        output_ref=_optional_text(document, "output_ref"),
        last_event_cursor=_optional_text(document, "last_event_cursor"),
        recovery_marker=_optional_text(document, "recovery_marker"),
        metadata=as_object(document["metadata"]),
    )


def signal_of(values: Stored) -> AgentSignal:
    """Return the signal in these columns."""
    return AgentSignal(
        id=values["signal_id"],
        agent_state_id=values["run_id"],
        kind=AgentSignalKind(values["kind"]),
        payload=document_of(values["payload"]),
        created_at=values["created_at"],
        end=_signal_end(values),
    )


def _signal_end(values: Stored) -> AgentSignalEnd | None:
    if values["consumed_at"] is None:
        return None
    return AgentSignalEnd(values["end"] or AgentSignalEnd.TAKEN)


def evidence_values(tenant_id: str, evidence: AgentEvidence, number: int | None = None) -> Values:
    """Return evidence as columns; `number` is its place among the evidence of its run."""
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
        "number": number,
        "kind": evidence.kind.value,
        "manifest_ref": evidence.manifest_ref,
        "document": text_of(where, document),
        "given_at": evidence.created_at,
    }


def evidence_of(values: Stored) -> AgentEvidence:
    """Return the evidence in these columns."""
    document = document_of(values["document"])
    descriptors = map(as_object, as_list(document["sensitive_fields"]))
    return AgentEvidence(
        id=values["evidence_id"],
        agent_state_id=values["run_id"],
        kind=AgentEvidenceKind(values["kind"]),
        manifest_ref=values["manifest_ref"],
        sensitive_fields=tuple(map(SensitiveFieldDescriptor.from_metadata, descriptors)),
        created_at=values["created_at"],
        payload=as_object(document["payload"]),
        summary=_optional_text(document, "summary"),
        digest=_optional_text(document, "digest"),
        reference=_optional_text(document, "reference"),
    )


def event_values(run: RunKey, event: OutboxEvent, number: int) -> Values:
    """Return an outbox event as columns; the payload omits the run and tenant that its row has anyway."""
    payload = dict(event.payload)
    is_named = payload.get("run_id") == run.run_id and payload.get("tenant_id") == run.tenant_id
    if is_named:
        del payload["run_id"], payload["tenant_id"]
    text = text_of(f"the payload of outbox event {event.event_type!r}", payload)
    return {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "number": number,
        "event_type": event.event_type,
        "version": event.version,
        "payload": _OF_ITS_RUN + text if is_named else text,
    }


def entry_of(values: Stored) -> OutboxEntry:
    """Return the outbox entry in these columns."""
    return OutboxEntry(
        run=RunKey(values["tenant_id"], values["run_id"]),
        number=values["number"],
        event=event_of(values),
        created_at=values["created_at"],
        status=OutboxStatus(values["status"]),
        failures=values["failures"],
        problem=values["problem"],
    )


def event_of(values: Stored) -> OutboxEvent:
    """Return the outbox event in these columns."""
    text: str = values["payload"]
    payload = document_of(text.removeprefix(_OF_ITS_RUN))
    if text.startswith(_OF_ITS_RUN):
        payload |= {"run_id": values["run_id"], "tenant_id": values["tenant_id"]}
    return OutboxEvent(values["event_type"], values["version"], payload)


def turn_of(values: Stored) -> ConversationTurn:
    """Return the turn in these columns."""
    trust = values["trust"]
    label = TrustLabel() if trust is None else TrustLabel.from_payload(document_of(trust))
    media = () if values["media"] is None else document_of(values["media"])["parts"]
    return ConversationTurn(
        values["role"], values["content"], label, tuple(MediaPart(**each) for each in media)
    )


def trust_text(label: TrustLabel) -> str | None:
    """Return a trust label as it is stored; None for the neutral one, which most turns have."""
    return None if label == TrustLabel() else canonical_json(label.to_payload())


def late_outcome_of(values: Stored) -> LateOutcome:
    """Return the late outcome in the columns of a row."""
    run = RunKey(values["tenant_id"], values["run_id"])
    view = document_of(values["view"])
    return LateOutcome(
        run=run,
        action_id=values["action_id"],
        attempt=values["attempt"],
        epoch=values["epoch"],
        view=view,
        created_at=values["created_at"],
    )


def audit_entry_of(values: Stored) -> AuditEntry:
    """Return the entry of the audit log in the columns of a row."""
    document = document_of(values["document"])
    principal = Principal(document["principal"], values["tenant_id"], frozenset(document["permissions"]))
    return AuditEntry(
        run_id=values["run_id"],
        principal=principal,
        act=document["act"],
        outcome=document["outcome"],
        occurred_at=values["occurred_at"],
        evidence_ref=values["evidence_ref"],
        metadata=document["metadata"],
    )
