"""Values of the in-memory store, with their JSON parts as canonical text.

A stored value cannot be changed from outside, a value without a JSON form is refused, and reading decodes the text, as
a database would: `of` encodes a value, `read` decodes it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.ports.persistence import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    SealedRecord,
    StoredRecord,
    UnreadableRecord,
    stored_row,
)
from pilotage.agent.signals import AgentSignal, AgentSignalEnd
from pilotage.agent.state import AgentState
from pilotage.filling import changing, unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, as_list, as_object, canonical_json, parsed
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.values import value

_TEXT_ALREADY = (SealedRecord, ErasedRecord)
_with_metadata = changing(AgentState, "metadata")
_stamped = changing(AgentState, "metadata", "created_at", "updated_at")


class UnencodableError(Exception):
    """A value has a part without a JSON form; the message names the part and its place."""


@value
class EncodedRow:
    """A journal row with record and view as text, decoded on access.

    A sealed or erased record is text already. `columns` are the parts of the row before its record, in their order.
    """

    columns: tuple[object, ...]
    number: int
    turn: int | None
    record_text: str | SealedRecord | ErasedRecord
    view_text: str
    digest: str
    created_at: datetime | None
    salt: str
    events: str
    costs: str

    @classmethod
    def of(cls, row: JournalRow, created_at: datetime | None = None) -> EncodedRow:
        """Return the encoded row, with the store's time if one is given."""
        sealed = row.record if isinstance(row.record, _TEXT_ALREADY) else None
        if row.encoded is not None:
            texts = row.texts
            record, view = texts.record_json, texts.view_json
        else:
            where = f"row {row.seq} ({row.action_id!r})"
            record = "" if sealed else _text(f"the record of {where}", cast(JsonValue, row.record))
            view = _text(f"the view of {where}", row.view)
        name = (row.seq, row.action_id, row.kind, row.stage)
        columns = (*name, row.attempt, row.epoch, row.fingerprint, row.idempotency)
        made = created_at or row.created_at
        given = (sealed or record, view, row.digest, made, row.salt, row.events, row.costs)
        return _new_row(columns, row.number, row.turn, *given)

    @property
    def seq(self) -> int:
        """The number of the row."""
        return cast("int", self.columns[0])

    @property
    def is_plain(self) -> bool:
        return isinstance(self.record_text, str)

    @property
    def record(self) -> StoredRecord:
        try:
            return parsed(self.record_text) if isinstance(self.record_text, str) else self.record_text
        except ValueError as error:
            return UnreadableRecord(str(error))

    @property
    def view(self) -> JsonValue:
        try:
            return parsed(self.view_text)
        except ValueError:
            return None

    @property
    def payloads(self) -> tuple[str, str]:
        record = self.record_text
        if isinstance(record, SealedRecord):
            return canonical_json({"ciphertext": record.ciphertext, "key": record.key_id}), self.view_text
        return record if isinstance(record, str) else "", self.view_text

    @property
    def moment(self) -> str:
        return "" if self.created_at is None else self.created_at.isoformat()

    def read(self) -> JournalRow:
        """Return the decoded row."""
        given = (self.digest, self.salt, self.number, self.turn, self.events, self.costs)
        read = stored_row(*self.columns, *given, source=self)
        if read.stage is not JournalStage.BEFORE:
            # A record that cannot be decoded is found before the run is claimed.
            _ = read.record
        return read


_new_row = unchecked(EncodedRow)


@value
class EncodedState:
    """A state with its metadata as text."""

    bare: AgentState
    metadata: str

    @classmethod
    def of(
        cls, state: AgentState, created_at: datetime | None = None, updated_at: datetime | None = None
    ) -> EncodedState:
        """Return the encoded state, with the store's times if they are given."""
        metadata = _text(f"the metadata of state {state.id!r}", state.metadata)
        made, changed = created_at or state.created_at, updated_at or state.updated_at
        return cls(_stamped(state, {}, made, changed), metadata)

    def read(self) -> AgentState:
        return _with_metadata(self.bare, _object(self.metadata))


@value
class EncodedSignal:
    """A signal with its payload as text."""

    bare: AgentSignal
    payload: str

    @classmethod
    def of(cls, signal: AgentSignal) -> EncodedSignal:
        bare = replace(signal, payload={}, end=None)
        return cls(bare, _text(f"the payload of signal {signal.id!r}", signal.payload))

    def ended(self, end: AgentSignalEnd) -> EncodedSignal:
        """Return the signal with its end."""
        return replace(self, bare=replace(self.bare, end=end))

    def read(self) -> AgentSignal:
        return replace(self.bare, payload=_object(self.payload))


@value
class EncodedEvidence:
    """Evidence with its payload and descriptors as text."""

    bare: AgentEvidence
    payload: str
    sensitive_fields: str

    @classmethod
    def of(cls, evidence: AgentEvidence) -> EncodedEvidence:
        descriptors = [descriptor.to_metadata() for descriptor in evidence.sensitive_fields]
        return cls(
            replace(evidence, payload={}, sensitive_fields=()),
            _text(f"the payload of evidence {evidence.id!r}", evidence.payload),
            _text(f"the sensitive fields of evidence {evidence.id!r}", descriptors),
        )

    def read(self) -> AgentEvidence:
        descriptors = map(as_object, as_list(parsed(self.sensitive_fields)))
        return replace(
            self.bare,
            payload=_object(self.payload),
            sensitive_fields=tuple(map(SensitiveFieldDescriptor.from_metadata, descriptors)),
        )


@value
class EncodedOutboxEvent:
    """An outbox event with its payload as text."""

    event_type: str
    version: int
    payload: str

    @classmethod
    def of(cls, event: OutboxEvent) -> EncodedOutboxEvent:
        where = f"the payload of outbox event {event.event_type!r}"
        return _new_event(event.event_type, event.version, _text(where, event.payload))

    def read(self) -> OutboxEvent:
        return OutboxEvent(self.event_type, self.version, _object(self.payload))


_new_event = unchecked(EncodedOutboxEvent)


def _text(where: str, json_value: JsonValue) -> str:
    try:
        return canonical_json(json_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnencodableError(f"{where} cannot be stored as JSON: {error}") from error


def _object(text: str) -> JsonObject:
    return as_object(parsed(text))
