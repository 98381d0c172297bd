"""What a reader of a run's events has by now: texts joined, what is void or superseded left out. Pure.

A reader sees text before it is durable. Where the process that told it dies, the next one goes on from what was
committed: every event goes to the place that its cursor names, and what a reader held from there on is void.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotage.agent.events import (
    AgentEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.runtime.events.catch_up import SUPERSEDED
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.exposure.pieces import TextId, piece_of, with_text

_Held = tuple[int, int, AgentEvent]


class Transcript:
    """Takes each event of a subscription with the cursor behind it, over any number of subscriptions.

    `async for event in subscription: transcript.add(event, subscription.cursor)`
    """

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self.cursor: str | None = None

    def add(self, event: AgentEvent, cursor: str) -> None:
        """Take an event in.

        Raises:
            CallerError: `cursor` is no cursor.
        """
        at = EventCursor.parse(cursor)
        piece = piece_of(event)
        begin = at.offset - len(piece[1]) if piece and at.offset else 0
        self._drop_from(at.number, begin)
        self._held.append((at.number, begin, event))
        self.cursor = cursor

    @property
    def events(self) -> list[AgentEvent]:
        """What counts of it."""
        return joined(event for _, _, event in self._held)

    def _drop_from(self, number: int, begin: int) -> None:
        while self._held and self._held[-1][:2] >= (number, begin):
            self._held.pop()
        if self._held and self._held[-1][0] == number:
            self._cut(begin)

    def _cut(self, end: int) -> None:
        """Of the text held last, only what stands before an offset counts."""
        number, begin, event = self._held[-1]
        piece = piece_of(event)
        if piece is not None and begin + len(piece[1]) > end:
            self._held[-1] = (number, begin, with_text(event, piece[1][: end - begin]))


def joined(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """Events without what is superseded; pieces of one text that follow one another are one event."""
    together: list[AgentEvent] = []
    for event in without_superseded(list(events)):
        text, last = _plain_piece(event), _plain_piece(together[-1]) if together else None
        if text is not None and last is not None and text[0] == last[0]:
            together[-1] = with_text(event, last[1] + text[1])
        else:
            together.append(event)
    return together


def without_superseded(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """Events without the texts and calls that are marked later on, and without the marks."""
    kept: list[AgentEvent] = []
    marked: set[TextId] = set()
    for event in reversed(events):
        about = _about(event)
        if about is not None and event.metadata.get(SUPERSEDED):
            marked.add(about)
        elif about is None or about not in marked:
            kept.append(event)
        elif isinstance(event, ToolCallStartEvent):
            # A call that is asked for again may have the same id: the mark reaches back to the start of one.
            marked.discard(about)
    return kept[::-1]


def _plain_piece(event: AgentEvent) -> tuple[TextId, str] | None:
    return None if event.metadata else piece_of(event)


def _about(event: AgentEvent) -> TextId | None:
    """The text or the call that an event is a part of."""
    match event:
        case ToolCallStartEvent() | ToolCallArgsDeltaEvent() | ToolCallEndEvent() | ToolCallResultEvent():
            return ("call", event.attribution.run_id, event.call_id)
        case _:
            piece = piece_of(event)
            return piece[0] if piece else None
