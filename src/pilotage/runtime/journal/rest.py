"""Parts of the kernel's shell over asyncio: waiting for a turn, counting rest, cancellations that were put off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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

    def drop(self) -> None:
        """Stop counting for good."""
        self.is_counting, self._at_rest = False, _never

    def _tick(self) -> None:
        if not self.is_counting:
            return
        moves = self.domain.moves
        self._quiet = self._quiet + 1 if moves == self._seen else 0
        self._seen = moves
        if self._quiet >= REST:
            self._quiet = 0
            self.is_counting = self._at_rest(self)
            self._seen = self.domain.moves
        if self.is_counting:
            self._loop.call_soon(self._tick)


def _never(_: RestCount) -> bool:
    return False


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

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: dict[asyncio.Task[Any], int] = {}

    def add(self, task: asyncio.Task[Any]) -> None:
        """Put the cancellation off that the task has just got."""
        self.levels[task] = task.cancelling()

    def drop(self, task: asyncio.Task[Any]) -> None:
        """Forget the cancellation of a task: it has struck, or the task has ended."""
        self.levels.pop(task, None)

    def strikes(self, task: asyncio.Task[Any]) -> bool:
        """Return whether a cancellation strikes at the call that a task makes now."""
        self._forget_taken_back(task)
        return task in self.levels

    def look_back(self, task: asyncio.Task[Any]) -> None:
        """Check, right after the step in which a task gets an outcome, whether its cancellation was taken back.

        Later a `TaskGroup` may raise the level again: on Python 3.11 it leaves that of its parent raised.
        """
        if self.levels:
            asyncio.get_running_loop().call_soon(self._forget_taken_back, task)

    def _forget_taken_back(self, task: asyncio.Task[Any]) -> None:
        level = self.levels.get(task)
        if level is not None and task.cancelling() < level:
            del self.levels[task]


TO_ITS_END = "pilotage: action that may not be repeated"
"""The name of the tasks that carry such actions out."""


async def carry_to_end(
    acting: Coroutine[Any, Any, Any], postponed: Postponed, is_over: Callable[[], bool]
) -> Any:
    """Return the result of an action that may not be repeated: a cancellation by the program is put off.

    Raises:
        CancelledError: the attempt is over.
    """
    inner, task = asyncio.create_task(acting, name=TO_ITS_END), calling_task()
    while not inner.done():
        try:
            await asyncio.wait([inner])
        except asyncio.CancelledError:
            if is_over():
                inner.cancel()
                await asyncio.wait([inner])
                if not has_outcome(inner):
                    raise
                # It has come to its end, which is recorded.
                cancel_later(task)
                break
            postponed.add(task)
    return inner.result()


def calling_task() -> asyncio.Task[Any]:
    """Return the task that makes a call."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls of a run are made inside of a task")
    return task


def has_outcome(ended: asyncio.Future[Any]) -> bool:
    """Return whether a finished action gave a result or an error: it was neither cancelled nor interrupted."""
    return not ended.cancelled() and isinstance(ended.exception(), Exception | None)


def cancel_later(task: asyncio.Task[Any]) -> None:
    """Let a cancellation that the running task has just got strike again when the task waits next."""
    task.uncancel()
    task.cancel()
