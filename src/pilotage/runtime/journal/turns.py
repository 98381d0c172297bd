"""The replay kernel over asyncio: calls wait here for their turn, and rest is counted in turns of the event loop.

Public asyncio API only. Turns of the loop are counted only while a call waits: a live program of one task never does.
A cancellation that is put off is remembered with the level of `Task.cancelling()`. It strikes at the next call of the
task, unless a time-out has taken it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias, assert_never

from pilotage.runtime.journal.decisions import (
    BEGIN,
    BEGIN_AGAIN,
    AnswerGates,
    Begin,
    CutShort,
    Deliver,
    Diverge,
    End,
    GateAnswer,
    HeldGate,
    Hold,
    Idle,
    Over,
    Pause,
    PutOff,
    Release,
    ReturnAtOnce,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import NOT_ALONE, Call, CallIdentity, CallScope, Domain, RecordRow
from pilotage.runtime.journal.rest import NOTHING, REST, Postponed, RestCount, Slot, TurnMark
from pilotage.values import value


class AttemptOver(BaseException):
    """The attempt is over; every further call raises it again."""

    def __init__(self, over: Over) -> None:
        super().__init__(over)
        self.over = over


class Recorder(Protocol):
    """Writes the rows that the kernel's decisions ask for."""

    def ended(self, call: Call, outcome: Any, *, takes_turn: bool) -> None:
        """Write the outcome of a call."""
        ...

    def cut(self, call: Call, passed: int) -> None:
        """Write that the program cut a call short; a wait it was parked for is withdrawn by this row."""
        ...

    def changed(self, path: str, number: int, name: str) -> None:
        """Write that a gate is open from here on."""
        ...


@value
class StandstillLimits:
    """How long, in seconds, nothing must move: before a pause, and beyond the recorded time before a divergence."""

    grace: float = 0.05
    margin: float = 1.0


class _Cut:
    """The result of a wait that ends with the cancellation of the call."""


_CUT = _Cut()
Got: TypeAlias = Begin | RecordRow | GateAnswer | None
"""What a call that waited gets: leave to begin, its recorded outcome, the answer of a gate, or None for the outcome
that was recorded for it just now."""


class Turns:
    """The calls of one attempt. A call is made, asked for, carried out, and gets its outcome in its turn."""

    def __init__(self, kernel: Kernel, recorder: Recorder, patience: StandstillLimits | None = None) -> None:
        self.kernel = kernel
        self._recorder = recorder
        self._patience = patience or StandstillLimits()
        self._slots: dict[Call, Slot] = {}
        self._rests: dict[Domain, RestCount] = {}
        self._tasks: dict[asyncio.Task[Any], Domain] = {}
        self._postponed = Postponed()
        self._still: asyncio.Handle | None = None
        self.is_creating = False
        """Whether a task is being created for a call: it is no task of the program."""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def make(
        self, scope: CallScope, asked: CallIdentity, *, is_repeatable: bool = True, call_id: str = ""
    ) -> Call:
        """Return the next call of a scope.

        Raises:
            AttemptOver: the call differs from the recorded one.
        """
        self.see(scope.domain, _task())
        call = self.kernel.make(scope, asked, is_repeatable=is_repeatable, call_id=call_id)
        self._stir()
        if self.kernel.over is not None:
            raise self._end(self.kernel.over)
        return call

    async def perform(self, call: Call, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return the outcome of a call: a recorded one, or the result of carrying it out.

        An error that is an outcome is returned by `act`, not raised: what `act` raises ends the attempt.

        Raises:
            CancelledError: the program cut the call short.
            AttemptOver: the attempt is over.
        """
        got: Got = self.ask(call)
        if got is None:
            got = await self.wait(call)
        if isinstance(got, RecordRow):
            return got.outcome
        outcome, is_at_once = await self.carry_out(call, act)
        await self.known(call, outcome, is_at_once=is_at_once)
        return outcome

    def ask(self, call: Call) -> Begin | RecordRow | None:
        """Decide about a call that is awaited now; None: `wait` for it.

        Raises:
            CancelledError: a cancellation that was put off strikes.
            AttemptOver: the attempt is over.
        """
        task = _task()
        self.see(call.domain, task)
        is_struck = self._postponed.strikes(task)
        decision = self.kernel.ask(call, is_struck=is_struck)
        self._stir()
        if is_struck and (call.is_struck or isinstance(decision, CutShort)):
            self._postponed.drop(task)
        match decision:
            case Begin():
                return decision
            case ReturnAtOnce(row):
                return row
            case Hold():
                self._slots[call] = Slot()
                self._count(call.domain)
                return None
            case CutShort():
                self._write_cut(decision)
                raise asyncio.CancelledError
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
        slot = self._slots[call]
        try:
            while slot.result is NOTHING:
                slot.future = asyncio.get_running_loop().create_future()
                try:
                    await slot.future
                except asyncio.CancelledError:
                    self._cancelled(call, slot)
        finally:
            del self._slots[call]
        return self._received(slot.result)

    async def carry_out(self, call: Call, act: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, bool]:
        """Return the result of a call, and whether it came back at once. What may not be repeated comes to its end.

        Raises:
            CancelledError: the program cut the call short.
        """
        if not call.is_repeatable:
            return await self._to_end(act()), False
        mark = TurnMark() if call.epoch == NOT_ALONE else None
        try:
            result = await act()
        except asyncio.CancelledError:
            if self.kernel.over is not None:
                raise
            self._cut_under_way(call)
            raise
        finally:
            if mark is not None:
                mark.drop()
        return result, mark is not None and not mark.has_turned

    async def known(self, call: Call, outcome: Any, *, is_at_once: bool = False) -> None:
        """Record the outcome of a call, and return when it is its turn."""
        takes_turn = self.kernel.known(call, is_at_once=is_at_once)
        self._recorder.ended(call, outcome, takes_turn=takes_turn)
        self._stir()
        self._postponed.look_back(_task())
        if takes_turn:
            self._slots[call] = Slot()
            self._count(call.domain)
            await self.wait(call)
        elif self.kernel.has_waits:
            self._count(call.domain)

    async def park(self, call: Call, wait: str, *, may_withdraw: bool = True) -> None:
        """Wait for something outside of the run: this never returns.

        Raises:
            CancelledError: the program does not want to wait any longer.
            AttemptOver: the run pauses.
        """
        self.kernel.park(call, wait, may_withdraw=may_withdraw)
        self._stir()
        self._slots[call] = Slot()
        self._count(call.domain)
        await self.wait(call)

    async def gate(self, scope: CallScope, name: str) -> bool:
        """Return whether the program takes the new way at a gate."""
        self.see(scope.domain, _task())
        decision = self.kernel.gate(scope, name)
        self._stir()
        match decision:
            case GateAnswer():
                self._write_gate(scope.path, scope.number, name, decision)
                return decision.is_open
            case HeldGate(gate):
                self._slots[gate] = Slot()
                self._count(scope.domain)
                answer = await self.wait(gate)
                return isinstance(answer, GateAnswer) and answer.is_open
            case Pause() | Diverge():
                raise self._end(decision)
            case _:
                assert_never(decision)

    async def ended(self) -> None:
        """Check that a program that has ended has used its record; wait for its tasks, if they may use it.

        Raises:
            AttemptOver: the attempt is over.
        """
        while True:
            match decision := self.kernel.program_ended():
                case End():
                    return
                case Hold():
                    self._count(next(iter(self._tasks.values())))
                    await asyncio.wait({*self._tasks, self._over}, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.sleep(0)
                case Pause() | Diverge():
                    raise self._end(decision)
                case _:
                    assert_never(decision)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have made calls and have not ended."""
        return list(self._tasks)

    async def over(self) -> Over:
        """Return the decision that ends the attempt, when it comes."""
        await asyncio.shield(self._over)
        if self.kernel.over is None:
            raise AssertionError("the attempt is over by a decision")
        return self.kernel.over

    # Cancellation

    def _cancelled(self, call: Call, slot: Slot) -> None:
        """Decide about the cancellation of a waiting call; an outcome that is there by now is given."""
        task = _task()
        if slot.result is not NOTHING:
            if slot.result is not _CUT:
                self._postponed.add(task)
            return
        decision = self.kernel.cancel(call)
        self._stir()
        match decision:
            case CutShort() | Withdraw():
                self._write_cut(decision)
                slot.settle(_CUT)
            case PutOff():
                self._postponed.add(task)
            case Hold():
                self._count(call.domain)
            case Pause() | Diverge():
                slot.settle(decision)
            case _:
                assert_never(decision)

    def _cut_under_way(self, call: Call) -> None:
        decision = self.kernel.cancel(call)
        self._stir()
        if isinstance(decision, CutShort):
            self._write_cut(decision)
        if self.kernel.has_waits:
            self._count(call.domain)

    async def _to_end(self, acting: Coroutine[Any, Any, Any]) -> Any:
        self.is_creating = True
        inner = asyncio.create_task(acting)
        self.is_creating = False
        while not inner.done():
            try:
                await asyncio.wait([inner])
            except asyncio.CancelledError:
                if self.kernel.over is not None:
                    inner.cancel()
                    raise
                self._postponed.add(_task())
        return inner.result()

    def _write_cut(self, cut: CutShort | Withdraw) -> None:
        if cut.passed is not None:
            self._recorder.cut(cut.call, cut.passed)

    # Rest

    def see(self, domain: Domain, task: asyncio.Task[Any]) -> None:
        """Take in that the program has a further task; without this, a task is seen when it makes a call."""
        if task is not domain.owner and self.kernel.see(domain, task):
            self._tasks[task] = domain
            task.add_done_callback(partial(self._task_ended, domain))

    def _task_ended(self, domain: Domain, task: asyncio.Task[Any]) -> None:
        self.kernel.task_ended(domain, task)
        self._tasks.pop(task, None)
        self._postponed.drop(task)
        self._stir()
        if self._slots:
            self._count(domain)

    def _count(self, domain: Domain) -> None:
        rest = self._rests.get(domain)
        if rest is None:
            rest = self._rests[domain] = RestCount(domain, self._at_rest)
        rest.count()

    def _at_rest(self, rest: RestCount) -> bool:
        """Obey the decision for a program at rest; return whether to go on counting."""
        decision = self.kernel.rest(rest.domain)
        match decision:
            case Idle():
                return False
            case StandStill(took=took):
                self._wait_still(decision, took + self._patience.margin)
                return False
            case Pause() if decision is not self.kernel.over:
                self._wait_still(decision, self._patience.grace)
                return False
            case Pause() | Diverge():
                self._end(decision)
                return False
            case _:
                self._obey(decision)
                return bool(self._slots)

    def _obey(self, decision: Deliver | CutShort | Release | AnswerGates) -> None:
        match decision:
            case Deliver(call, row):
                self._settle(call, row)
            case CutShort(call):
                self._write_cut(decision)
                self._settle(call, _CUT)
            case Release(calls):
                for call in calls:
                    self._settle(call, BEGIN_AGAIN if call.has_begun else BEGIN)
            case AnswerGates(gates, answer):
                for gate in gates:
                    self._write_gate(gate.path, gate.number, gate.asked.label, answer)
                    self._settle(gate, answer)
            case _:
                assert_never(decision)

    def _settle(self, call: Call, result: object) -> None:
        slot = self._slots.get(call)
        if slot is not None:
            slot.settle(result)

    def _received(self, result: object) -> Got:
        if self.kernel.over is not None:
            raise self._end(self.kernel.over)
        if result is _CUT:
            raise asyncio.CancelledError
        self._postponed.look_back(_task())
        return result if isinstance(result, Begin | RecordRow | GateAnswer) else None

    def _write_gate(self, path: str, number: int, name: str, answer: GateAnswer) -> None:
        if answer.is_new:
            self._recorder.changed(path, number, name)

    # Standing still

    def _wait_still(self, still: StandStill | Pause, seconds: float) -> None:
        """Confirm a decision if nothing moves for some time; a movement takes it back."""
        if self._still is None:
            self._still = asyncio.get_running_loop().call_later(seconds, self._confirm, still)

    def _stir(self) -> None:
        """Take in that the program moves."""
        if self._still is not None:
            self._still.cancel()
            self._still = None
            for rest in self._rests.values():
                rest.count()

    def _confirm(self, still: StandStill | Pause, turns: int = REST) -> None:
        """Confirm a decision after a last rest: a loop that was late runs the program's timers together with this."""
        if turns:
            self._still = asyncio.get_running_loop().call_soon(self._confirm, still, turns - 1)
            return
        self._still = None
        decision = self.kernel.confirm(still)
        if isinstance(decision, AnswerGates):
            self._obey(decision)
            for rest in self._rests.values():
                rest.count()
        else:
            self._end(decision)

    def _end(self, over: Over) -> AttemptOver:
        """Wake everything that waits, and cancel the tasks: the attempt is over."""
        if not self._over.done():
            self._over.set_result(None)
            for slot in self._slots.values():
                slot.settle(over)
            current = asyncio.current_task()
            for task in self._tasks:
                if task is not current:
                    task.cancel()
        return AttemptOver(over)


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls of a run are made inside of a task")
    return task
