"""The end of a run's log of events that is not durable yet: what waits for the next row, what waits for its commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pilotage.jsonvalue import JsonObject
from pilotage.runtime.stream.deltas import TextId
from pilotage.runtime.stream.told import ToldItem


class ToldLog:
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

    def open_end(self, epoch: int) -> list[ToldItem]:
        """What was told and cannot be read from the journal yet."""
        self._join()
        items = [
            ToldItem(epoch, number, record)
            for _, first, records in self._written
            for number, record in enumerate(records, start=first)
        ]
        first = self._last - len(self._waiting) + 1
        return items + [ToldItem(epoch, n, record) for n, record in enumerate(self._waiting, start=first)]

    def _join(self) -> None:
        """Put the growing text into its record. Doing that for every piece would copy a long text again and again."""
        if self._growing is not None:
            text = "".join(self._pieces)
            self._pieces = [text]
            self._waiting[-1] = {**self._waiting[-1], "text": text}
