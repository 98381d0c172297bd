"""How far may be trusted what was recalled, by the rows that say it: labels survive memory, and replay. Pure.

Replay does not enter an action whose outcome is recorded. What was recalled inside it was known to it all the same,
and to whoever got its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.ports.memory import MemoryItem
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RECALL = "step:memory.recall"
"""What actions are called by which a run recalls something."""

_ORIGIN = frozenset({"memory"})
_PRIVATE = TrustLabel(Integrity.TRUSTED, Confidentiality.TENANT, _ORIGIN)
_UNKNOWN = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, _ORIGIN)


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
