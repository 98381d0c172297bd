"""The record of signals that a run has taken in at a boundary. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    contract_value,
    count_field,
    list_field,
    object_or_empty,
    texts_field,
)
from pilotage.values import value


@value
class TranscriptPlace:
    """Where signals were taken in for a model: `at` is the number of messages before them.

    `handled` are the ids of the signals that went to handlers and are not part of the transcript.
    """

    at: int
    handled: tuple[str, ...] = ()


@value
class TakenSignals:
    """Signals taken in at one boundary, in order; without a place where the program waited for one of a kind."""

    signals: tuple[AgentSignal, ...]
    place: TranscriptPlace | None = None

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        record: dict[str, JsonValue] = {words.RESULT: [to_json_value(signal) for signal in self.signals]}
        if self.place is not None:
            record[words.AT] = self.place.at
            record[words.HANDLED] = list(self.place.handled)
        return record

    @classmethod
    def decode(cls, record: JsonObject) -> TakenSignals:
        """Return what `encode` wrote."""
        signals = tuple(contract_value(AgentSignal, each) for each in list_field(record, words.RESULT))
        if words.AT not in record:
            return cls(signals)
        return cls(
            signals, TranscriptPlace(count_field(record, words.AT), texts_field(record, words.HANDLED))
        )


def taken_ids(row: JournalRow) -> Iterator[str]:
    """Return the ids of the signals that the view of a row says were taken in."""
    taken = object_or_empty(row.view).get(words.RESULT) if row.kind is AgentActionKind.SIGNAL else None
    for signal in taken if isinstance(taken, (list, tuple)) else ():
        signal_id = signal.get(words.ID) if isinstance(signal, dict) else None
        if isinstance(signal_id, str):
            yield signal_id
