"""Whether an attempt may go on: its tasks, its calls under way, and the end that came from outside of its program."""

from __future__ import annotations

import asyncio

from pilotage.runtime.journal.interruptions import (
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    SealMissing,
)
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.scope import running_task
from pilotage.runtime.journal.turns import Turns

_UNDER_WAY = ("tool:", "step:")


class BranchStopped(RunInterruption):
    """The result of this branch is no longer needed."""


_GOES_ON = (Exception, asyncio.CancelledError, Paused, BranchStopped)
"""The ends of an action after which the attempt may go on."""


class Liveness:
    """Tracks the tasks of an attempt, and whether the attempt is over."""

    turns: Turns | None = None
    """The calls of the attempt that wait; None for an ephemeral run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: set[asyncio.Task[object]] = set()
        self._end: RunInterruption | None = None
        self.must_look = False
        """Whether code within an action must call `check`: a cheap flag for the reader of a stream.

        False for a pause or a handover: these take effect at the next boundary, not within a streamed text.
        """
        self._is_met = self.is_stopping = False
        self._stopped: set[str] = set()
        self.under_way = 0
        """The number of actions that have begun and have not ended."""
        self._idle: asyncio.Event | None = None

    @property
    def is_pausing(self) -> bool:
        """Return whether the run pauses at its next boundary, because a signal requested it."""
        return isinstance(self._end, Paused)

    @property
    def is_ending(self) -> bool:
        """Return whether no further action may begin."""
        return self._end is not None

    @property
    def met(self) -> RunInterruption | None:
        """Return the interruption that ended the attempt, once it was raised in the program.

        A program that swallows the interruption does not complete its run.
        """
        return self._end if self._is_met else None

    def begin(self, path: str) -> asyncio.Task[object] | None:
        """Register the begin of an action and return its task; `ended` must follow, whatever the outcome.

        Raises:
            RunInterruption: this attempt is over; the action has not begun.
        """
        if self._ledger.death is not None:
            raise self._ledger.death
        if self._end is not None:
            self._is_met = True
            raise self._end
        if self._stopped and any(_begins_below(stopped, path) for stopped in self._stopped):
            raise BranchStopped
        current = asyncio.current_task()
        if current is not None and current not in self._tasks:
            self._tasks.add(current)
        self.under_way += 1
        return current

    def ended(self, end: BaseException | None = None) -> None:
        """Register the end of an action, with the exception it raised."""
        if end is not None:
            self._failed(end)
        self.under_way -= 1
        if self._idle is not None and not self.under_way:
            self._idle.set()

    def _failed(self, end: BaseException) -> None:
        if isinstance(end, RunDiverged | RunEnded | LimitReached | SealMissing):
            self.meet(end)
        elif not isinstance(end, _GOES_ON):
            # The process dies, or the store is lost: nothing that waits will get its turn or its answer.
            self.wake(end)

    def meet(self, end: RunInterruption) -> None:
        """End the attempt with an interruption that the program gets to see now."""
        self.end(end)
        self._is_met = True

    def end(self, end: RunInterruption) -> None:
        """End the attempt: further actions raise `end`, and calls that wait for their turn or an answer do so now.

        A pause and a handover come at the next boundary: until then the calls wait on.
        """
        if self._end is None:
            self._end = end
            self.must_look = not isinstance(end, Paused | RunHandedOver)
            if self.turns is not None and self.must_look:
                self.turns.stop(end)

    def take_back_pause(self) -> bool:
        """Withdraw a requested pause; return False if a part of the program has stopped for it already."""
        if not self.is_pausing or self._is_met:
            return False
        self._end = None
        return True

    def reopen(self) -> None:
        """Let actions begin again: the end of the attempt was refused.

        Raises:
            RunInterruption: a pause or a handover was requested before that end.
        """
        if self._end is not None and not isinstance(self._end, RunEnded):
            raise self._end
        self._end, self._is_met, self.must_look, self.is_stopping = None, False, False, False
        if self.turns is not None:
            self.turns.go_on()

    def check(self, path: str) -> None:
        """Raise the interruption that ended the attempt, or the branch of it with this path."""
        self.begin(path)
        self.under_way -= 1

    def stop(self, path: str) -> None:
        """Refuse new actions below a path, because its branches are no longer needed; actions under way complete."""
        self._stopped.add(path)

    def restart(self, path: str) -> None:
        """Allow new actions below a path again, after its branches have ended."""
        self._stopped.discard(path)

    def siblings(self) -> list[asyncio.Task[object]]:
        """Return the other tasks of this run that have not ended."""
        current = running_task()
        return [task for task in self._tasks if task is not current and not task.done()]

    async def quiesce(self, end: RunInterruption) -> None:
        """Wait until the calls under way have ended; further calls raise `end`, and calls that wait do so now."""
        self.end(end)
        self.wake(end)
        while self.under_way:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def stopping(self) -> None:
        """Take in that the tasks are cancelled from outside of the program: it has cut nothing short."""
        self.is_stopping = True
        if self.turns is not None:
            self.turns.is_stopping = True

    def wake(self, end: BaseException) -> None:
        """End the calls that wait for their turn or for an answer: the program has ended, or is stopped."""
        if self.turns is not None:
            self.turns.stop(end)


def _begins_below(stopped: str, path: str) -> bool:
    """Return whether an action at `path` is a new one; actions within a tool or step under way are part of that."""
    if not path.startswith(f"{stopped}/"):
        return False
    return not any(part.startswith(_UNDER_WAY) for part in path[len(stopped) + 1 :].split("/"))
