"""`Replay`: what an attempt knows of the attempts before it, and which of its calls may still act.

The narrow value between the door and the kernel of replay. A dead attempt stays dead, and so does a branch that waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pilotage.agent.ports.journal import JournalRow
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import (
    HandedOver,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunInterruption,
)
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.scope import Scope, running_task

_UNDER_WAY = ("tool:", "step:")


class BranchStopped(RunInterruption):
    """Nobody needs the result of this branch any more."""


class Liveness:
    """Knows who acts for the run, who waits for a person, and whether the attempt is over."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: set[asyncio.Task[object]] = set()
        self._paused: list[tuple[str, asyncio.Task[object] | None, Paused]] = []
        self._end: RunInterruption | None = None
        self.must_look = False
        """Whether somebody in the middle of something should ask `check`: cheap, for the reader of a stream.

        A run that is to pause or to be left does so at its next boundary, and a text is not one.
        """
        self._is_met = False
        self._stopped: set[str] = set()
        self.under_way = 0
        """How many actions have begun and are not over."""
        self._idle: asyncio.Event | None = None

    @property
    def is_paused(self) -> bool:
        """Whether some branch waits for a person."""
        return bool(self._paused)

    @property
    def stopped_by(self) -> Paused | None:
        """What some branch waits for besides people's answers."""
        return next((pause for _, _, pause in self._paused if pause.reason), None)

    @property
    def is_pausing(self) -> bool:
        """Whether the run is going to pause at its next boundary, because somebody wants it to."""
        return isinstance(self._end, Paused)

    @property
    def is_ending(self) -> bool:
        """Whether nothing new begins any more."""
        return self._end is not None

    @property
    def met(self) -> RunInterruption | None:
        """What ended the attempt, once its program has been told: it may not come through as if nothing had been."""
        return self._end if self._is_met else None

    def begin(self, scope: Scope) -> None:
        """In front of every action: refuses to begin for the dead. `ended` follows, whatever comes of the action.

        Raises:
            RunInterruption: this attempt, or this branch of it, is over; then nothing has begun.
        """
        self._ledger.check_alive()
        if self._end is not None:
            self._is_met = True
            raise self._end
        if self._stopped and any(_begins_below(path, scope.path) for path in self._stopped):
            raise BranchStopped
        me = running_task()
        if me is not None and me not in self._tasks:
            self._tasks.add(me)
        for path, task, pause in self._paused:
            is_above = path == scope.path or path.startswith(f"{scope.path}/")
            if task is me or (is_above and scope.is_led_by(me)):
                raise pause
        self.under_way += 1

    def ended(self, scope: Scope, end: BaseException | None = None) -> None:
        """An action is over, with what it raised."""
        if end is not None:
            self._hear(scope, end)
        self.under_way -= 1
        if self._idle is not None and not self.under_way:
            self._idle.set()

    def _hear(self, scope: Scope, end: BaseException) -> None:
        """What an action raises may be the end of its branch, or of the attempt."""
        if isinstance(end, Paused):
            self.pause(scope, end)
        elif isinstance(end, (RunDiverged, RunEnded, LimitReached)):
            self.end(end)
            self._is_met = True

    def pause(self, scope: Scope, pause: Paused) -> None:
        """The calling task and everything above its scope wait from now on."""
        self._paused.append((scope.path, running_task(), pause))

    def end(self, end: RunInterruption) -> None:
        """Nothing begins any more, in no branch; whoever asks gets `end`."""
        if self._end is None:
            self._end = end
            self.must_look = not isinstance(end, Paused | HandedOver)

    def take_back_pause(self) -> bool:
        """Do not pause after all; False where some branch has stopped for it already."""
        if not self.is_pausing or self._is_met:
            return False
        self._end = None
        return True

    def check(self, scope: Scope) -> None:
        """Raise again what ended the attempt, or what this branch waits for."""
        self.begin(scope)
        self.under_way -= 1

    def stop(self, path: str) -> None:
        """Nothing begins below a path any more: the branches there are not needed. What is under way ends by itself."""
        self._stopped.add(path)

    def restart(self, path: str) -> None:
        """The branches below a path are over."""
        self._stopped.discard(path)

    def pause_below(self, path: str) -> Paused | None:
        """What somebody at a path or below it waits for; None where nobody does."""
        return next((pause for at, _, pause in self._paused if _is_at_or_below(path, at)), None)

    def forget_pauses_below(self, path: str) -> None:
        """Nobody needs any more what the branches below a path wait for."""
        self._paused = [each for each in self._paused if not _is_at_or_below(path, each[0])]

    def siblings(self) -> list[asyncio.Task[object]]:
        """The other tasks that act for this run and are still at it."""
        me = running_task()
        return [task for task in self._tasks if task is not me and not task.done()]

    async def quiesce(self, end: RunInterruption) -> None:
        """Let the calls under way come to their end; nothing new begins, further calls get `end`."""
        self.end(end)
        while self.under_way:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()


def _is_at_or_below(path: str, other: str) -> bool:
    return other == path or other.startswith(f"{path}/")


def _begins_below(stopped: str, path: str) -> bool:
    """Whether something new would begin; what a tool or a step under way asks for is a part of it."""
    if not path.startswith(f"{stopped}/"):
        return False
    return not any(part.startswith(_UNDER_WAY) for part in path[len(stopped) + 1 :].split("/"))


class Replay(Recording):
    """The record of one attempt and the calls that are under way."""

    def __init__(self, ledger: Ledger, rows: Sequence[JournalRow] = ()) -> None:
        super().__init__(rows)
        self.liveness = Liveness(ledger)
        self.has_record = bool(self._actions)
        """Whether an earlier attempt did anything."""

    def folded(self, action: Action) -> JournalRow | None:
        """Return the row that stands for a finished branch or turn.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        recorded = self.take(action) if self.has_record else None
        return recorded.after if recorded is not None else None

    def enter(self, scope: Scope) -> None:
        """Begin a call. `leave` follows, whatever comes of it.

        Raises:
            RunInterruption: this attempt, or this branch of it, is over; the call has not begun.
        """
        self.liveness.begin(scope)

    def leave(self, scope: Scope, end: BaseException | None = None) -> None:
        """End a call, with what it raised."""
        self.liveness.ended(scope, end)
