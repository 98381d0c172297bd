"""A queue in front of a number of places: who came first is served first, and who leaves holds nobody up."""

from __future__ import annotations

import asyncio
from collections import deque


class FairQueue:
    """So many places, given out in the order in which they were asked for. It belongs to no event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in the queue."""
        return sum(not turn.done() for turn in self._waiting)

    async def take(self) -> None:
        """Wait for a place. Whoever is cancelled while waiting has none."""
        if self._free and not self.waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The place may have been handed over in the same moment: then it goes to the next one.
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Leave a place to whoever waits longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
