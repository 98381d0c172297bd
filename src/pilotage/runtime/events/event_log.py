"""Event log of a run: the events in the rows of its journal, and the events that wait for the next row. Pure.

The last row of a commit says which events readers got by then, in order; a `TOLD` row does where the commit has no
other row, or the events need room. Successive deltas of one text are one event there, and events that follow from a row
name it (`following`). Events are numbered through the whole run, so a cursor means the same in every process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind, TextId, with_text
from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, JournalStage, RunKey
from pilotage.errors import RunErasedError
from pilotage.jsonvalue import JsonObject, JsonValue, as_integer, as_list, as_object, parsed
from pilotage.runtime.events.event_record import decode_event, log_record
from pilotage.runtime.events.feed import START, EventCursor, PositionedEvent
from pilotage.runtime.events.following import NamedRows, records_of
from pilotage.runtime.events.naming import RecentOutcomes

EVENTS, ITEMS, FIRST = "events", "items", "first"
"""The view of a `TOLD` row: the number of its first event, and events, or items of which some name rows."""

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
    def is_warning(self) -> bool:
        """Whether it warns of a limit: such an event is written once, over all attempts, wherever it came."""
        return self.kind == AgentEventKind.ARTIFACT.value

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


class LogRows:
    """Reads the log of a run from its rows, in their order; holds the rows that the next one may name."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._named = NamedRows()

    def read(self, rows: Iterable[JournalRow]) -> Iterator[LoggedEvent]:
        """Return the events of the next rows, without those of rows that cannot be decoded."""
        for row in rows:
            with suppress(LookupError, TypeError, ValueError):
                yield from self.events_in(row)

    def detach(self) -> None:
        """Let go of the rows that were read."""
        self._named.detach()

    def events_in(self, row: JournalRow) -> Sequence[LoggedEvent]:
        """Return the events in the next row.

        Raises:
            LookupError, TypeError, ValueError: it has another shape, or names a row without such events.
        """
        self._named.add(row)
        if row.stage is JournalStage.TOLD:
            view = as_object(row.view)
            return self._events(row, view[FIRST], as_list(view[EVENTS if EVENTS in view else ITEMS]))
        if not row.events:
            return ()
        first, *items = as_list(parsed(row.events))
        return self._events(row, first, items)

    def pass_over(self, rows: Sequence[JournalRow]) -> None:
        """Take in the next rows, whose events are not read."""
        self._named.add_all(rows)

    def _events(self, row: JournalRow, first: JsonValue, items: Sequence[JsonValue]) -> Sequence[LoggedEvent]:
        named, epoch, number = self._named, row.epoch, as_integer(first)
        events: list[LoggedEvent] = []
        for item in items:
            for record in (item,) if isinstance(item, dict) else records_of(item, named, self._run_id):
                events.append(LoggedEvent(epoch, number, record))
                number += 1
        return events


def logged_events(rows: Iterable[JournalRow], run_id: str) -> Iterator[LoggedEvent]:
    """Return all events of the log in order, without those of rows that cannot be decoded."""
    return LogRows(run_id).read(rows)


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
        self.outcomes = RecentOutcomes()
        """The rows that events may follow from."""
        self._last = last_number
        self._by: AgentEventAttribution | None = None
        self._waiting: list[AgentEvent] = []
        self._growing: TextId | None = None
        self._deltas: list[str] = []
        self._length = 0
        self._written: deque[tuple[int, int, Sequence[AgentEvent]]] = deque()
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

    def add(self, event: AgentEvent, by: AgentEventAttribution) -> int:
        """Add an event to the log of the run `by`; return its number."""
        if self._growing is not None:
            self._join()
            self._growing = None
        self._by = by
        self._last += 1
        self._waiting.append(event)
        return self._last

    def promise(self, event: AgentEvent, by: AgentEventAttribution) -> int:
        """Add an event that readers get after it is durable: the next commit must include it."""
        self.is_promised = True
        return self.add(event, by)

    def grow(self, text: TextId, delta: str) -> tuple[int, int] | None:
        """Append to the growing text; return its number and length, or None if another text is growing."""
        if self._growing != text:
            return None
        self._deltas.append(delta)
        self._length += len(delta)
        return self._last, self._length

    def begin(
        self, text: TextId, event: AgentEvent, delta: str, by: AgentEventAttribution
    ) -> tuple[int, int]:
        """Add the first delta of a text that may grow; return its number and length."""
        number = self.add(event, by)
        self._growing, self._deltas, self._length = text, [delta], len(delta)
        return number, len(delta)

    def write(self, seq: int) -> tuple[int, list[JsonValue]]:
        """Return the waiting events as the items of the row `seq`, after the number of the first one."""
        self._join()
        waiting, self._waiting = self._waiting, []
        self._growing, self.is_promised = None, False
        first = self._last - len(waiting) + 1
        self._written.append((seq, first, waiting))
        items = [] if self._by is None else self.outcomes.items_for(waiting, self._by)
        self.outcomes.drop_large()
        return first, items

    def take_back(self, last: int, seq: int) -> None:
        """Let the events of the last row wait again, without those after the number `last`: it was not committed.

        Nor were the rows after `seq`.
        """
        _, first, events = self._written.pop()
        self._waiting[:0] = [each for number, each in enumerate(events, first) if number <= last]
        self._last = last
        self.outcomes.drop_after(seq)

    def committed(self, seq: int) -> None:
        """Drop the rows up to `seq`: they are durable and are read from the journal."""
        while self._written and self._written[0][0] <= seq:
            self._written.popleft()

    def open_end(self, epoch: int) -> list[LoggedEvent]:
        """Return the events that cannot be read from the journal yet."""
        self._join()
        by = self._by
        if by is None:
            return []
        unwritten = (0, self._last - len(self._waiting) + 1, self._waiting)
        return [
            LoggedEvent(epoch, number, log_record(event, by))
            for _, first, events in (*self._written, unwritten)
            for number, event in enumerate(events, start=first)
        ]

    def _join(self) -> None:
        """Put the growing text into its event. Doing that for every delta would copy a long text again and again."""
        if self._growing is not None and len(self._deltas) > 1:
            text = "".join(self._deltas)
            self._deltas = [text]
            self._waiting[-1] = with_text(self._waiting[-1], text)


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
