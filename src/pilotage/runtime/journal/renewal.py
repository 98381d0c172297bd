"""Renewal of leases: one task of a process renews all of them together, before they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar

from pilotage.agent.ports.persistence import RunKey
from pilotage.ids import IClock


class Renewable(Protocol):
    """A lease as it is renewed."""

    @property
    def run(self) -> RunKey: ...

    def revoke(self, reason: str) -> None: ...


L = TypeVar("L", bound=Renewable)

_IDLE_CHECK_SECONDS = 2.0
"""The longest time that the task outlives its last lease: runs that follow each other share one task."""


_TOGETHER_SHARE = 1 / 2
"""Leases that are due within this share of an interval are renewed together with the first one that is due."""

_AT_ONCE = 1_000
"""The most leases that are renewed together: what else is written waits for as many rows at most."""


class LeaseRenewer(Generic[L]):
    """Renews leases together at equal intervals, each from when it is added until it is dropped.

    The task starts with the first lease. It ends by itself when there is none left, or in `stop_if_idle`. Most runs
    end before their lease has to be renewed. After its first renewal a lease is due with the others.
    """

    def __init__(
        self, clock: IClock, every_seconds: float, renew: Callable[[Sequence[L]], Coroutine[Any, Any, None]]
    ) -> None:
        self._clock, self._every, self._renew = clock, every_seconds, renew
        # The interval is the same for all: the first entry is always the next one due.
        self._due: dict[L, float] = {}
        self._renewals: dict[L, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.beats = 0
        """Grows at least every `beat_seconds` while leases are held and the event loop moves."""
        self.beat_seconds = _IDLE_CHECK_SECONDS

    def add(self, lease: L) -> None:
        """Renew a lease from now on."""
        self._due[lease] = self._clock.monotonic() + self._every
        task = self._task
        # An application may be used in one event loop after the other.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._renew_all(), name="renewal of leases")

    def drop(self, lease: L) -> None:
        """Stop renewing a lease."""
        self._due.pop(lease, None)

    @property
    def is_needed(self) -> bool:
        """Whether there are leases to renew and a loop that should do it; may be asked in any thread."""
        task = self._task
        return bool(self._due) and task is not None and not task.done() and task.get_loop().is_running()

    def revoke(self, reason: str) -> list[RunKey]:
        """Renew none of the present leases any more: no further effect begins under them. May be called in any thread.

        Returns:
            The runs whose leases were revoked.
        """
        leases = list(self._due)
        for lease in leases:
            lease.revoke(reason)
        return [lease.run for lease in leases]

    async def stop_if_idle(self) -> None:
        """End all tasks of the renewer, unless there still is a lease to renew."""
        tasks = {*self._renewals.values(), *([self._task] if self._task is not None else ())}
        if self._due or not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _renew_all(self) -> None:
        while self._due:
            self.beats += 1
            now = self._clock.monotonic()
            due = next(iter(self._due.values()))
            if due > now:
                await self._clock.sleep(min(due - now, self.beat_seconds))
                continue
            self._renew_due(now)

    def _renew_due(self, now: float) -> None:
        """Renew the leases that are due, and those that will be soon, in tasks of their own: a store may be slow."""
        until = now + self._every * _TOGETHER_SHARE
        due = list(takewhile(lambda lease: self._due[lease] <= until, self._due))
        for lease in due:
            del self._due[lease]
            self._due[lease] = now + self._every
        free = [lease for lease in due if lease not in self._renewals]
        for first in range(0, len(free), _AT_ONCE):
            self._begin(free[first : first + _AT_ONCE])

    def _begin(self, leases: Sequence[L]) -> None:
        task = asyncio.create_task(self._renew(leases), name="renewal of leases that are due")
        self._renewals |= dict.fromkeys(leases, task)
        task.add_done_callback(lambda _: self._end(leases))

    def _end(self, leases: Sequence[L]) -> None:
        for lease in leases:
            self._renewals.pop(lease, None)
