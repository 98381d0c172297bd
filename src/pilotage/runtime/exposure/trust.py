"""Trust labels of runs: the label a run starts with, labels in records, labels of recalled memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pilotage.agent.ports.memory import MemoryItem
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RUN_INPUT = TrustLabel(Integrity.USER, Confidentiality.TENANT, frozenset({"run input"}))
"""The label a run starts with: the user's words are private to the tenant.

Tools may look things up with them, until untrusted content could decide what leaves.
"""

RECALL = "step:memory.recall"
"""The label in the step ids of actions that recall memory."""

_OUTCOMES = frozenset({JournalStage.AFTER, JournalStage.FOLDED})
_TRUST = "trust"
_ORIGIN = frozenset({"memory"})
_PRIVATE = TrustLabel(Integrity.TRUSTED, Confidentiality.TENANT, _ORIGIN)
_UNKNOWN = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, _ORIGIN)


def with_label(record: JsonObject, label: TrustLabel) -> JsonObject:
    """Return a record with its trust label; the label that every run starts with is left out."""
    return record if label == RUN_INPUT else labelled(record, label)


def labelled(record: JsonObject, label: TrustLabel) -> JsonObject:
    """Return a record with its trust label, whatever the label is."""
    return {**record, _TRUST: label.to_payload()}


def label_to_keep(label: TrustLabel) -> TrustLabel:
    """Return the label to store with a turn of a conversation; the label every run starts with becomes neutral."""
    return TrustLabel() if label == RUN_INPUT else label


def label_in(record: JsonObject) -> TrustLabel:
    """Return the label that `with_label` wrote; the neutral label if there is none."""
    return _decode_label(record[_TRUST]) if _TRUST in record else TrustLabel()


def label_of_items(items: Iterable[MemoryItem]) -> TrustLabel:
    """Return the label of a run that has read the items: memory is private, whatever it was learned from."""
    labels = [item.label for item in items]
    return TrustLabel.join_all((_PRIVATE, *labels)) if labels else TrustLabel()


def label_of_rows(rows: Iterable[JournalRow]) -> TrustLabel:
    """Return the label of a run that has got the recorded outcomes: their own labels, and those of recalled memory."""
    outcomes = [row for row in rows if row.stage in _OUTCOMES]
    labels = [label_in(record) for row in outcomes for record in _labelled_parts(row)]
    return TrustLabel.join_all((*labels, *(_label_of(row) for row in outcomes if _recalls(row))))


def _labelled_parts(row: JournalRow) -> list[JsonObject]:
    """Return the parts of a record that may have a label: itself, and what a child has ended with."""
    record = row.record
    if not isinstance(record, Mapping):
        return []
    ended = record.get("result") if row.kind is AgentActionKind.DELEGATION else None
    return [record, ended] if isinstance(ended, Mapping) else [record]


def _recalls(row: JournalRow) -> bool:
    return row.action_id.rpartition("/")[2].startswith(f"{RECALL}#")


def _label_of(row: JournalRow) -> TrustLabel:
    """Return the label of recalled items; a record that cannot be read gets the strictest label."""
    match row.record:
        case {"error": _} | {"result": []}:
            return TrustLabel()
        case {"result": [*items]}:
            try:
                labels = [_decode_label(item["label"]) for item in items if isinstance(item, Mapping)]
            except (AgentDefinitionError, KeyError):
                return _UNKNOWN
            return TrustLabel.join_all((_PRIVATE, *labels)) if len(labels) == len(items) else _UNKNOWN
        case _:
            return _UNKNOWN


def _decode_label(payload: JsonValue) -> TrustLabel:
    return TrustLabel.from_payload(payload if isinstance(payload, Mapping) else {})
