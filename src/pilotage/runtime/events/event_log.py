"""The log of what a run told, as rows of its journal and back. Pure.

A TOLD row holds events in the order they were told; pieces of one text are one event there. Events are numbered
through the whole run, so a reader's cursor means the same in every process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple, cast

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind
from pilotage.agent.ports.journal import ErasedRecord, JournalRow, JournalStage, RunKey
from pilotage.errors import RunErasedError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_record import decode_event
from pilotage.runtime.events.feed import START, EventCursor, PositionedEvent
from pilotage.runtime.exposure.pieces import TextId, with_text

_ENDS = frozenset({AgentEventKind.RUN_PAUSED.value, AgentEventKind.RUN_FINISHED.value})


class LoggedEvent(NamedTuple):
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


def logged_events(rows: Iterable[JournalRow]) -> Iterator[LoggedEvent]:
    """Everything that was told, in order."""
    for row in rows:
        if row.stage is JournalStage.TOLD:
            yield from items_of(row)


def items_of(row: JournalRow) -> Iterator[LoggedEvent]:
    """What a row says was told."""
    said: Any = row.view
    return map(LoggedEvent, repeat(row.epoch), count(said["first"]), said["events"])


def last_valid(items: Iterable[LoggedEvent], seen: EventCursor) -> EventCursor:
    """What counts of what a reader has seen: what its teller could not commit never happened."""
    end = START
    for item in items:
        if item.epoch <= seen.epoch:
            end = item.end
    return end if (seen.number, seen.offset) > (end.number, end.offset) else seen


def still_needed(items: Sequence[LoggedEvent], seen: EventCursor) -> list[LoggedEvent]:
    """What a reader that stands at a valid cursor may ask for again: the rest, and the last of each owner."""
    last_of_owner = {item.epoch: item.number for item in items}
    return [item for item in items if item.number >= seen.number or item.number == last_of_owner[item.epoch]]


def events_after(
    items: Iterable[LoggedEvent], seen: EventCursor, by: AgentEventAttribution
) -> Iterator[PositionedEvent]:
    """What a reader has missed; of a text it has read in part, the rest."""
    for item in items:
        if item.number > seen.number:
            yield (item.epoch, item.number, len(item.text), item.event(by))
        elif item.number == seen.number and len(item.text) > seen.offset:
            yield (item.epoch, item.number, len(item.text), item.event(by, seen.offset))


class PendingEvents:
    """Numbers what is told. Pieces of one text grow together until they are written."""

    def __init__(self, last_number: int = 0) -> None:
        self._last = last_number
        self._waiting: list[JsonObject] = []
        self._growing: TextId | None = None
        self._pieces: list[str] = []
        self._length = 0
        self._written: deque[tuple[int, int, Sequence[JsonObject]]] = deque()
        self.is_promised = False
        """Whether something waits that nobody may be told before it is durable."""

    @property
    def last_number(self) -> int:
        """The number of the last event."""
        return self._last

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for the next row."""
        return bool(self._waiting)

    def add(self, event: JsonObject) -> int:
        """Add an event and give its number."""
        if self._growing is not None:
            self._join()
            self._growing = None
        self._last += 1
        self._waiting.append(event)
        return self._last

    def promise(self, event: JsonObject) -> int:
        """Add an event that is told when it is durable: the next commit must not leave it out."""
        self.is_promised = True
        return self.add(event)

    def grow(self, text: TextId, piece: str) -> tuple[int, int] | None:
        """Add a piece to the text that is growing: its number and its length; None where another must begin."""
        if self._growing != text:
            return None
        self._pieces.append(piece)
        self._length += len(piece)
        return self._last, self._length

    def begin(self, text: TextId, event: JsonObject, piece: str) -> tuple[int, int]:
        """Begin a text that may grow: its number and its length."""
        number = self.add({"event": event})
        self._growing, self._pieces, self._length = text, [piece], len(piece)
        return number, len(piece)

    def write(self, seq: int) -> JsonObject:
        """What waits, as the record of a row of this number."""
        self._join()
        waiting, self._waiting = self._waiting, []
        self._growing, self.is_promised = None, False
        first = self._last - len(waiting) + 1
        self._written.append((seq, first, waiting))
        return {"first": first, "events": waiting}

    def committed(self, seq: int) -> None:
        """Everything up to this row is durable, and is read from the journal from now on."""
        while self._written and self._written[0][0] <= seq:
            self._written.popleft()

    def open_end(self, epoch: int) -> list[LoggedEvent]:
        """What was told and cannot be read from the journal yet."""
        self._join()
        items = [
            LoggedEvent(epoch, number, record)
            for _, first, records in self._written
            for number, record in enumerate(records, start=first)
        ]
        first = self._last - len(self._waiting) + 1
        return items + [LoggedEvent(epoch, n, record) for n, record in enumerate(self._waiting, start=first)]

    def _join(self) -> None:
        """Put the growing text into its record. Doing that for every piece would copy a long text again and again."""
        if self._growing is not None:
            text = "".join(self._pieces)
            self._pieces = [text]
            self._waiting[-1] = {**self._waiting[-1], "text": text}


def is_erased(row: JournalRow) -> bool:
    """Whether the payloads of a row were erased."""
    return not row.is_plain and isinstance(row.record, ErasedRecord)


def refuse_erased(run: RunKey, rows: Iterable[JournalRow]) -> None:
    """Refuse to go on with rows that say nothing.

    Raises:
        RunErasedError: there is such a row.
    """
    if any(map(is_erased, rows)):
        raise RunErasedError(
            f"what run {run.run_id!r} said was erased. Its state, and that it took place, can still be read."
        )
