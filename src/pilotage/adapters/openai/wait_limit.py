"""A time limit for many short waits, one after the other, with one timer for all of them.

A timeout of its own for each wait would cost more than reading and decoding a token. So the limit only moves, and
the timer that rings too early is set again.
"""

from __future__ import annotations

import asyncio


class WaitLimit:
    """Cancels the task that waits too long; `begin` and `end` stand around each wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._until = 0.0
        self._cancelling = 0
        self._has_rung = False

    def begin(self, until: float) -> None:
        """From here on the current task waits, until a time of the loop at the latest."""
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a limit is for waits inside a task")
        self._task, self._until, self._cancelling = task, until, task.cancelling()
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._ring)
        elif self._timer.when() > until:
            self._timer.cancel()
            self._timer = self._loop.call_at(until, self._ring)

    def end(self) -> None:
        """The wait is over."""
        self._task = None

    def is_reason(self) -> bool:
        """Whether this limit, and nobody else, cancelled the wait; asked once, in the task that was cancelled."""
        task = asyncio.current_task(self._loop)
        if not self._has_rung or task is None:
            return False
        self._has_rung = False
        return task.uncancel() <= self._cancelling

    def close(self) -> None:
        """There is no wait any more."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._ring)
        else:
            self._has_rung = True
            self._task.cancel()
