"""Signals as they are stored: what people answer, and what may not be read in messages, sealed for their run.

Pure but for the sealer. What others need to find their way, such as which question was answered, stays beside the seal;
what counts is inside it. The place of a seal is the signal, so what was said to one run is said to no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pilotage.agent.ports.journal import JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.agent.sealing_check import WAY_OUT
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json

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
        return replace(signal, payload=cast(JsonObject, json.loads(self._sealer.open(place, sealed))))

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
