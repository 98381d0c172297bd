"""Parts of the kernel's shell over asyncio: waiting for a turn, counting rest, cancellations that were put off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pilotage.runtime.journal.positions import Domain

REST = 12
"""The turns of the event loop without movement after which a program is at rest."""

NOTHING = object()
"""The result of a slot that has none yet."""


class Slot:
    """A place where one task waits for a decision; a cancelled task finds the decision here all the same."""

    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.result: object = NOTHING
        self.future: asyncio.Future[None] | None = None

    def settle(self, result: object) -> None:
        if self.result is NOTHING:
            self.result = result
            if self.future is not None and not self.future.done():
                self.future.set_result(None)


class RestCount:
    """Counts the turns of the loop in which nothing moves in a domain."""

    __slots__ = ("_at_rest", "_loop", "_quiet", "_seen", "domain", "is_counting")

    def __init__(self, domain: Domain, at_rest: Callable[[RestCount], bool]) -> None:
        self.domain = domain
        self.is_counting = False
        self._loop = asyncio.get_running_loop()
        self._at_rest = at_rest
        self._quiet = self._seen = 0

    def count(self) -> None:
        """Count from now on, until nothing is to be done at rest."""
        if not self.is_counting:
            self.is_counting = True
            self._quiet, self._seen = 0, self.domain.moves
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        moves = self.domain.moves
        self._quiet = self._quiet + 1 if moves == self._seen else 0
        self._seen = moves
        if self._quiet >= REST:
            self._quiet = 0
            self.is_counting = self._at_rest(self)
            self._seen = self.domain.moves
        if self.is_counting:
            self._loop.call_soon(self._tick)


class TurnMark:
    """Notices whether the event loop turns: then a call does not return at once."""

    __slots__ = ("_handle", "has_turned")

    def __init__(self) -> None:
        self.has_turned = False
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.has_turned = True

    def drop(self) -> None:
        self._handle.cancel()


class Postponed:
    """Cancellations that were put off to the next call of their task, each with its level of `Task.cancelling()`."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: dict[asyncio.Task[Any], int] = {}

    def add(self, task: asyncio.Task[Any]) -> None:
        """Put the cancellation off that the task has just got."""
        self._levels[task] = task.cancelling()

    def drop(self, task: asyncio.Task[Any]) -> None:
        """Forget the cancellation of a task: it has struck, or the task has ended."""
        self._levels.pop(task, None)

    def strikes(self, task: asyncio.Task[Any]) -> bool:
        """Return whether a cancellation strikes at the call that a task makes now."""
        if not self._levels:
            return False
        self._forget_taken_back(task)
        return task in self._levels

    def look_back(self, task: asyncio.Task[Any]) -> None:
        """Look, directly behind the step in which a task gets an outcome, whether its cancellation was taken back.

        Later a `TaskGroup` may raise the level again: on Python 3.11 it leaves that of its parent raised.
        """
        if self._levels:
            asyncio.get_running_loop().call_soon(self._forget_taken_back, task)

    def _forget_taken_back(self, task: asyncio.Task[Any]) -> None:
        level = self._levels.get(task)
        if level is not None and task.cancelling() < level:
            del self._levels[task]
