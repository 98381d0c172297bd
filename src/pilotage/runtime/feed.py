"""What a live run tells its subscribers. Leaving a subscription never touches the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from pilotage.agent.events import AgentEvent


class Feed:
    """The events of one attempt in order; every subscriber reads from its own cursor."""

    def __init__(self) -> None:
        self._events: list[AgentEvent] = []
        self._is_over = False
        self._news = asyncio.Event()

    def publish(self, event: AgentEvent) -> None:
        """Tell everybody; costs one append and at most one wake-up."""
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """There will be no more."""
        self._is_over = True
        self._wake()

    async def events(self, after: int = 0) -> AsyncGenerator[AgentEvent, None]:
        """The events from a cursor on, until the attempt is over."""
        cursor = after
        while True:
            news = self._news
            while cursor < len(self._events):
                yield self._events[cursor]
                cursor += 1
            if self._is_over:
                return
            if cursor >= len(self._events) and news is self._news:
                await news.wait()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
