"""The state that a run shares with its clients: its changes, as events and in recorded rows, and its value. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, cast

from pilotage.agent.context import ContextPackRole
from pilotage.agent.events import AgentEvent, AgentEventAttribution, StateDeltaEvent, StateSnapshotEvent
from pilotage.agent.json_patch import PatchDoesNotFitError, patched
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.run_values import AgentContext
from pilotage.agent.yields import State, StatePatch
from pilotage.jsonvalue import JsonObject, JsonValue, parsed
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


def recorded_changes(rows: Iterable[JournalRow]) -> Iterator[tuple[JournalRow, JsonObject]]:
    """Return the changes in rows of outcomes, each with its row."""
    for row in rows:
        if _LABEL in row.action_id and isinstance(change := decode_row(row, _result), Mapping):
            yield row, cast("Mapping[str, Any]", change)


def _result(record: JsonObject) -> object:
    return record.get(words.RESULT)


def given_state(context: AgentContext | None) -> JsonValue:
    """Return the state that the caller of a run gave: the JSON of the first context pack of that role, else {}."""
    for pack in context.packs if context is not None else ():
        if pack.role is ContextPackRole.STATE:
            try:
                return parsed(pack.content)
            except (ValueError, RecursionError):
                continue
    return {}


class SharedState:
    """The value of the shared state in one attempt: the caller's state with all changes, in the order of the record.

    A patch that does not fit changes nothing, as at the clients that apply it. A change that replay gives again has the
    number of its row: calls that ran at the same time are replayed one after the other.
    """

    def __init__(self, given: Callable[[], JsonValue]) -> None:
        self._given = given
        self._changes: list[tuple[float, int, JsonObject]] = []
        self._at: float = 0
        self._applied = 0
        self._value: JsonValue = None

    def change(self, change: JsonObject, seq: float | None = inf) -> None:
        """Add a change by the number of its row; None for one without a row, which follows the one before."""
        self._at = at = self._at if seq is None else max(seq, self._at)
        entry = (at if seq is None else seq, len(self._changes), change)
        if self._changes and entry[:2] < self._changes[-1][:2]:
            self._applied = 0
        insort(self._changes, entry, key=_place)

    def read(self) -> JsonValue:
        """Return the state after all changes so far."""
        if not self._applied:
            self._value = self._given()
        for _, _, change in self._changes[self._applied :]:
            self._value = _changed(self._value, change)
        self._applied = len(self._changes)
        return self._value


def _place(entry: tuple[float, int, JsonObject]) -> tuple[float, int]:
    return entry[:2]


def _changed(state: JsonValue, change: JsonObject) -> JsonValue:
    if _SNAPSHOT in change:
        return change[_SNAPSHOT]
    try:
        return patched(state, cast("Iterable[JsonObject]", change[_PATCH]))
    except PatchDoesNotFitError:
        return state
