"""Which parts of an attempt may still act: a dead attempt stays dead, and so does a branch that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from pilotage.runtime.interruptions import Paused, RunDiverged, RunEnded, RunInterruption
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.scope import Scope


class Liveness:
    """Knows who acts for the run, who waits for a person, and whether the attempt is over."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: set[asyncio.Task[object]] = set()
        self._paused: list[tuple[str, asyncio.Task[object] | None, Paused]] = []
        self._end: RunInterruption | None = None
        self._acting = 0
        self._idle = asyncio.Event()

    @property
    def is_paused(self) -> bool:
        """Whether some branch waits for a person."""
        return bool(self._paused)

    @contextmanager
    def acting(self, scope: Scope) -> Generator[None]:
        """Around every action: refuses to begin for the dead, and notes what an action ended with.

        Raises:
            RunInterruption: this attempt, or this branch of it, is over.
        """
        self.check(scope)
        self._acting += 1
        try:
            yield
        except Paused as pause:
            self.pause(scope, pause)
            raise
        except (RunDiverged, RunEnded) as end:
            self.end(end)
            raise
        finally:
            self._acting -= 1
            if not self._acting:
                self._idle.set()

    def pause(self, scope: Scope, pause: Paused) -> None:
        """The calling task and everything above its scope wait from now on."""
        self._paused.append((scope.path, _running_task(), pause))

    def end(self, end: RunInterruption) -> None:
        """Nothing begins any more, in no branch; whoever asks gets `end`."""
        self._end = self._end or end

    def check(self, scope: Scope) -> None:
        """Raise again what ended the attempt, or what this branch waits for."""
        self._ledger.check_alive()
        if self._end is not None:
            raise self._end
        me = _running_task()
        if me is not None:
            self._tasks.add(me)
        for path, task, pause in self._paused:
            is_above = path == scope.path or path.startswith(f"{scope.path}/")
            if task is me or (is_above and scope.is_led_by(me)):
                raise pause

    def siblings(self) -> list[asyncio.Task[object]]:
        """The other tasks that act for this run and are still at it."""
        me = _running_task()
        return [task for task in self._tasks if task is not me and not task.done()]

    async def quiesce(self, end: RunInterruption) -> None:
        """Let what is under way come to its own end; nothing new begins, whoever asks gets `end`."""
        self.end(end)
        while self._acting:
            self._idle.clear()
            await self._idle.wait()


def _running_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
