"""`Replay`: the recorded actions of earlier attempts, and which calls of this attempt may still begin.

The narrow interface between the door and the replay kernel. An attempt that has ended, or a branch that waits for an
answer, begins no further action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pilotage.agent.ports.journal import JournalRow
from pilotage.runtime.journal.action import Action
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
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.scope import StepScope, running_task

_UNDER_WAY = ("tool:", "step:")


class BranchStopped(RunInterruption):
    """The result of this branch is no longer needed."""


class Liveness:
    """Tracks the tasks of an attempt, the branches that wait for an answer, and whether the attempt is over."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: set[asyncio.Task[object]] = set()
        self._paused: list[tuple[str, asyncio.Task[object] | None, Paused]] = []
        self._end: RunInterruption | None = None
        self.must_look = False
        """Whether code within an action must call `check`: a cheap flag for the reader of a stream.

        False for a pause or a handover: these take effect at the next boundary, not within a streamed text.
        """
        self._is_met = False
        self._stopped: set[str] = set()
        self.under_way = 0
        """The number of actions that have begun and have not ended."""
        self._idle: asyncio.Event | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether a branch waits for an answer."""
        return bool(self._paused)

    @property
    def stopped_by(self) -> Paused | None:
        """Return the first pause that has a reason other than a question to a person."""
        return next((pause for _, _, pause in self._paused if pause.reason), None)

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

    def begin(self, scope: StepScope) -> asyncio.Task[object] | None:
        """Register the begin of an action and return its task; `ended` must follow, whatever the outcome.

        Raises:
            RunInterruption: this attempt, or this branch of it, is over; the action has not begun.
        """
        if self._ledger.death is not None:
            raise self._ledger.death
        if self._end is not None:
            self._is_met = True
            raise self._end
        if self._stopped and any(_begins_below(path, scope.path) for path in self._stopped):
            raise BranchStopped
        current = asyncio.current_task()
        if current is not None and current not in self._tasks:
            self._tasks.add(current)
        for path, task, pause in self._paused:
            is_above = path == scope.path or path.startswith(f"{scope.path}/")
            if task is current or (is_above and scope.is_led_by(current)):
                raise pause
        self.under_way += 1
        return current

    def ended(self, scope: StepScope, end: BaseException | None = None) -> None:
        """Register the end of an action, with the exception it raised."""
        if end is not None:
            self._register_exception(scope, end)
        self.under_way -= 1
        if self._idle is not None and not self.under_way:
            self._idle.set()

    def _register_exception(self, scope: StepScope, end: BaseException) -> None:
        """End the branch or the attempt, where the exception of an action requires it."""
        if isinstance(end, Paused):
            self.pause(scope, end)
        elif isinstance(end, (RunDiverged, RunEnded, LimitReached, SealMissing)):
            self.end(end)
            self._is_met = True

    def pause(self, scope: StepScope, pause: Paused) -> None:
        """Pause the calling task and every scope above the given one."""
        self._paused.append((scope.path, running_task(), pause))

    def end(self, end: RunInterruption) -> None:
        """End the attempt: in every branch, further actions raise `end`."""
        if self._end is None:
            self._end = end
            self.must_look = not isinstance(end, Paused | RunHandedOver)

    def take_back_pause(self) -> bool:
        """Withdraw a requested pause; return False if a branch has stopped for it already."""
        if not self.is_pausing or self._is_met:
            return False
        self._end = None
        return True

    def check(self, scope: StepScope) -> None:
        """Raise the interruption that ended the attempt, or the pause of this branch."""
        self.begin(scope)
        self.under_way -= 1

    def stop(self, path: str) -> None:
        """Refuse new actions below a path, because its branches are no longer needed; actions under way complete."""
        self._stopped.add(path)

    def restart(self, path: str) -> None:
        """Allow new actions below a path again, after its branches have ended."""
        self._stopped.discard(path)

    def pause_below(self, path: str) -> Paused | None:
        """Return the first pause at a path or below it; None if there is none."""
        return next((pause for at, _, pause in self._paused if _is_at_or_below(path, at)), None)

    def forget_pauses_below(self, path: str) -> None:
        """Forget the pauses at a path and below it, because their branches are no longer needed."""
        self._paused = [each for each in self._paused if not _is_at_or_below(path, each[0])]

    def siblings(self) -> list[asyncio.Task[object]]:
        """Return the other tasks of this run that have not ended."""
        current = running_task()
        return [task for task in self._tasks if task is not current and not task.done()]

    async def quiesce(self, end: RunInterruption) -> None:
        """Wait until the calls under way have ended; further calls raise `end`."""
        self.end(end)
        while self.under_way:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()


def _is_at_or_below(path: str, other: str) -> bool:
    return other == path or other.startswith(f"{path}/")


def _begins_below(stopped: str, path: str) -> bool:
    """Return whether an action at `path` is a new one; actions within a tool or step under way are part of that."""
    if not path.startswith(f"{stopped}/"):
        return False
    return not any(part.startswith(_UNDER_WAY) for part in path[len(stopped) + 1 :].split("/"))


class Replay(Recording):
    """The recorded actions of a run and the calls of this attempt that are under way."""

    def __init__(self, ledger: Ledger, rows: Sequence[JournalRow] = ()) -> None:
        super().__init__(rows)
        self.liveness = Liveness(ledger)
        self.has_record = bool(self._actions)
        """Whether an earlier attempt recorded an action."""

    def folded(self, action: Action) -> JournalRow | None:
        """Return the row that stands for a finished branch or turn.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        recorded = self.take(action) if self.has_record else None
        return recorded.after if recorded is not None else None
