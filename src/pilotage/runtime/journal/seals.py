"""Sealing of records and signals: which are sealed, with which context, and how they are opened.

Pure but for the sealer. A view may have more content than its record. Where it has less, readers must not see the rest:
the record is sealed, or, in an application without a key, handled by `WithoutKey`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import assert_never

from pilotage.agent.ports.persistence import (
    JournalRow,
    JournalStage,
    RunKey,
    SealedRecord,
    StoredRecord,
    UnreadableRecord,
)
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.safety_checks import WAY_OUT, withheld_by
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, canonical_json
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.record_fields import plain_record, with_record
from pilotage.runtime.journal.scope import Action

NOT_RECORDED: JsonObject = {words.NOT_RECORDED: True}
"""The record of a read-only action whose result could not be sealed: replay performs the action again."""

_CONTAINERS = (Mapping, list, tuple)
_FETCHED = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.MODEL_CALL})


class WithoutKey(Enum):
    """The treatment of a record with more content than its view, in an application without a key."""

    FETCH_AGAIN = auto()
    KEEP_PLAIN = auto()
    REFUSE = auto()


def without_key_for(action: Action, tool: AgentToolDescriptor | None = None) -> WithoutKey:
    """Return how an application without a key treats the records of an action.

    Only a read-only action can be performed again. Where nothing sensitive is declared, the view differs only in size
    or form, so the record may stay plain.
    """
    if action.is_read_only and action.kind in _FETCHED:
        return WithoutKey.FETCH_AGAIN
    if not action.hides or (tool is not None and not withheld_by(tool)):
        return WithoutKey.KEEP_PLAIN
    return WithoutKey.REFUSE


class Seals:
    """Seals and opens the records of one run."""

    def __init__(self, sealer: IRecordSealer | None, run: RunKey) -> None:
        self._sealer = sealer
        self._run = run

    @property
    def has_key(self) -> bool:
        """Whether there is a sealer."""
        return self._sealer is not None

    def closed(
        self,
        record: JsonValue,
        view: JsonValue,
        *,
        action_id: str,
        stage: JournalStage,
        attempt: int,
        without_key: WithoutKey = WithoutKey.REFUSE,
    ) -> JsonValue | SealedRecord:
        """Return the record as it is stored: plain where the view equals it, else sealed.

        Raises:
            RecordSealError: it must be sealed and cannot be.
            TypeError, ValueError: it has no JSON form.
        """
        if not withholds(record, view):
            return record
        context = SealContext(self._run, action_id, stage, attempt)
        if self._sealer is not None:
            return self._sealer.seal(context, canonical_json(record))
        match without_key:
            case WithoutKey.FETCH_AGAIN:
                return NOT_RECORDED
            case WithoutKey.KEEP_PLAIN:
                return record
            case WithoutKey.REFUSE:
                raise RecordSealError(
                    f"{context} must be sealed, and nothing provides IRecordSealer. {WAY_OUT}"
                )
            case _:
                assert_never(without_key)

    def opened(self, row: JournalRow) -> JsonValue:
        """Return the plain record of a row.

        Raises:
            RecordSealError: it is sealed, and does not open here.
        """
        sealed = row.record
        if not isinstance(sealed, SealedRecord):
            return plain_record(row)
        context = SealContext(self._run, row.action_id, row.stage, row.attempt)
        if self._sealer is None:
            raise RecordSealError.unknown_key(context, sealed.key_id, WAY_OUT)
        record: JsonValue = json.loads(self._sealer.open(context, sealed))
        return record

    def opened_rows(self, rows: Iterable[JournalRow]) -> list[JournalRow]:
        """Return the rows with their records open and their stored digests; erased ones stay as they are.

        A record that does not open with its key was changed: it is an `UnreadableRecord` then.

        Raises:
            RecordSealError: the application does not have the key of one of them.
        """
        return [with_record(row, self._opened_or_damaged(row)) if _is_sealed(row) else row for row in rows]

    def _opened_or_damaged(self, row: JournalRow) -> StoredRecord:
        try:
            return self.opened(row)
        except RecordSealError as error:
            if not error.is_damaged:
                raise
            return UnreadableRecord(str(error))
        except ValueError as error:
            return UnreadableRecord(f"its sealed text is no JSON: {error}")
        except AgentDefinitionError as error:
            return UnreadableRecord(f"it is not where a sealed text can be: {error}")


def unopened(rows: Iterable[JournalRow]) -> Damage | None:
    """Return the first of opened rows whose seal did not open; None where there is none."""
    for row in rows:
        # Only copies have no source: the others were not sealed.
        if row.source is None and isinstance(row.record, UnreadableRecord):
            return Damage(row.seq, row.action_id, row.record.reason)
    return None


def _is_sealed(row: JournalRow) -> bool:
    """Return whether a record is sealed, without decoding it."""
    return not row.is_plain and isinstance(row.record, SealedRecord)


def has_record(row: JournalRow) -> bool:
    """Return whether the row has a record; without one, replay performs the action again."""
    return row.record != NOT_RECORDED


def withholds(record: JsonValue, view: JsonValue) -> bool:
    """Return whether the record has content that the view lacks."""
    if record is view or record == view:
        return False
    if isinstance(record, Mapping) and isinstance(view, Mapping):
        return any(key not in view or not _is_same(item, view[key]) for key, item in record.items())
    return not _is_same(record, view)


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are equal as JSON; only containers are compared as text."""
    if one is other or one == other:
        return True
    return isinstance(one, _CONTAINERS) and canonical_json(one) == canonical_json(other)


SEALED = words.SEALED
"""The key under which the payload of a stored signal holds its sealed part; senders must not use it."""

_PLAIN_KEYS = (words.REQUEST_ID, words.DECISION)
"""The fields of an answer that are not sealed: the store finds answers by them."""


class SignalSeals:
    """Seals and opens the signals of one run. Without a sealer they are stored plain."""

    def __init__(self, sealer: IRecordSealer | None, run: RunKey) -> None:
        self._sealer = sealer
        self._run = run

    def closed(self, signal: AgentSignal, *, is_redacted: bool = False) -> AgentSignal:
        """Return the signal as it is stored: answers are sealed, messages only where the agent redacts.

        Raises:
            RecordSealError: it must be sealed and cannot be.
        """
        if self._sealer is None or not _must_be_sealed(signal, is_redacted=is_redacted):
            return signal
        sealed = self._sealer.seal(self._context(signal), canonical_json(signal.payload))
        plain = {name: signal.payload[name] for name in _PLAIN_KEYS if name in signal.payload}
        is_answer = signal.kind is AgentSignalKind.APPROVAL_DECISION
        stored: JsonValue = {words.KEY_ID: sealed.key_id, words.CIPHERTEXT: sealed.ciphertext}
        return replace(signal, payload={**(plain if is_answer else {}), SEALED: stored})

    def opened(self, signal: AgentSignal) -> AgentSignal:
        """Return the signal as it was sent.

        Raises:
            RecordSealError: it is sealed, and does not open here.
        """
        if SEALED not in signal.payload:
            return signal
        context, sealed = self._context(signal), _sealed_in(signal.payload)
        if sealed is None:
            raise RecordSealError.does_not_open(context, "unknown")
        if self._sealer is None:
            raise RecordSealError.unknown_key(context, sealed.key_id, WAY_OUT)
        return replace(signal, payload=as_object(json.loads(self._sealer.open(context, sealed))))

    def _context(self, signal: AgentSignal) -> SealContext:
        return SealContext(self._run, f"{words.SIGNAL}{signal.kind.value}:{signal.id}", JournalStage.AFTER)


def _must_be_sealed(signal: AgentSignal, *, is_redacted: bool) -> bool:
    """Return whether a signal has content that only its run may read."""
    if signal.kind is AgentSignalKind.APPROVAL_DECISION:
        return any(value is not None for name, value in signal.payload.items() if name not in _PLAIN_KEYS)
    return is_redacted and signal.kind.lane is AgentSignalLane.MESSAGE and bool(signal.payload)


def _sealed_in(payload: JsonObject) -> SealedRecord | None:
    found = payload[SEALED]
    if not isinstance(found, Mapping):
        return None
    key_id, ciphertext = found.get(words.KEY_ID), found.get(words.CIPHERTEXT)
    if not isinstance(key_id, str) or not isinstance(ciphertext, str):
        return None
    return SealedRecord(key_id, ciphertext)
