"""Trust labels of runs: the label a run starts with, labels in records, labels of recalled memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.ports.memory import MemoryItem
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RUN_INPUT = TrustLabel(Integrity.USER, Confidentiality.PUBLIC, frozenset({"run input"}))
"""The label a run starts with. User input is not private by itself: tools may look things up with it."""

RECALL = "step:memory.recall"
"""The label in the step ids of actions that recall memory."""

_TRUST = "trust"
_ORIGIN = frozenset({"memory"})
_PRIVATE = TrustLabel(Integrity.TRUSTED, Confidentiality.TENANT, _ORIGIN)
_UNKNOWN = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, _ORIGIN)


def with_label(record: JsonObject, label: TrustLabel) -> JsonObject:
    """Return a record with its trust label; the label that every run starts with is left out."""
    return record if label == RUN_INPUT else {**record, _TRUST: label.to_payload()}


def label_to_keep(label: TrustLabel) -> TrustLabel:
    """Return the label to store with a turn of a conversation; the label every run starts with becomes neutral."""
    return TrustLabel() if label == RUN_INPUT else label


def label_in(record: JsonObject) -> TrustLabel:
    """Return the label that `with_label` wrote; the neutral label if there is none."""
    return _decode_label(record[_TRUST]) if _TRUST in record else TrustLabel()


def label_after_tool(label: TrustLabel, tool: AgentToolDescriptor) -> TrustLabel:
    """Return the label of a program once it knows the tool's result."""
    return label if tool.result_label is None else label.join(tool.result_label)


def label_of_items(items: Iterable[MemoryItem]) -> TrustLabel:
    """Return the label of a run that has read the items: memory is private, whatever it was learned from."""
    labels = [item.label for item in items]
    return TrustLabel.join_all((_PRIVATE, *labels)) if labels else TrustLabel()


def label_of_recalled(rows: Iterable[JournalRow]) -> TrustLabel:
    """Return the label of a run that has read the memory that the rows recall."""
    recalled = [row for row in rows if row.stage is JournalStage.AFTER and _recalls(row)]
    return TrustLabel.join_all(map(_label_of, recalled))


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
