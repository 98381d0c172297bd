"""How far what a record holds may be trusted: the label a run starts with, labels in records. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.ports.memory import MemoryItem
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RUN_INPUT = TrustLabel(Integrity.USER, Confidentiality.PUBLIC, frozenset({"run input"}))
"""The label a run starts with. What users send is to be worked with, look-ups included: it is not private by itself."""

_TRUST = "trust"


def with_label(record: JsonObject, label: TrustLabel) -> JsonObject:
    """A record that says how far what it holds may be trusted; what every run starts with is not worth a word."""
    return record if label == RUN_INPUT else {**record, _TRUST: label.to_payload()}


def label_to_keep(label: TrustLabel) -> TrustLabel:
    """The label as it is kept with a turn of a conversation: neutral where it says no more than every run does."""
    return TrustLabel() if label == RUN_INPUT else label


def label_in(record: JsonObject) -> TrustLabel:
    """The label that `with_label` wrote, to be joined with what is known already."""
    return TrustLabel.from_payload(cast(JsonObject, record[_TRUST])) if _TRUST in record else TrustLabel()


RECALL = "step:memory.recall"
"""What actions are called by which a run recalls something."""

_ORIGIN = frozenset({"memory"})
_PRIVATE = TrustLabel(Integrity.TRUSTED, Confidentiality.TENANT, _ORIGIN)
_UNKNOWN = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, _ORIGIN)


def label_after_tool(label: TrustLabel, tool: AgentToolDescriptor) -> TrustLabel:
    """Return the label of a program once it knows the tool's result."""
    return label if tool.result_label is None else label.join(tool.result_label)


def label_of_items(items: Iterable[MemoryItem]) -> TrustLabel:
    """The label of who has read the items: what is remembered of somebody is private, whatever it was learned from."""
    labels = [item.label for item in items]
    return TrustLabel.join_all((_PRIVATE, *labels)) if labels else TrustLabel()


def label_of_recalled(rows: Iterable[JournalRow]) -> TrustLabel:
    """What the rows leave known, as far as they recall anything."""
    recalled = [row for row in rows if row.stage is JournalStage.AFTER and _recalls(row)]
    return TrustLabel.join_all(map(_label_of, recalled))


def _recalls(row: JournalRow) -> bool:
    return row.action_id.rpartition("/")[2].startswith(f"{RECALL}#")


def _label_of(row: JournalRow) -> TrustLabel:
    """Of a record that cannot be read nobody knows what it brought in: the worst is assumed."""
    record = row.record if isinstance(row.record, dict) else {}
    if "error" in record:
        return TrustLabel()
    items = cast("list[dict[str, JsonValue]]", record.get("result"))
    if items == []:
        return TrustLabel()
    try:
        labels = [TrustLabel.from_payload(cast(JsonObject, item["label"])) for item in items]
    except (AgentDefinitionError, KeyError, TypeError):
        return _UNKNOWN
    return TrustLabel.join_all((_PRIVATE, *labels))
