"""Values as the in-memory store keeps them: what is JSON in them as canonical text.

Nothing that could be changed from outside and nothing that has no JSON form gets in; what comes out is read
from the text, as it would be from a database: `of` keeps a value, `read` gives it to a reader.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    OutboxEvent,
    SealedRecord,
    StoredRecord,
    UnreadableRecord,
    stored_row,
)
from pilotage.agent.signals import AgentSignal, AgentSignalEnd
from pilotage.agent.state import AgentState
from pilotage.filling import changing
from pilotage.jsonvalue import JsonObject, JsonValue, as_list, as_object, canonical_json, parsed
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.values import value

_TEXT_ALREADY = (SealedRecord, ErasedRecord)
_with_metadata = changing(AgentState, "metadata")
_stamped = changing(AgentState, "metadata", "created_at", "updated_at")


class UnkeepableError(Exception):
    """A value has a part without a JSON form; the message says where and which."""


@value
class KeptRow:
    """A journal row whose record and view are texts, decoded when they are asked for.

    A sealed or erased record is text already. `columns` are the parts of the row before its record, in their order.
    """

    columns: tuple[object, ...]
    number: int
    turn: int | None
    kept_record: str | SealedRecord | ErasedRecord
    kept_view: str
    digest: str
    created_at: datetime | None
    salt: str

    @classmethod
    def of(cls, row: JournalRow, created_at: datetime | None = None) -> KeptRow:
        """The row as it is kept, with the store's time where that is given."""
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
        return cls(
            columns=columns,
            number=row.number,
            turn=row.turn,
            kept_record=sealed or record,
            kept_view=view,
            digest=row.digest,
            created_at=created_at or row.created_at,
            salt=row.salt,
        )

    @property
    def seq(self) -> int:
        """The number of the row."""
        return cast("int", self.columns[0])

    @property
    def is_plain(self) -> bool:
        return isinstance(self.kept_record, str)

    @property
    def record(self) -> StoredRecord:
        try:
            return parsed(self.kept_record) if isinstance(self.kept_record, str) else self.kept_record
        except ValueError as error:
            return UnreadableRecord(str(error))

    @property
    def view(self) -> JsonValue:
        try:
            return parsed(self.kept_view)
        except ValueError:
            return None

    @property
    def payloads(self) -> tuple[str, str]:
        record = self.kept_record
        if isinstance(record, SealedRecord):
            return canonical_json({"ciphertext": record.ciphertext, "key": record.key_id}), self.kept_view
        return record if isinstance(record, str) else "", self.kept_view

    @property
    def moment(self) -> str:
        return "" if self.created_at is None else self.created_at.isoformat()

    def read(self) -> JournalRow:
        """The row as a reader gets it."""
        read = stored_row(
            *self.columns, self.digest, self.salt, number=self.number, turn=self.turn, source=self
        )
        if read.stage is not JournalStage.BEFORE:
            # A record that cannot be decoded is found before the run is claimed.
            _ = read.record
        return read


@value
class KeptState:
    """A state whose metadata are text."""

    bare: AgentState
    metadata: str

    @classmethod
    def of(
        cls, state: AgentState, created_at: datetime | None = None, updated_at: datetime | None = None
    ) -> KeptState:
        """The state as it is kept, with the store's times where those are given."""
        metadata = _text(f"the metadata of state {state.id!r}", state.metadata)
        made, changed = created_at or state.created_at, updated_at or state.updated_at
        return cls(_stamped(state, {}, made, changed), metadata)

    def read(self) -> AgentState:
        return _with_metadata(self.bare, _object(self.metadata))


@value
class KeptSignal:
    """A signal whose payload is text."""

    bare: AgentSignal
    payload: str

    @classmethod
    def of(cls, signal: AgentSignal) -> KeptSignal:
        bare = replace(signal, payload={}, end=None)
        return cls(bare, _text(f"the payload of signal {signal.id!r}", signal.payload))

    def ended(self, end: AgentSignalEnd) -> KeptSignal:
        """The signal with its end."""
        return replace(self, bare=replace(self.bare, end=end))

    def read(self) -> AgentSignal:
        return replace(self.bare, payload=_object(self.payload))


@value
class KeptEvidence:
    """Evidence whose payload and descriptors are texts."""

    bare: AgentEvidence
    payload: str
    sensitive_fields: str

    @classmethod
    def of(cls, evidence: AgentEvidence) -> KeptEvidence:
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
class KeptEvent:
    """An outbox event whose payload is text."""

    event_type: str
    version: int
    payload: str

    @classmethod
    def of(cls, event: OutboxEvent) -> KeptEvent:
        where = f"the payload of outbox event {event.event_type!r}"
        return cls(event.event_type, event.version, _text(where, event.payload))

    def read(self) -> OutboxEvent:
        return OutboxEvent(self.event_type, self.version, _object(self.payload))


def _text(where: str, json_value: JsonValue) -> str:
    try:
        return canonical_json(json_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnkeepableError(f"{where} cannot be stored as JSON: {error}") from error


def _object(text: str) -> JsonObject:
    return as_object(parsed(text))
