"""`Replay`: the recorded actions of earlier attempts, and the calls of this attempt.

The narrow interface between the door and the replay kernel. `Replay` itself is that of an ephemeral run: it has no
record, and orders nothing. `DurableReplay` numbers calls, and gives every outcome in its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from pilotage.agent.ports.persistence import JournalRow
from pilotage.runtime.journal.decisions import BEGIN, Begin
from pilotage.runtime.journal.interruptions import Paused, RunInterruption
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.liveness import Liveness
from pilotage.runtime.journal.positions import Call, CallScope, RecordRow
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.runtime.journal.turns import Got
from pilotage.runtime.journal.waiting import Postponed, calling_task, carry_to_end

_NO_ROWS: tuple[JournalRow, ...] = ()


class RunningPlace:
    """The place of a branch among those that may run at the same time."""

    def __init__(self, room: asyncio.Semaphore) -> None:
        self._room = room
        self._is_taken = False

    async def take(self) -> None:
        """Take the place, when there is room."""
        if not self._is_taken:
            await self._room.acquire()
            self._is_taken = True

    def leave(self) -> None:
        """Leave the place to another branch."""
        if self._is_taken:
            self._is_taken = False
            self._room.release()


class Replay(Recording):
    """The calls of an ephemeral run: nothing is recorded, and nothing waits for its turn."""

    when_over: Callable[[], None] | None = None
    """Called when the replay kernel ends the attempt."""
    shields = False
    """Whether calls that may not be repeated are protected from cancellation by their program."""
    _postponed: Postponed | None = None
    """The cancellations of an ephemeral run's program that were put off; made for the first protected call."""

    def __init__(
        self,
        ledger: Ledger,
        rows: Sequence[JournalRow] = _NO_ROWS,
        claims: Sequence[JournalRow] = _NO_ROWS,
    ) -> None:
        super().__init__(rows, claims)
        # Asked for in every effect: a default of the class takes three times as long to read.
        self.has_record = False
        """Whether an earlier attempt recorded an action."""
        self.liveness = Liveness(ledger)

    @property
    def is_used_up(self) -> bool:
        """Return whether all recorded outcomes were delivered: from here on the run is live."""
        return True

    @property
    def over(self) -> RunInterruption | None:
        """Return the end that the replay kernel decided on."""
        return None

    def release(self) -> None:
        """Drop the references to the attempt, so that it is freed without the collector."""
        self.when_over = None

    @property
    def pauses(self) -> Sequence[Paused]:
        """Return what the parked calls wait for."""
        return ()

    @property
    def is_draining(self) -> bool:
        """Return whether the attempt comes to its end, because a parked call can go on in the next one."""
        return False

    def drain(self) -> None:
        """Let the attempt come to rest: what a parked call waits for is there, and the next attempt takes it."""

    def make(self, scope: StepScope, action: Action) -> Call | None:
        """Return the call of an action with the next number of its scope; None where calls have no numbers.

        Raises:
            RunDiverged: another call is recorded with this number.
        """
        return None

    async def gate(self, scope: StepScope, name: str) -> tuple[bool, int | None]:
        """Return whether the program takes the new way at a gate, and the number of calls before it if that is new.

        Raises:
            RunInterruption: the attempt is over.
        """
        return True, None

    def see(self, scope: StepScope, task: asyncio.Task[object]) -> None:
        """Take in that a branch of the program runs in a task of its own."""

    def ask(self, call: Call, task: asyncio.Task[object] | None = None) -> Begin | RecordRow | None:
        """Decide about a call that a task awaits now; None: `wait` for it.

        Raises:
            CancelledError: a cancellation that was put off strikes.
            RunInterruption: the attempt is over.
        """
        return BEGIN

    async def wait(self, call: Call) -> Got:
        """Return what a held call gets, or None if it is the turn of an outcome that was just recorded.

        Raises:
            CancelledError: the program cut the call short.
            RunInterruption: the attempt is over.
        """
        return BEGIN

    async def hold_again(self, call: Call) -> None:
        """Return when a call may act that began only in order to be asked about: at the end of the record.

        Raises:
            RunInterruption: the attempt is over.
        """

    def forget(self, call: Call) -> None:
        """Take in that a call ended with an error that is not recorded: it never took effect."""

    async def turn(self, call: Call) -> None:
        """Return when the program may get the outcome of a call.

        Raises:
            RunInterruption: the attempt is over.
        """

    @contextmanager
    def holding_turn(self, call: Call) -> Generator[None]:
        """Hold back every further outcome in the block: the program gets this one first."""
        yield

    async def park(self, call: Call, pause: Paused, *, may_withdraw: bool) -> None:
        """Wait for an event outside of the run: this never returns.

        Raises:
            CancelledError: the program cancels the wait.
            RunInterruption: the run pauses, or the attempt is over.
        """
        raise pause

    async def idle(self, call: Call, pause: Paused, waiting: Coroutine[Any, Any, None]) -> None:
        """Return when the event that a call waits for has happened; meanwhile the call is parked.

        Raises:
            CancelledError: the program cancels the wait.
            RunInterruption: the run pauses, or the attempt is over.
        """
        await waiting

    def cut(self, call: Call, *, has_acted: bool) -> bool:
        """Take in that a call was cancelled; return whether its program cut it short, which its row says."""
        return False

    def limit(self, path: str, place: RunningPlace | None) -> None:
        """Let the branch with a path leave its place among those that run while a call in it waits; None ends this."""

    async def to_end(self, acting: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of an action that may not be repeated: a cancellation by the program is put off.

        Raises:
            CancelledError: the attempt is over.
        """
        postponed = self._postponed = self._postponed or Postponed()
        try:
            return await carry_to_end(acting, postponed, lambda: self.liveness.must_look)
        finally:
            postponed.look_back(calling_task())

    def strike(self, task: asyncio.Task[object] | None) -> None:
        """Raise the cancellation that was put off to the next call of a task.

        Raises:
            CancelledError: there is one.
        """
        postponed = self._postponed
        if postponed is not None and task is not None and postponed.strikes(task):
            raise asyncio.CancelledError(*postponed.drop(task))

    def recorded(self, call: Call) -> int | None:
        """Take in that the outcome of a call is recorded; return its place among the turns, None if it takes none."""
        return None

    def folded(self, action: Action) -> JournalRow | None:
        """Return the row that stands for a finished branch or turn.

        Raises:
            RunDiverged: another action is recorded at this place.
        """
        return None

    def folded_turns(self, scope: StepScope) -> Sequence[Sequence[JournalRow]]:
        """Return the outcomes of the folded turns that begin with the next call of a scope, turn by turn."""
        return ()

    def pass_over(self, scope: StepScope, rows: Sequence[JournalRow], folded_by: Action | None) -> None:
        """Count the calls of a folded turn as made; `folded_by` is the fold of which it is the last turn.

        Raises:
            RunDiverged: another action is recorded in place of the fold.
        """

    def calls_in(self, scope: StepScope) -> CallScope | None:
        """Return the numbers of the calls of a scope; None where calls have no numbers."""
        return None

    def rows_below(self, path: str) -> Iterable[JournalRow]:
        """Return the recorded rows of actions below a path: of each the last one before it and its outcome."""
        return ()

    async def part_ended(self, path: str) -> None:
        """Check that a branch or turn that has ended, and is about to be folded, has used its part of the record.

        Raises:
            RunInterruption: it has not, or waits for an answer.
        """

    def returned(self) -> None:
        """Take in that the program has returned an answer, before it is published."""

    async def ended(self) -> None:
        """Check that a program that has ended has used its record, and wait for what its tasks wait for.

        Raises:
            RunInterruption: it has not, or the run pauses.
        """
