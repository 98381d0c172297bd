"""Transcript of a run's events: texts joined, void and superseded events left out. Pure.

Readers get text before it is durable. After a crash the next attempt continues from the last commit: each event goes
to the position of its cursor and replaces everything that the reader had from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotage.agent.events import AgentEvent, ToolCallStartEvent
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.exposure.deltas import SUPERSEDED, Delta, TextId, delta_of, text_of, with_text


class Transcript:
    """Collects the events of a run over any number of subscriptions, each with the cursor after it.

    `async for event in subscription: transcript.add(event, subscription.cursor)`
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, AgentEvent]] = []
        self.cursor: str | None = None

    def add(self, event: AgentEvent, cursor: str) -> None:
        """Add an event and drop those that it replaces.

        Raises:
            CallerError: `cursor` is no cursor.
        """
        at = EventCursor.parse(cursor)
        delta = delta_of(event)
        begin = at.offset - len(delta[1]) if delta and at.offset else 0
        self._drop_from(at.number, begin)
        self._entries.append((at.number, begin, event))
        self.cursor = cursor

    @property
    def events(self) -> list[AgentEvent]:
        """The valid events, with successive deltas joined."""
        return joined(event for _, _, event in self._entries)

    def _drop_from(self, number: int, begin: int) -> None:
        while self._entries and self._entries[-1][:2] >= (number, begin):
            self._entries.pop()
        if self._entries and self._entries[-1][0] == number:
            self._cut(begin)

    def _cut(self, end: int) -> None:
        """Cut the last text at an offset."""
        number, begin, event = self._entries[-1]
        delta = delta_of(event)
        if delta is not None and begin + len(delta[1]) > end:
            self._entries[-1] = (number, begin, with_text(event, delta[1][: end - begin]))


def joined(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """Return the events that are not superseded, with successive deltas of one text joined."""
    result: list[AgentEvent] = []
    for event in _without_superseded(list(events)):
        delta, last = _plain_delta(event), _plain_delta(result[-1]) if result else None
        if delta is not None and last is not None and delta[0] == last[0]:
            result[-1] = with_text(event, last[1] + delta[1])
        else:
            result.append(event)
    return result


def _without_superseded(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """Return the events without the marks, and without the texts and tool calls that a later mark supersedes."""
    result: list[AgentEvent] = []
    superseded: set[TextId] = set()
    for event in reversed(events):
        text = text_of(event)
        if text is not None and event.metadata.get(SUPERSEDED):
            superseded.add(text)
        elif text is None or text not in superseded:
            result.append(event)
        elif isinstance(event, ToolCallStartEvent):
            # A repeated call may have the same id: the mark supersedes the events back to one start.
            superseded.discard(text)
    return result[::-1]


def _plain_delta(event: AgentEvent) -> Delta | None:
    return None if event.metadata else delta_of(event)
