"""One task that keeps all leases of a process alive: most runs end long before theirs would have to be renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from pilotage.ids import IClock

_LOOK_SECONDS = 2.0
"""How long it may take to notice that nobody is left: runs that follow each other share a task, and then it goes."""


class Renewable(Protocol):
    """What runs out unless it is renewed."""

    def renewed(self) -> Coroutine[Any, Any, None]:
        """Renew it; a failure is nobody's concern, for it comes up again."""
        ...


class Keeper:
    """Renews each of many every so often, from when it is added until it is dropped.

    Its task is made when the first one is added. When none is left it ends at its next look, or `rest` ends it.
    """

    def __init__(self, clock: IClock, every_seconds: float) -> None:
        self._clock, self._every = clock, every_seconds
        # All wait equally long: the first one is always the next one.
        self._due: dict[Renewable, float] = {}
        self._renewing: dict[Renewable, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None

    def add(self, each: Renewable) -> None:
        """Renew it from now on."""
        self._due[each] = self._clock.monotonic() + self._every
        keeping = self._keeping
        # An application may be used in one event loop after the other.
        if keeping is None or keeping.done() or keeping.get_loop() is not asyncio.get_running_loop():
            self._keeping = asyncio.create_task(self._keep(), name="keeper of leases")

    def drop(self, each: Renewable) -> None:
        """Renew it no more."""
        self._due.pop(each, None)
        if each in self._renewing:
            self._renewing[each].cancel()

    async def rest(self) -> None:
        """Return when no task is left, unless there still is something to renew."""
        tasks = [*self._renewing.values(), *([self._keeping] if self._keeping is not None else ())]
        if self._due or not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _keep(self) -> None:
        while self._due:
            now = self._clock.monotonic()
            each, due = next(iter(self._due.items()))
            if due > now:
                await self._clock.sleep(min(due - now, _LOOK_SECONDS))
                continue
            del self._due[each]
            self._due[each] = now + self._every
            self._renew(each)

    def _renew(self, each: Renewable) -> None:
        """In a task of its own: a store that is slow to answer for one must not keep the others waiting."""
        if each not in self._renewing:
            task = self._renewing[each] = asyncio.create_task(each.renewed())
            task.add_done_callback(lambda _: self._renewing.pop(each, None))
