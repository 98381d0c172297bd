"""Calls that wait for a decision of the replay kernel: their slots and turns, the program at rest.

Public asyncio API only. Turns of the loop are counted only while a call waits: a live program of one task never does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, assert_never

from pilotage.runtime.journal.decisions import (
    BEGIN,
    BEGIN_AGAIN,
    AnswerGates,
    CutShort,
    Deliver,
    Diverge,
    GateAnswer,
    Idle,
    Over,
    Pause,
    Release,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import Call, Domain
from pilotage.values import value

REST = 12
"""The turns of the event loop without movement after which a program is at rest."""

NOTHING = object()
"""The result of a slot that has none yet."""

Words: TypeAlias = tuple[object, ...]
"""The arguments of a cancellation, by which its sender knows it again."""


class Slot:
    """A place where one task waits for a decision; a cancelled task finds the decision here all the same."""

    __slots__ = ("cancelled", "future", "result")

    def __init__(self, cancelled: Words | None = None) -> None:
        self.cancelled = cancelled
        """What the cancellation of its task says; None if it was not cancelled."""
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
    """Cancellations that were put off to the next call of their task, each with its level of `Task.cancelling()`.

    The first one of a task counts: what comes on top of it, from a time-out inside, is taken back by itself.
    """

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: dict[asyncio.Task[object], tuple[int, Words]] = {}

    def add(self, task: asyncio.Task[object], level: int, words: Words) -> None:
        """Put the cancellation off that the task has just got; `level` is what it had when it began to wait.

        Of several that come in one turn of the loop the task gets one, and the level of the last.
        """
        self.levels.setdefault(task, (min(level + 1, task.cancelling()), words))

    def drop(self, task: asyncio.Task[object]) -> Words:
        """Forget the cancellation of a task, which has struck, or whose task has ended; return what it says."""
        return self.levels.pop(task, (0, ()))[1]

    def strikes(self, task: asyncio.Task[object]) -> bool:
        """Return whether a cancellation strikes at the call that a task makes now."""
        self._forget_taken_back(task)
        return task in self.levels

    def look_back(self, task: asyncio.Task[object]) -> None:
        """Check, right after the step in which a task gets an outcome, whether its cancellation was taken back.

        Later a `TaskGroup` may raise the level again: on Python 3.11 it leaves that of its parent raised.
        """
        if self.levels:
            asyncio.get_running_loop().call_soon(self._forget_taken_back, task)

    def _forget_taken_back(self, task: asyncio.Task[object]) -> None:
        found = self.levels.get(task)
        if found is not None and task.cancelling() < found[0]:
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
    level = task.cancelling()
    while not inner.done():
        try:
            await asyncio.wait([inner])
        except asyncio.CancelledError as cancelled:
            if is_over():
                inner.cancel()
                await asyncio.wait([inner])
                if not has_outcome(inner):
                    raise
                # It has come to its end, which is recorded.
                cancel_later(task)
                break
            postponed.add(task, level, cancelled.args)
    return inner.result()


def calling_task() -> asyncio.Task[object]:
    """Return the task that makes a call."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls of a run are made inside of a task")
    return task


def has_outcome(ended: asyncio.Future[Any]) -> bool:
    """Return whether a finished action gave a result or an error: it was neither cancelled nor interrupted."""
    return not ended.cancelled() and isinstance(ended.exception(), Exception | None)


def cancel_later(task: asyncio.Task[object]) -> None:
    """Let a cancellation that the running task has just got strike again when the task waits next."""
    task.uncancel()
    task.cancel()


class AttemptOver(BaseException):
    """The attempt is over; every further call raises it again."""

    def __init__(self, over: Over) -> None:
        super().__init__(over)
        self.over = over


@value
class StandstillLimits:
    """The seconds without movement: before a pause, and beyond the recorded time before a divergence."""

    grace: float = 0.02
    margin: float = 1.0


class CutMark:
    """The result of a wait that ends with the cancellation of the call."""


CUT = CutMark()
WOKEN = object()
"""The result of a parked call that goes on."""
STOPPED = object()
"""The result of a wait that an end from outside of the program has ended."""


class WaitingCalls:
    """The calls of one attempt that wait, and the decisions about them when the program is at rest."""

    when_over: Callable[[], None] | None = None
    """Called when the attempt is over by a decision of the kernel: the owner of the run may be waiting elsewhere."""
    when_waiting: Callable[[], None] | None = None
    """Called when the program is at rest while some calls wait for events outside of the run and others go on."""
    stopped_by: BaseException | None = None
    """The end that came from outside of the program."""
    is_stopping: bool = False
    """Whether cancellations come from outside of the program: the program did not request them."""

    def __init__(self, kernel: Kernel, limits: StandstillLimits | None = None) -> None:
        self.kernel = kernel
        self.opened: dict[tuple[str, str], int] = {}
        """The gates that are open from now on, by path and name, each with the number of calls before it."""
        self._limits = limits or StandstillLimits()
        self._slots: dict[Call, Slot] = {}
        self._rests: dict[Domain, RestCount] = {}
        self._tasks: dict[asyncio.Task[object], Domain] = {}
        self._postponed = Postponed()
        self._marks: dict[Call, TurnMark] = {}
        self._still: asyncio.Handle | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def over(self) -> Over:
        """Return the decision that ends the attempt, when it comes."""
        await asyncio.shield(self._over)
        if self.kernel.over is None:
            raise AssertionError("the attempt is over by a decision")
        return self.kernel.over

    def tasks(self) -> list[asyncio.Task[object]]:
        """Return the tasks that have made calls and have not ended."""
        return list(self._tasks)

    def count(self, domain: Domain) -> None:
        """Count turns of the loop until the program is at rest in a domain."""
        rest = self._rests.get(domain)
        if rest is None:
            rest = self._rests[domain] = RestCount(domain, self._at_rest)
        rest.count()

    def _at_rest(self, rest: RestCount) -> bool:
        """Obey the decision for a program at rest; return whether to go on counting."""
        decision = self.kernel.rest(rest.domain)
        match decision:
            case Idle():
                if self.when_waiting is not None and self.kernel.has_waits:
                    self.when_waiting()
                return False
            case StandStill(took=took):
                self._wait_still(decision, took + self._limits.margin)
                return False
            case Pause() if decision is not self.kernel.over:
                if self.kernel.is_only_wait:
                    self.kernel.confirm(decision)
                    self._end(decision)
                else:
                    self._wait_still(decision, self._limits.grace)
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
                self._settle(call, CUT)
            case Release(calls):
                for call in calls:
                    self._settle(call, BEGIN_AGAIN if call.has_begun else BEGIN)
            case AnswerGates(gates, answer):
                for gate in gates:
                    self._write_gate(gate.path, gate.number, gate.wait or "", answer)
                    self._settle(gate, answer)
            case _:
                assert_never(decision)

    def _settle(self, call: Call, result: object) -> None:
        slot = self._slots.get(call)
        if slot is not None:
            slot.settle(result)

    def _write_cut(self, cut: CutShort | Withdraw) -> None:
        """Note the place of a cut among the turns; the door writes it with the next row."""
        if cut.passed is not None:
            cut.call.cut_at = cut.passed

    def _write_gate(self, path: str, number: int, name: str, answer: GateAnswer) -> None:
        if answer.is_new:
            self.opened[path, name] = number

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
        if isinstance(decision, AnswerGates | Release):
            self._obey(decision)
            for rest in self._rests.values():
                rest.count()
        else:
            self._end(decision)

    def holds(self, call: Call) -> bool:
        """Return whether a call waits here for a decision, or has got one and not taken it."""
        return call in self._slots

    def wake(self, call: Call) -> None:
        """Let a parked call go on: what it waits for has happened in this process."""
        self._stir()
        self._settle(call, WOKEN)

    def stop(self, end: BaseException) -> None:
        """End every wait: the attempt ends for a reason outside of its program."""
        self.stopped_by, self.is_stopping = self.stopped_by or end, True
        for slot in self._slots.values():
            slot.settle(STOPPED)

    def go_on(self) -> None:
        """Take an end from outside back: it was refused."""
        self.stopped_by, self.is_stopping = None, False

    def release(self) -> None:
        """Drop what refers to the attempt, and end every wait: it is over."""
        self.stop(asyncio.CancelledError())
        self.when_over = self.when_waiting = None
        for rest in self._rests.values():
            rest.drop()
        self._rests.clear()
        if self._still is not None:
            self._still.cancel()
            self._still = None

    def interruption(self, over: Over) -> BaseException:
        """Return the exception by which the program learns that the attempt is over."""
        return AttemptOver(over)

    def _end(self, over: Over) -> BaseException:
        """Wake everything that waits, and cancel the tasks: the attempt is over."""
        if not self._over.done():
            self._over.set_result(None)
            for slot in self._slots.values():
                slot.settle(over)
            current = asyncio.current_task()
            for task in self._tasks:
                if task is not current:
                    task.cancel()
            if self.when_over is not None:
                self.when_over()
        return self.interruption(over)
