"""Live feed of a run's events: cursors, a bounded queue per subscriber, and the transcript of a reader.

Subscribers never slow the run down. Readers get text before it is durable. After a crash the next attempt continues
from the last commit: each event goes to the position of its cursor and replaces everything from there on.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias
from weakref import ref

from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    Delta,
    TextId,
    ToolCallStartEvent,
    delta_of,
    text_of,
    with_text,
)
from pilotage.errors import CallerError
from pilotage.values import value

QUEUE_LIMIT = 256

PositionedEvent: TypeAlias = tuple[int, int, int, AgentEvent]
"""Epoch, number and offset of the cursor after an event, and the event."""

# No run has more events than these digits can count, and parsing a number of any length takes forever.
_CURSOR = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})")
_SHOWN = 60


@value
class EventCursor:
    """A position in the events of a run: epoch and number of the last event read, and how much of its text.

    Numbers continue from one attempt of the run to the next. Events that an attempt could not commit are void: the
    first event of the next attempt names the cursor after which they are.
    """

    epoch: int = 0
    number: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> EventCursor:
        """Return the cursor that `str` wrote.

        Raises:
            CallerError: the text is no cursor.
        """
        found = _CURSOR.fullmatch(text)
        if found is None:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            raise CallerError(
                f"{shown!r} is no cursor of events. Give the cursor of a subscription, or none to read from the start."
            )
        return cls(*map(int, found.groups()))


START = EventCursor()


class Feed:
    """Publishes the live events of one attempt to its subscribers; stores nothing itself."""

    def __init__(self) -> None:
        # Weak references in a tuple: a dropped queue is forgotten, and publishing costs one call per queue.
        self._queues: tuple[ref[SubscriberQueue], ...] = ()
        self.has_subscribers = False
        """Whether there is a subscriber, or was one."""
        self.is_over = False

    def publish(self, event: PositionedEvent) -> None:
        """Put an event into the queue of every subscriber."""
        for queue_ref in self._queues:
            queue = queue_ref()
            if queue is not None:
                queue.put(event)

    def close(self) -> None:
        """End the feed and wake the subscribers."""
        self.is_over = True
        for queue_ref in self._queues:
            if (queue := queue_ref()) is not None:
                queue.wake()

    def subscribe(self, queue: SubscriberQueue) -> None:
        """Put every event from now on into the queue, for as long as its subscriber holds it."""
        self._queues = (*(each for each in self._queues if each() is not None), ref(queue))
        self.has_subscribers = True


class SubscriberQueue:
    """The bounded queue of one subscriber. On overflow it is emptied: the subscriber must catch up from the log."""

    __slots__ = ("__weakref__", "_queue", "_waiter", "has_overflowed")

    def __init__(self) -> None:
        self._queue: deque[PositionedEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.has_overflowed = False

    def put(self, event: PositionedEvent) -> None:
        """Queue an event; costs one append and at most one wake-up."""
        if self.has_overflowed:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._queue.clear()
            self.has_overflowed = True
        else:
            self._queue.append(event)
        if self._waiter is not None:
            wake(self._waiter)

    def take(self) -> PositionedEvent | None:
        """Return the next event, or None if the queue is empty."""
        return self._queue.popleft() if self._queue else None

    def restart(self) -> None:
        """Empty the queue and fill it again from now on; earlier events are read from the log."""
        self._queue.clear()
        self.has_overflowed = False

    async def wait(self) -> None:
        """Wait for an event, an overflow or the end of the feed."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Wake the subscriber that waits."""
        wake(self._waiter)


def wake(waiter: asyncio.Future[None] | None) -> None:
    """Wake a waiting task, if there is one."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def close(stream: AsyncIterator[object] | None) -> Awaitable[None]:
    """Close a stream that can be closed; does nothing for one that has ended."""
    aclose: Callable[[], Awaitable[None]] = getattr(stream, "aclose", _nothing_to_close)
    return aclose()


async def _nothing_to_close() -> None:
    return


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
