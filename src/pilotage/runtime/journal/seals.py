"""Two payloads: which records are sealed, and how replay gets them back.

Pure but for the sealer. A view may say more than its record. Where it says less, somebody must not read the
rest: the record is sealed, or, in an application without a key, handled as `WithoutKey` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import assert_never

from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.sealing_check import WAY_OUT, withheld_by
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.record_fields import as_object, plain_record

NOT_KEPT: JsonObject = {"not_kept": True}
"""Stands for the record of a read-only action that could not be sealed: replay fetches it again."""

_CONTAINERS = (Mapping, list, tuple)
_FETCHED = frozenset({AgentActionKind.TOOL_CALL, AgentActionKind.MODEL_CALL})


class WithoutKey(Enum):
    """What becomes of a record that says more than its view, where there is no key to seal it with."""

    FETCH_AGAIN = auto()
    KEEP_PLAIN = auto()
    REFUSE = auto()


def without_key_for(action: Action, tool: AgentToolDescriptor | None = None) -> WithoutKey:
    """What to do with the records of an action in an application without a key.

    Only what was read can be read again; a message that was taken in, or the answer of a run, cannot. If a tool
    declares nothing sensitive, only its size can have cut the view of its result, and that hides nothing.
    """
    if action.is_read_only and action.kind in _FETCHED:
        return WithoutKey.FETCH_AGAIN
    if tool is not None and not withheld_by(tool):
        return WithoutKey.KEEP_PLAIN
    return WithoutKey.REFUSE


class Seals:
    """Closes and opens the records of one run."""

    def __init__(self, sealer: IRecordSealer | None, run: RunKey) -> None:
        self._sealer = sealer
        self._run = run

    def closed(
        self,
        action_id: str,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        without_key: WithoutKey = WithoutKey.REFUSE,
    ) -> JsonValue | SealedRecord:
        """The record as the journal keeps it: as it is where the view says the same, else sealed.

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
                return NOT_KEPT
            case WithoutKey.KEEP_PLAIN:
                return record
            case WithoutKey.REFUSE:
                raise RecordSealError(
                    f"{context} must be sealed, and nothing provides IRecordSealer. {WAY_OUT}"
                )
            case _:
                assert_never(without_key)

    def opened(self, row: JournalRow) -> JsonValue:
        """The record of a row as replay needs it.

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
        """All rows with their records open; the digests stay those of the rows as they are stored.

        Raises:
            RecordSealError: one of them does not open here.
        """
        return [replace(row, record=self.opened(row)) if _is_sealed(row) else row for row in rows]


def _is_sealed(row: JournalRow) -> bool:
    """Whether a record is sealed; a plain one is not decoded to find out."""
    return not row.is_plain and isinstance(row.record, SealedRecord)


def is_kept(row: JournalRow) -> bool:
    """Whether the journal has what came of the action; if not, replay fetches it again."""
    return row.record != NOT_KEPT


def withholds(record: JsonValue, view: JsonValue) -> bool:
    """Whether the record says anything that the view does not; the view may say more."""
    if record is view or record == view:
        return False
    if isinstance(record, Mapping) and isinstance(view, Mapping):
        return any(key not in view or not _is_same(item, view[key]) for key, item in record.items())
    return not _is_same(record, view)


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON: a tuple and a list of the same are. Texts are made only of what could be so."""
    if one is other or one == other:
        return True
    return isinstance(one, _CONTAINERS) and canonical_json(one) == canonical_json(other)


SEALED = "pilotage.sealed"
"""The key under which a stored payload holds what is sealed; no sender may use it."""

_SIGNPOSTS = ("request_id", "decision")


class SignalSeals:
    """Closes and opens the signals of one run. Without a sealer they are stored as they are."""

    def __init__(self, sealer: IRecordSealer | None, run: RunKey) -> None:
        self._sealer = sealer
        self._run = run

    def closed(self, signal: AgentSignal, *, is_redacted: bool = False) -> AgentSignal:
        """The signal as it is stored: an answer sealed but for its signposts, a message where the agent redacts.

        Raises:
            RecordSealError: it must be sealed and cannot be.
        """
        if self._sealer is None or not _says_something(signal, is_redacted=is_redacted):
            return signal
        sealed = self._sealer.seal(self._place(signal), canonical_json(signal.payload))
        beside = {name: signal.payload[name] for name in _SIGNPOSTS if name in signal.payload}
        is_answer = signal.kind is AgentSignalKind.APPROVAL_DECISION
        kept: JsonValue = {"key_id": sealed.key_id, "ciphertext": sealed.ciphertext}
        return replace(signal, payload={**(beside if is_answer else {}), SEALED: kept})

    def opened(self, signal: AgentSignal) -> AgentSignal:
        """The signal as it was sent.

        Raises:
            RecordSealError: it is sealed, and does not open here.
        """
        if SEALED not in signal.payload:
            return signal
        place, sealed = self._place(signal), _sealed_in(signal.payload)
        if sealed is None:
            raise RecordSealError.does_not_open(place, "unknown")
        if self._sealer is None:
            raise RecordSealError.unknown_key(place, sealed.key_id, WAY_OUT)
        return replace(signal, payload=as_object(json.loads(self._sealer.open(place, sealed))))

    def _place(self, signal: AgentSignal) -> SealContext:
        return SealContext(self._run, f"signal:{signal.kind.value}:{signal.id}", JournalStage.AFTER)


def _says_something(signal: AgentSignal, *, is_redacted: bool) -> bool:
    """Whether there is anything in a signal that only its run should read."""
    if signal.kind is AgentSignalKind.APPROVAL_DECISION:
        return any(value is not None for name, value in signal.payload.items() if name not in _SIGNPOSTS)
    return is_redacted and signal.kind.lane is AgentSignalLane.MESSAGE and bool(signal.payload)


def _sealed_in(payload: JsonObject) -> SealedRecord | None:
    found = payload[SEALED]
    if not isinstance(found, Mapping):
        return None
    key_id, ciphertext = found.get("key_id"), found.get("ciphertext")
    if not isinstance(key_id, str) or not isinstance(ciphertext, str):
        return None
    return SealedRecord(key_id, ciphertext)
