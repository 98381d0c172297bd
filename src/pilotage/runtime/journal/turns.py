"""The replay kernel over asyncio: calls wait here for their turn, and rest is counted in turns of the event loop.

A cancellation that is put off is remembered with the level of `Task.cancelling()`. It strikes at the next call of the
task, unless a time-out has taken it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeAlias, assert_never

from pilotage.runtime.journal.decisions import (
    Begin,
    CutShort,
    Diverge,
    End,
    GateAnswer,
    HeldGate,
    Hold,
    Pause,
    PutOff,
    ReturnAtOnce,
    Withdraw,
)
from pilotage.runtime.journal.positions import NOT_ALONE, Call, CallScope, Domain, RecordRow, Requested
from pilotage.runtime.journal.waiting import (
    CUT,
    NOTHING,
    STOPPED,
    Slot,
    TurnMark,
    WaitingCalls,
    Words,
    calling_task,
    carry_to_end,
)

Got: TypeAlias = Begin | RecordRow | GateAnswer | None
"""The result of a wait of a call: leave to begin, its recorded outcome, the answer of a gate, or None for the outcome
that was recorded for it just now."""


class Turns(WaitingCalls):
    """The calls of one attempt. A call is made, asked for, carried out, and gets its outcome in its turn."""

    def make(
        self,
        scope: CallScope,
        asked: Requested,
        task: asyncio.Task[object] | None = None,
        is_repeatable: bool = True,
        call_id: str = "",
    ) -> Call:
        """Return the next call of a scope, made by the running task.

        Raises:
            AttemptOver: the call differs from the recorded one.
        """
        task = task or calling_task()
        if task is not scope.domain.owner:
            self.see(scope.domain, task)
        call = self.kernel.make(scope, asked, is_repeatable, call_id)
        if self._still is not None:
            self._stir()
        if self.kernel.over is not None:
            raise self._end(self.kernel.over)
        return call

    def ask(self, call: Call, task: asyncio.Task[object] | None = None) -> Begin | RecordRow | None:
        """Decide about a call that the running task awaits now; None: `wait` for it.

        Raises:
            CancelledError: a cancellation that was put off strikes.
            AttemptOver: the attempt is over.
        """
        task = task or calling_task()
        if call.is_ordered and task is not call.domain.owner:
            self.see(call.domain, task)
        is_struck = self._postponed.strikes(task) if self._postponed.levels else False
        decision = self.kernel.ask(call, is_struck)
        if self._still is not None:
            self._stir()
        words: Words | None = None
        if is_struck and (call.is_struck or isinstance(decision, CutShort)):
            words = self._postponed.drop(task)
        match decision:
            case Begin():
                if call.epoch == NOT_ALONE and not call.is_sync:
                    self._marks[call] = TurnMark()
                return decision
            case ReturnAtOnce(row):
                return row
            case Hold():
                self._slots[call] = Slot(words)
                self.count(call.domain)
                return None
            case CutShort():
                self._write_cut(decision)
                raise asyncio.CancelledError(*(words or ()))
            case Pause() | Diverge():
                raise self._end(decision)
            case _:
                assert_never(decision)

    async def wait(self, call: Call) -> Got:
        """Return what a held call gets, or None if it is the turn of an outcome that was just recorded.

        Raises:
            CancelledError: the program cut the call short.
            AttemptOver: the attempt is over.
        """
        slot, level = self._slots[call], calling_task().cancelling()
        try:
            while slot.result is NOTHING:
                slot.future = asyncio.get_running_loop().create_future()
                try:
                    await slot.future
                except asyncio.CancelledError as cancelled:
                    self._cancelled(call, slot, level, cancelled.args)
        finally:
            del self._slots[call]
        return self._received(slot)

    def hold_again(self, call: Call) -> bool:
        """Hold a call that began only to be asked about; return whether to `wait` for the end of the record."""
        is_held = self.kernel.hold_again(call)
        if is_held:
            self._slots[call] = Slot()
            self.count(call.domain)
        return is_held

    def recorded(self, call: Call, is_at_once: bool = False) -> bool:
        """Take in that the outcome of a call is recorded; return whether it takes a turn, to `wait` for."""
        mark = self._marks.pop(call, None) if self._marks else None
        if mark is not None:
            mark.drop()
            is_at_once = is_at_once or not mark.has_turned
        takes_turn = self.kernel.known(call, is_at_once)
        if self._still is not None:
            self._stir()
        if self._postponed.levels:
            self._postponed.look_back(calling_task())
        if takes_turn:
            self._slots[call] = Slot()
            self.count(call.domain)
        elif self._slots and self.kernel.has_waits:
            self.count(call.domain)
        return takes_turn

    async def park(self, call: Call, wait: str, *, may_withdraw: bool = True) -> None:
        """Wait for an event outside of the run: this never returns.

        Raises:
            CancelledError: the program cancels the wait.
            AttemptOver: the run pauses.
        """
        self.kernel.park(call, wait, may_withdraw=may_withdraw)
        self._stir()
        self._slots[call] = Slot()
        self.count(call.domain)
        await self.wait(call)

    async def gate(self, scope: CallScope, name: str) -> bool:
        """Return whether the program takes the new way at a gate."""
        self.see(scope.domain, calling_task())
        decision = self.kernel.gate(scope, name)
        self._stir()
        match decision:
            case GateAnswer():
                self._write_gate(scope.path, scope.number, name, decision)
                return decision.is_open
            case HeldGate(gate):
                self._slots[gate] = Slot()
                self.count(scope.domain)
                answer = await self.wait(gate)
                return isinstance(answer, GateAnswer) and answer.is_open
            case Pause() | Diverge():
                raise self._end(decision)
            case _:
                assert_never(decision)

    def returned(self) -> None:
        """Take in that the program has returned an answer; its tasks go on."""
        self.kernel.returned()
        self._stir()
        for rest in self._rests.values():
            rest.count()

    async def ended(self, below: str = "") -> None:
        """Check that a program, or a part with a path, has used its record; wait for its tasks, if they may use it.

        Raises:
            AttemptOver: the attempt is over.
        """
        while True:
            match decision := self.kernel.program_ended(below):
                case End():
                    return
                case Hold():
                    self.count(next(iter(self._tasks.values())))
                    waiting = (slot.future for slot in self._slots.values() if slot.future is not None)
                    until: set[asyncio.Future[Any]] = {*self._tasks, self._over, *waiting}
                    await asyncio.wait(until, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.sleep(0)
                case Pause() | Diverge():
                    raise self._end(decision)
                case _:
                    assert_never(decision)

    def _cancelled(self, call: Call, slot: Slot, level: int, words: Words) -> None:
        """Decide about the cancellation of a waiting call; an outcome that is there by now is given.

        The first one decides. Some libraries cancel a task again in every turn of the loop: that is no movement.
        """
        task, is_first = calling_task(), slot.cancelled is None
        slot.cancelled = words if slot.cancelled is None else slot.cancelled
        if self.is_stopping:
            slot.settle(STOPPED)
        if slot.result is not NOTHING:
            if slot.result is not CUT:
                self._postponed.add(task, level, words)
            return
        if not is_first:
            return
        decision = self.kernel.cancel(call)
        self._stir()
        match decision:
            case CutShort() | Withdraw():
                self._write_cut(decision)
                slot.settle(CUT)
                for rest in self._rests.values():
                    rest.count()
            case PutOff():
                self._postponed.add(task, level, words)
            case Hold():
                self.count(call.domain)
            case Pause() | Diverge():
                slot.settle(decision)
            case _:
                assert_never(decision)

    def cut_under_way(self, call: Call) -> None:
        """Write that the program has cut a call short that was under way."""
        if self.kernel.over is not None or self.is_stopping:
            return
        decision = self.kernel.cancel(call)
        self._stir()
        if isinstance(decision, CutShort):
            self._write_cut(decision)
        if self.kernel.has_waits:
            self.count(call.domain)

    async def to_end(self, acting: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of an action that may not be repeated: a cancellation by the program is put off.

        Raises:
            CancelledError: the attempt is over.
        """
        return await carry_to_end(acting, self._postponed, self._is_over)

    def _is_over(self) -> bool:
        return self.kernel.over is not None or self.is_stopping

    def see(self, domain: Domain, task: asyncio.Task[object]) -> None:
        """Take in that the program has a further task; without this, a task is seen when it makes a call."""
        if task is not domain.owner and self.kernel.see(domain, task):
            self._tasks[task] = domain
            task.add_done_callback(partial(self._task_ended, domain))

    def _task_ended(self, domain: Domain, task: asyncio.Task[object]) -> None:
        if self._is_over() and not task.cancelled():
            # The interruption of a task that the program does not await is no error to log.
            task.exception()
        self.kernel.task_ended(domain, task)
        self._tasks.pop(task, None)
        self._postponed.drop(task)
        self._stir()
        if self._slots:
            self.count(domain)

    def _received(self, slot: Slot) -> Got:
        result = slot.result
        if self.kernel.over is not None:
            raise self._end(self.kernel.over)
        if result is STOPPED:
            raise self.stopped_by or asyncio.CancelledError
        if result is CUT:
            raise asyncio.CancelledError(*(slot.cancelled or ()))
        self._postponed.look_back(calling_task())
        return result if isinstance(result, Begin | RecordRow | GateAnswer) else None
