"""Runs of plain asyncio programs over the replay kernel, with a record in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pilotage.runtime.journal.decisions import CutShort, Diverge, GateAnswer, Pause, Withdraw
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import Call, CallIdentity, CallScope, Record, RecordRow, RowStage
from pilotage.runtime.journal.turns import Got, Turns
from pilotage.runtime.journal.waiting import AttemptOver, StandstillLimits

LATENCIES = (None, 0, 0, 0.0003, 0.0006)
"""Seconds that a read takes; None returns at once."""

_place: ContextVar[tuple[CallScope, asyncio.Task[Any] | None]] = ContextVar("_place")


@dataclass
class Ended:
    """How an attempt ended."""

    rows: tuple[RecordRow, ...]
    how: str
    output: Any
    begun: list[str]
    over: Pause | Diverge | None


class Rows:
    """The record of a run, in memory."""

    def __init__(self, rows: Sequence[RecordRow]) -> None:
        self.rows = list(rows)
        self.ids: dict[Call, str] = {}

    def ended(self, call: Call, outcome: Any, *, takes_turn: bool) -> None:
        self.add(RowStage.ENDED, call, takes_turn=takes_turn, outcome=outcome)

    def cut(self, call: Call, passed: int) -> None:
        self.add(RowStage.CUT, call, passed=passed)

    def changed(self, path: str, number: int, name: str) -> None:
        self.rows.append(RecordRow(RowStage.CHANGED, path, number, CallIdentity("gate", name, ""), name))

    def add(self, stage: RowStage, call: Call, **more: Any) -> None:
        row = RecordRow(stage, call.path, call.number, call.asked, self.ids[call])
        self.rows.append(replace(row, **more))


class PerformedTurns(Turns):
    """The calls of a test: carried out and recorded in the way of the door."""

    def __init__(self, kernel: Kernel, journal: Rows, patience: StandstillLimits) -> None:
        super().__init__(kernel, patience)
        self._journal = journal
        self.shielded: set[Any] = set()
        """What runs in a task that the runtime creates for a call: it is no task of the program."""

    def _write_cut(self, cut: CutShort | Withdraw) -> None:
        if cut.passed is not None:
            self._journal.cut(cut.call, cut.passed)

    def _write_gate(self, path: str, number: int, name: str, answer: GateAnswer) -> None:
        if answer.is_new:
            self._journal.changed(path, number, name)

    async def to_end(self, acting: Coroutine[Any, Any, Any]) -> Any:
        self.shielded.add(acting)
        return await super().to_end(acting)

    async def perform(self, call: Call, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return the outcome of a call: a recorded one, or the result of carrying it out."""
        got: Got = self.ask(call)
        if got is None:
            got = await self.wait(call)
        if isinstance(got, RecordRow):
            return got.outcome
        outcome = await self._carried_out(call, act)
        await self.known(call, outcome)
        return outcome

    async def known(self, call: Call, outcome: Any) -> None:
        """Record the outcome of a call, and return when it is its turn."""
        takes_turn = self.recorded(call)
        self._journal.ended(call, outcome, takes_turn=takes_turn)
        if takes_turn:
            await self.wait(call)

    async def _carried_out(self, call: Call, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if not call.is_repeatable:
            return await self.to_end(act())
        try:
            return await act()
        except asyncio.CancelledError:
            self.cut_under_way(call)
            raise


class Run:
    """One attempt. The methods are what a program may call."""

    def __init__(
        self,
        rows: Sequence[RecordRow],
        seed: int,
        *,
        kernel: type[Kernel] = Kernel,
        answers: frozenset[str] = frozenset(),
        patience: StandstillLimits | None = None,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - chance of a test
        self.journal = Rows(rows)
        self.kernel = kernel(Record(rows))
        self.turns = PerformedTurns(self.kernel, self.journal, patience or StandstillLimits(0.02, 0.15))
        self.answers = answers
        self.begun: list[str] = []
        self.world: list[str] = []
        self._ordinals: dict[str, int] = {}

    def make(self, kind: str, label: str, given: object = None) -> Call:
        """Make a call of the running task."""
        scope, owner = _place.get()
        task = asyncio.current_task()
        if owner is not task:
            scope = self.kernel.branch(scope, f"{label}:{given}")
            _place.set((scope, task))
        is_repeatable = kind in ("read", "idempotent")
        call = self.turns.make(scope, CallIdentity(kind, label, f"{given}"), is_repeatable=is_repeatable)
        name = f"{scope.path}/{label}"
        self._ordinals[name] = self._ordinals.get(name, 0) + 1
        self.journal.ids[call] = f"{name}#{self._ordinals[name]}"
        return call

    def read(self, label: str, given: object = None, seconds: float | None = -1) -> Awaitable[str]:
        """Read something; it may return at once. The call is made now, not when it is awaited."""
        call = self.make("read", label, given)

        async def act() -> str:
            latency = self.random.choice(LATENCIES) if seconds == -1 else seconds
            if latency is not None:
                await asyncio.sleep(latency)
            return f"{label}({given})"

        return self.turns.perform(call, lambda: self._begin(call, act))

    def pay(self, label: str, given: object = None, seconds: float = 0) -> Awaitable[str]:
        """Do what may not be repeated."""
        call = self.make("pay", label, given)

        async def act() -> str:
            await asyncio.sleep(seconds)
            self.world.append(f"{label}({given})")
            return f"{label}({given})"

        return self.turns.perform(call, lambda: self._begin(call, act))

    def approve(self, label: str, given: object = None) -> Awaitable[str]:
        """Do what a person must approve."""
        call = self.make("approve", label, given)
        wait = self.journal.ids[call]

        async def act() -> str:
            if wait not in self.answers:
                self.journal.add(RowStage.BESIDE, call)
                await self.turns.park(call, wait)
            return f"{label}({given})"

        return self._approved(call, act)

    async def _approved(self, call: Call, act: Callable[[], Coroutine[Any, Any, str]]) -> str:
        got = self.turns.ask(call)
        if got is None:
            got = await self.turns.wait(call)
        if isinstance(got, RecordRow):
            return str(got.outcome)
        outcome = await self._begin(call, act)
        await self.turns.known(call, outcome)
        return outcome

    def tool(self, label: str, body: Callable[[], Coroutine[Any, Any, str]]) -> Awaitable[str]:
        """Call a tool that makes calls itself and may not be repeated."""
        call = self.make("tool", label)

        async def act() -> str:
            task = asyncio.current_task()
            scope = self.kernel.open_scope(self.journal.ids[call], task, call)
            _place.set((scope, task))
            return await body()

        return self.turns.perform(call, lambda: self._begin(call, act))

    def changed(self, name: str) -> Awaitable[bool]:
        return self.turns.gate(_place.get()[0], name)

    async def _begin(self, call: Call, act: Callable[[], Coroutine[Any, Any, str]]) -> str:
        if self.kernel.is_replaying and not call.has_inside:
            raise AssertionError(f"{call} begins before the end of the record")
        self.begun.append(str(call))
        if not call.is_repeatable and not call.has_begun:
            self.journal.add(RowStage.BEGUN, call)
            call.has_begun = True
        return await act()


Program: TypeAlias = Callable[[Run], Coroutine[Any, Any, Any]]


def watch_tasks(run: Run) -> None:
    """Report every task of the program when it is created."""

    def create(loop: asyncio.AbstractEventLoop, body: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(body, loop=loop, **options)
        place = _place.get(None)
        if place is not None and body not in run.turns.shielded:
            run.turns.see(place[0].domain, task)
        return task

    asyncio.get_running_loop().set_task_factory(create)


async def drive(program: Program, run: Run, seconds: float = 10) -> Ended:
    """Run a program to the end of the attempt."""

    async def root() -> Any:
        task = asyncio.current_task()
        _place.set((run.kernel.open_scope("run", task), task))
        try:
            return await program(run)
        finally:
            await run.turns.ended()

    task = asyncio.create_task(root())
    over = asyncio.ensure_future(run.turns.over())
    try:
        async with asyncio.timeout(seconds):
            await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
            await asyncio.wait([task])
    except TimeoutError:
        return Ended(tuple(run.journal.rows), "hung", None, run.begun, None)
    finally:
        await _clean_up(run, task, over)
    return _ended(run, task)


async def _clean_up(run: Run, task: asyncio.Task[Any], over: asyncio.Future[Any]) -> None:
    left = [each for each in run.turns.tasks() if each is not asyncio.current_task()]
    for each in (task, over, *left):
        each.cancel()
    await asyncio.gather(task, over, *left, return_exceptions=True)
    for each in (task, *left):
        if not each.cancelled():
            each.exception()


def _ended(run: Run, task: asyncio.Task[Any]) -> Ended:
    decided = run.kernel.over
    rows = tuple(run.journal.rows)
    if decided is not None:
        how = "paused" if isinstance(decided, Pause) else "diverged"
        return Ended(rows, how, None, run.begun, decided)
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or error is not None:
        return Ended(rows, f"failed: {error!r}", None, run.begun, None)
    return Ended(rows, "completed", task.result(), run.begun, None)


__all__ = ["AttemptOver", "Ended", "Program", "Run", "drive"]
