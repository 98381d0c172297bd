"""The state that a run shares with its clients: the events of its changes, and the changes in recorded rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pilotage.agent.events import AgentEvent, AgentEventAttribution, StateDeltaEvent, StateSnapshotEvent
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.yields import State, StatePatch
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.projections import ITEM_FIELDS
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import decode_row

_SNAPSHOT, _PATCH = "snapshot", "patch"
_LABEL = f"/{words.SHARED_STATE}{words.ORDINAL}"


def change_of(item: State | StatePatch) -> JsonObject:
    """Return a change as its row holds it."""
    return {_SNAPSHOT: item.snapshot} if isinstance(item, State) else {_PATCH: item.operations}


def event_of(change: JsonObject, action_id: str, by: AgentEventAttribution) -> AgentEvent:
    """Return the event of a change; with the id of its action it differs from all others of the run."""
    metadata: JsonObject = {ITEM_FIELDS: {"action": action_id}}
    if _SNAPSHOT in change:
        return StateSnapshotEvent(by, change[_SNAPSHOT], metadata)
    return StateDeltaEvent(by, change[_PATCH], metadata)


def state_events_in(rows: Iterable[JournalRow], by: AgentEventAttribution) -> Iterator[AgentEvent]:
    """Return the events of the changes in rows of outcomes."""
    for row in rows:
        if _LABEL in row.action_id and isinstance(change := decode_row(row, _result), Mapping):
            yield event_of(cast("Mapping[str, Any]", change), row.action_id, by)


def _result(record: JsonObject) -> object:
    return record.get(words.RESULT)
