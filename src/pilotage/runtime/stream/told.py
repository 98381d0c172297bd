"""The log of what a run told, as rows of its journal and back. Pure.

A TOLD row holds events in the order they were told; pieces of one text are one event there. Events are numbered
through the whole run, so a reader's cursor means the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple, cast

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind
from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.stream.cursor import START, EventCursor
from pilotage.runtime.stream.deltas import with_text
from pilotage.runtime.stream.event_record import decode_event
from pilotage.runtime.stream.feed import Told

_ENDS = frozenset({AgentEventKind.RUN_PAUSED.value, AgentEventKind.RUN_FINISHED.value})


class ToldItem(NamedTuple):
    """One event of the log with its number and the epoch of the owner who told it.

    The text of a piece of one stands apart: `{"event": ..., "text": ...}`. Logs of earlier versions have every event in
    such a frame.
    """

    epoch: int
    number: int
    record: JsonObject

    @property
    def text(self) -> str:
        """The text of an event that is a piece of one."""
        return cast(str, self.record.get("text", ""))

    @property
    def end(self) -> EventCursor:
        """Where a reader stands who has read all of it."""
        return EventCursor(self.epoch, self.number, len(self.text))

    @property
    def encoded(self) -> JsonObject:
        """The event as it was kept, without its text."""
        return cast(JsonObject, self.record.get("event", self.record))

    @property
    def kind(self) -> str:
        """The kind of the event, in the word of `AgentEventKind`."""
        return cast(str, self.encoded.get("kind"))

    @property
    def is_end(self) -> bool:
        """Whether the run's stream ends with it; what its children tell does not end it."""
        return self.kind in _ENDS and "by" not in self.encoded

    @property
    def teller(self) -> str | None:
        """The run below that told it first; None where it is of the run itself. Cheaper than the whole event."""
        whose = self.encoded.get("by")
        return None if whose is None else cast("Sequence[str]", whose)[1]

    def event(self, by: AgentEventAttribution, offset: int = 0) -> AgentEvent:
        """The event, its text from an offset on."""
        event = decode_event(self.encoded, by)
        return with_text(event, self.text[offset:]) if "text" in self.record else event


def told_items(rows: Iterable[JournalRow]) -> Iterator[ToldItem]:
    """Everything that was told, in order."""
    for row in rows:
        if row.stage is JournalStage.TOLD:
            yield from items_of(row)


def items_of(row: JournalRow) -> Iterator[ToldItem]:
    """What a row says was told."""
    said: Any = row.view
    return map(ToldItem, repeat(row.epoch), count(said["first"]), said["events"])


def last_valid(items: Iterable[ToldItem], seen: EventCursor) -> EventCursor:
    """What counts of what a reader has seen: what its teller could not commit never happened."""
    end = START
    for item in items:
        if item.epoch <= seen.epoch:
            end = item.end
    return end if (seen.number, seen.offset) > (end.number, end.offset) else seen


def still_needed(items: Sequence[ToldItem], seen: EventCursor) -> list[ToldItem]:
    """What a reader that stands at a valid cursor may ask for again: the rest, and the last of each owner."""
    last_of_owner = {item.epoch: item.number for item in items}
    return [item for item in items if item.number >= seen.number or item.number == last_of_owner[item.epoch]]


def events_after(items: Iterable[ToldItem], seen: EventCursor, by: AgentEventAttribution) -> Iterator[Told]:
    """What a reader has missed; of a text it has read in part, the rest."""
    for item in items:
        if item.number > seen.number:
            yield (item.epoch, item.number, len(item.text), item.event(by))
        elif item.number == seen.number and len(item.text) > seen.offset:
            yield (item.epoch, item.number, len(item.text), item.event(by, seen.offset))
