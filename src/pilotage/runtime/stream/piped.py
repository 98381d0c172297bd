"""What a run tells that nobody keeps: straight to its one reader, for there is no log to catch up from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

from pilotage.agent.events import AgentEvent
from pilotage.runtime.stream.exposure import Exposure
from pilotage.runtime.stream.feed import QUEUE_LIMIT, release
from pilotage.runtime.stream.telling import Telling

_MOST_WAITING = QUEUE_LIMIT // 2
"""What a reader has taken and what waits behind it are within the limit together."""


class PipedTelling(Telling, AsyncIterator[AgentEvent]):
    """Takes what the run tells and is what its reader iterates. A slow reader slows the run.

    A child has no reader of its own: what it tells goes `forward` to its parent.
    """

    def __init__(self, exposure: Exposure, forward: Callable[[AgentEvent], None] | None = None) -> None:
        self._exposure = exposure
        self._forward = forward
        self._prepared: list[AgentEvent] = []
        self._waiting: list[AgentEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._has_begun = self._is_over = self.is_full = False

    def say(self, event: AgentEvent) -> None:
        exposure = self._exposure
        # `is_transparent` and `_pass_on` without the calls: this is done for every piece of a text.
        if self._forward is None and exposure.holds_nothing and exposure.redactor.is_idle:
            self._waiting.append(event)
            if self._reader is not None or len(self._waiting) >= _MOST_WAITING:
                self._be_noticed()
        else:
            for released in exposure.push(event):
                self._pass_on(released)

    def report(self, event: AgentEvent) -> None:
        self._pass_on(self._exposure.redacted(event))

    def prepare(self, event: AgentEvent) -> None:
        self._prepared.append(self._exposure.redacted(event))

    def release(self) -> None:
        for event in self._prepared:
            self._pass_on(event)
        self._prepared.clear()

    def close(self) -> None:
        """There will be no more, and nobody waits any longer."""
        self._is_over = True
        release(self._reader)
        release(self._writer)

    async def room(self) -> None:
        """Return when the reader has caught up, or has left."""
        while self.is_full and not self._is_over:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def ready(self) -> Iterable[AgentEvent]:
        """Everything that is there already."""
        taken, self._waiting = self._waiting, []
        self._make_room()
        return taken

    async def __anext__(self) -> AgentEvent:
        if not self._has_begun:
            # The run has its first turn before anybody waits for it: then there is something to read, without a wait.
            self._has_begun = True
            await asyncio.sleep(0)
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        event = self._waiting.pop(0)
        if self.is_full and not self._waiting:
            self._make_room()
        return event

    def _pass_on(self, event: AgentEvent) -> None:
        if self._forward is not None:
            self._forward(event)
            return
        self._waiting.append(event)
        if self._reader is not None or len(self._waiting) >= _MOST_WAITING:
            self._be_noticed()

    def _be_noticed(self) -> None:
        """Wake the reader that waits; where none does, there may be too much by now."""
        if self._reader is None:
            self.is_full = True
        release(self._reader)
        self._reader = None

    def _make_room(self) -> None:
        self.is_full = False
        release(self._writer)
