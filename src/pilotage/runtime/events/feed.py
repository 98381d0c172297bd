"""What a live run tells whoever listens. Leaving never touches the run, and being slow only costs the slow."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias
from weakref import ref

from pilotage.agent.events import AgentEvent
from pilotage.errors import CallerError
from pilotage.values import value

QUEUE_LIMIT = 256

PositionedEvent: TypeAlias = tuple[int, int, int, AgentEvent]
"""Where a reader stands who has read an event (epoch, number, offset), and the event."""


class Feed:
    """The live end of a run's events. It holds nothing itself: each listener has a bounded queue of its own."""

    def __init__(self) -> None:
        # Weak references in a tuple: a listener that is dropped is forgotten, and telling costs one call each.
        self._listeners: tuple[ref[SubscriberQueue], ...] = ()
        self.is_over = False

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens, or did."""
        return bool(self._listeners)

    def publish(self, told: PositionedEvent) -> None:
        """Tell everybody who listens."""
        for heard in self._listeners:
            listener = heard()
            if listener is not None:
                listener.put(told)

    def close(self) -> None:
        """There will be no more."""
        self.is_over = True
        for heard in self._listeners:
            if (listener := heard()) is not None:
                listener.wake()

    def listen(self, listener: SubscriberQueue) -> None:
        """From now on the listener is told; one that is dropped is forgotten."""
        self._listeners = (*(heard for heard in self._listeners if heard() is not None), ref(listener))


class SubscriberQueue:
    """One bounded queue. Where it runs over it is emptied: the reader has fallen behind and must catch up."""

    __slots__ = ("__weakref__", "_queue", "_waiter", "has_fallen_behind")

    def __init__(self) -> None:
        self._queue: deque[PositionedEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.has_fallen_behind = False

    def put(self, told: PositionedEvent) -> None:
        """Queue an event; costs one append and at most one wake-up."""
        if self.has_fallen_behind:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._queue.clear()
            self.has_fallen_behind = True
        else:
            self._queue.append(told)
        if self._waiter is not None:
            release(self._waiter)

    def take(self) -> PositionedEvent | None:
        """The next event, or None where there is none at the moment."""
        return self._queue.popleft() if self._queue else None

    def start_over(self) -> None:
        """Queue from here on; what was told so far is read elsewhere."""
        self._queue.clear()
        self.has_fallen_behind = False

    async def wait(self) -> None:
        """Return when something has happened."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Let whoever waits look again."""
        release(self._waiter)


def release(waiting: asyncio.Future[None] | None) -> None:
    """Let somebody go on who waits, if anybody does."""
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


# No run tells more than this many digits can count, and reading a number of any length takes forever.
_CURSOR = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})")
_SHOWN = 60


@value
class EventCursor:
    """The last event seen: who told it, its number in the run, and how much of its text was read.

    Numbers go on from one owner of the run to the next. What an owner told and could not commit is void: the next
    owner's first event says from which cursor on.
    """

    epoch: int = 0
    number: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> EventCursor:
        """The cursor that `str` wrote.

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


async def close(stream: AsyncIterator[object] | None) -> None:
    """Close a stream that can be closed; for one that has ended this does nothing."""
    aclose: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()
