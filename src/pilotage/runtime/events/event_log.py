"""Event log of a run: the events in the rows of its journal, and the events that wait for the next row. Pure.

A `TOLD` row holds events in order; successive deltas of one text are one event there. Events are numbered through the
whole run, so a cursor means the same in every process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, repeat
from typing import Any, NamedTuple

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind
from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, JournalStage, RunKey
from pilotage.errors import RunErasedError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_record import decode_event
from pilotage.runtime.events.feed import START, EventCursor, PositionedEvent
from pilotage.runtime.exposure.deltas import TextId, with_text

_ENDS = frozenset({AgentEventKind.RUN_PAUSED.value, AgentEventKind.RUN_FINISHED.value})


class LoggedEvent(NamedTuple):
    """One event of the log with its number and the epoch of the attempt that emitted it.

    The record of a text stores the text apart: `{"event": ..., "text": ...}`. Logs of earlier versions have every
    event in such a frame. A log is long and mostly skipped, so properties decode what is asked for only.
    """

    epoch: int
    number: int
    record: JsonObject

    @property
    def text(self) -> str:
        """The stored text; empty for an event that is no delta."""
        text = self.record.get("text")
        return text if isinstance(text, str) else ""

    @property
    def end(self) -> EventCursor:
        """The cursor of a reader that has read the whole event."""
        return EventCursor(self.epoch, self.number, len(self.text))

    @property
    def encoded(self) -> JsonObject:
        """The record of the event, without its text."""
        framed = self.record.get("event")
        return framed if isinstance(framed, dict) else self.record

    @property
    def kind(self) -> str:
        """The value of the event's `AgentEventKind`."""
        kind = self.encoded.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def is_end(self) -> bool:
        """Whether the run pauses or finishes with it; events of child runs do not count."""
        return self.kind in _ENDS and "by" not in self.encoded

    @property
    def child_run_id(self) -> str | None:
        """The run below that emitted the event; None for the run's own. Cheaper than decoding the event."""
        by = self.encoded.get("by")
        run_id = by[1] if isinstance(by, list) else None
        return run_id if isinstance(run_id, str) else None

    def event(self, by: AgentEventAttribution, offset: int = 0) -> AgentEvent:
        """Return the event, with its text from an offset on."""
        event = decode_event(self.encoded, by)
        return with_text(event, self.text[offset:]) if "text" in self.record else event


def logged_events(rows: Iterable[JournalRow]) -> Iterator[LoggedEvent]:
    """Return all events of the log in order, without those of rows that cannot be decoded."""
    for row in rows:
        if row.stage is JournalStage.TOLD:
            with suppress(LookupError, TypeError):
                yield from items_of(row)


def items_of(row: JournalRow) -> Iterator[LoggedEvent]:
    """Return the events of a `TOLD` row.

    Raises:
        LookupError, TypeError: it has another shape.
    """
    view: Any = row.view
    return map(LoggedEvent, repeat(row.epoch), count(view["first"]), view["events"])


def last_valid(items: Iterable[LoggedEvent], seen: EventCursor) -> EventCursor:
    """Return the reader's cursor, moved back before events that the attempt of its epoch could not commit."""
    end = START
    for item in items:
        if item.epoch <= seen.epoch:
            end = item.end
    return end if (seen.number, seen.offset) > (end.number, end.offset) else seen


def still_needed(items: Sequence[LoggedEvent], seen: EventCursor) -> list[LoggedEvent]:
    """Return the events that a reader at a valid cursor may need: the unread ones, and the last of each epoch."""
    last_of_epoch = {item.epoch: item.number for item in items}
    return [item for item in items if item.number >= seen.number or item.number == last_of_epoch[item.epoch]]


def events_after(
    items: Iterable[LoggedEvent], seen: EventCursor, by: AgentEventAttribution
) -> Iterator[PositionedEvent]:
    """Return the events after a cursor; of a text that was read in part, the rest."""
    for item in items:
        if item.number > seen.number:
            yield (item.epoch, item.number, len(item.text), item.event(by))
        elif item.number == seen.number and len(item.text) > seen.offset:
            yield (item.epoch, item.number, len(item.text), item.event(by, seen.offset))


class PendingEvents:
    """Numbers the events of an attempt and collects them for the next row; deltas of one text grow together."""

    def __init__(self, last_number: int = 0) -> None:
        self._last = last_number
        self._waiting: list[JsonObject] = []
        self._growing: TextId | None = None
        self._deltas: list[str] = []
        self._length = 0
        self._written: deque[tuple[int, int, Sequence[JsonObject]]] = deque()
        self.is_promised = False
        """Whether an event waits that readers get only after it is durable."""

    @property
    def last_number(self) -> int:
        """The number of the last event."""
        return self._last

    @property
    def is_waiting(self) -> bool:
        """Whether an event waits for the next row."""
        return bool(self._waiting)

    def add(self, event: JsonObject) -> int:
        """Add the record of an event; return its number."""
        if self._growing is not None:
            self._join()
            self._growing = None
        self._last += 1
        self._waiting.append(event)
        return self._last

    def promise(self, event: JsonObject) -> int:
        """Add an event that readers get after it is durable: the next commit must include it."""
        self.is_promised = True
        return self.add(event)

    def grow(self, text: TextId, delta: str) -> tuple[int, int] | None:
        """Append to the growing text; return its number and length, or None if another text is growing."""
        if self._growing != text:
            return None
        self._deltas.append(delta)
        self._length += len(delta)
        return self._last, self._length

    def begin(self, text: TextId, event: JsonObject, delta: str) -> tuple[int, int]:
        """Add a text that may grow; return its number and length."""
        number = self.add({"event": event})
        self._growing, self._deltas, self._length = text, [delta], len(delta)
        return number, len(delta)

    def write(self, seq: int) -> JsonObject:
        """Return the waiting events as the content of the row `seq`."""
        self._join()
        waiting, self._waiting = self._waiting, []
        self._growing, self.is_promised = None, False
        first = self._last - len(waiting) + 1
        self._written.append((seq, first, waiting))
        return {"first": first, "events": waiting}

    def take_back(self, last: int) -> None:
        """Let the events of the last row wait again, without those after the number `last`: it was not committed."""
        _, first, records = self._written.pop()
        self._waiting[:0] = [each for number, each in enumerate(records, first) if number <= last]
        self._last = last

    def committed(self, seq: int) -> None:
        """Drop the rows up to `seq`: they are durable and are read from the journal."""
        while self._written and self._written[0][0] <= seq:
            self._written.popleft()

    def open_end(self, epoch: int) -> list[LoggedEvent]:
        """Return the events that cannot be read from the journal yet."""
        self._join()
        unwritten = (0, self._last - len(self._waiting) + 1, self._waiting)
        return [
            LoggedEvent(epoch, number, record)
            for _, first, records in (*self._written, unwritten)
            for number, record in enumerate(records, start=first)
        ]

    def _join(self) -> None:
        """Put the growing text into its record. Doing that for every delta would copy a long text again and again."""
        if self._growing is not None:
            text = "".join(self._deltas)
            self._deltas = [text]
            self._waiting[-1] = {**self._waiting[-1], "text": text}


def is_erased(row: JournalRow) -> bool:
    """Return whether the payloads of a row were erased."""
    return not row.is_plain and isinstance(row.record, ErasedRecord)


def refuse_erased(run: RunKey, rows: Iterable[JournalRow]) -> None:
    """Refuse rows whose payloads were erased.

    Raises:
        RunErasedError: there is such a row.
    """
    if any(map(is_erased, rows)):
        raise RunErasedError(f"the payloads of run {run.run_id!r} were erased. Its state can still be read.")
