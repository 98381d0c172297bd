"""`DurableReplay`: the record and the calls of a durable run, over the replay kernel and its shell."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pilotage.agent.ports.persistence import JournalRow
from pilotage.runtime.journal.decisions import Begin, Diverge, Over
from pilotage.runtime.journal.divergence import (
    CallShown,
    Sides,
    asked_about_side,
    asked_side,
    asking_line,
    recorded_side,
)
from pilotage.runtime.journal.interruptions import Paused, RunDiverged, RunInterruption
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.positions import Call, CallScope, Record, RecordRow
from pilotage.runtime.journal.record_rows import record_rows
from pilotage.runtime.journal.recording import difference, name_in, named
from pilotage.runtime.journal.replay import Replay, RunningPlace
from pilotage.runtime.journal.scope import Action, StepScope, running_task
from pilotage.runtime.journal.stretches import Stretches
from pilotage.runtime.journal.turns import Got, Turns

_ENDED = "the program has ended"
_NO_ROWS: tuple[JournalRow, ...] = ()
_NO_STRETCHES = Stretches(())


class DurableReplay(Replay):
    """The recorded actions of a run, and its calls in this attempt: numbered, held, parked, given in turn."""

    shields = True

    def __init__(
        self,
        ledger: Ledger,
        rows: Sequence[JournalRow] = _NO_ROWS,
        claims: Sequence[JournalRow] = _NO_ROWS,
        stretches: Stretches = _NO_STRETCHES,
    ) -> None:
        super().__init__(ledger, rows, claims)
        self._stretches = stretches
        self._ledger = ledger
        self.has_record = bool(self._actions)
        self._kernel = Kernel(Record(record_rows(rows, claims))) if rows else Kernel()
        self._turns: RunTurns | None = None
        self._parked: dict[Call, Paused] = {}
        self._has_unshown = False
        self._divergence: RunDiverged | None = None
        self._places: dict[str, RunningPlace] = {}

    @property
    def is_used_up(self) -> bool:
        return not self._kernel.is_replaying

    @property
    def turns(self) -> RunTurns:
        """Return the calls of this attempt; made when the program makes its first call."""
        if self._turns is None:
            self._turns = self.liveness.turns = RunTurns(self._kernel, self)
            self._turns.when_over, self._turns.when_waiting = self.when_over, self._show_questions
            self._turns.is_stopping = self.liveness.is_stopping
        return self._turns

    @property
    def over(self) -> RunInterruption | None:
        over = self._kernel.over
        return None if over is None else self.interruption(over)

    @property
    def pauses(self) -> Sequence[Paused]:
        return tuple(self._parked.values())

    @property
    def is_draining(self) -> bool:
        return self._kernel.is_draining

    def drain(self) -> None:
        self._kernel.is_draining = True

    def release(self) -> None:
        super().release()
        if self._turns is not None:
            self._turns.release()
            self._turns = self.liveness.turns = None

    def make(self, scope: StepScope, action: Action) -> Call | None:
        calls = scope.calls or self._opened(scope)
        turns, is_repeatable = self._turns or self.turns, action.may_be_repeated
        try:
            # A scope with an owner is always that of the running task.
            call = turns.make(calls, action, scope.owner, is_repeatable, action.id)
        except RunDiverged:
            self.liveness.meet(diverged := self._diverged_from(calls, action))
            raise diverged from None
        if call.asked is not action:
            call.asked, call.id = action, action.id
        return call

    def _diverged_from(self, calls: CallScope, action: Action) -> RunDiverged:
        recorded = calls.recorded.get(calls.number)
        row = (
            self._actions[recorded.id].row if recorded is not None and recorded.id in self._actions else None
        )
        words = f"a question or signal of {recorded} is recorded" if row is None else difference(row, action)
        sides = Sides(self._side_of(recorded), asked_side(action, calls.number), asking_line())
        self._divergence = RunDiverged(action.id, words, sides)
        return self._divergence

    def _side_of(self, recorded: Call | None) -> CallShown | None:
        """Return a recorded call as readers see it; one that had not begun is known by its question."""
        if recorded is None:
            return None
        rows = self._actions.get(recorded.id)
        if rows is not None:
            return recorded_side(rows.before, rows.after)
        asked = self._question_about(recorded.id)
        if asked is None:
            return CallShown(recorded.id, "", recorded.number)
        return asked_about_side(recorded.id, recorded.number, asked.row)

    def _opened(self, scope: StepScope) -> CallScope:
        kernel, host = self._kernel, scope.host
        if host is not None:
            scope.calls = kernel.beside(host.calls or self._opened(host), scope.path)
        else:
            scope.calls = kernel.open_scope(scope.path, scope.owner or running_task(), scope.around)
        return scope.calls

    async def gate(self, scope: StepScope, name: str) -> tuple[bool, int | None]:
        turns, calls = self.turns, scope.calls or self._opened(scope)
        is_open = await turns.gate(calls, name)
        return is_open, turns.opened.pop((calls.path, name), None)

    def see(self, scope: StepScope, task: asyncio.Task[object]) -> None:
        self.turns.see((scope.calls or self._opened(scope)).domain, task)

    def ask(self, call: Call, task: asyncio.Task[object] | None = None) -> Begin | RecordRow | None:
        return (self._turns or self.turns).ask(call, task)

    async def wait(self, call: Call) -> Got:
        places = self._places_of(call) if call.end is None else ()
        for place in places:
            place.leave()
        got = await self.turns.wait(call)
        for place in places:
            await place.take()
        return got

    def recorded(self, call: Call) -> int | None:
        call.takes_turn = (self._turns or self.turns).recorded(call, call.is_sync)
        return call.domain.passed + len(call.domain.turns) - 1 if call.takes_turn else None

    async def hold_again(self, call: Call) -> None:
        if self.turns.hold_again(call):
            await self.wait(call)

    def forget(self, call: Call) -> None:
        self._kernel.forget(call)

    async def turn(self, call: Call) -> None:
        if self.turns.holds(call):
            await self.turns.wait(call)

    @contextmanager
    def holding_turn(self, call: Call) -> Generator[None]:
        call.domain.keeps_turn += 1
        try:
            yield
        finally:
            call.domain.keeps_turn -= 1
            self.turns.count(call.domain)

    async def to_end(self, acting: Coroutine[Any, Any, Any]) -> Any:
        return await self.turns.to_end(acting)

    async def park(self, call: Call, pause: Paused, *, may_withdraw: bool) -> None:
        self._parked[call] = pause
        self._has_unshown = self._has_unshown or bool(pause.wait_ids)
        if not self._kernel.is_alone(call):
            self._show_questions()
        for place in self._places_of(call):
            place.leave()
        wait = pause.wait_ids[0] if pause.wait_ids else pause.reason or "pause"
        try:
            await self.turns.park(call, wait, may_withdraw=may_withdraw)
        except asyncio.CancelledError:
            del self._parked[call]
            raise
        except Paused:
            raise pause from None

    def _show_questions(self) -> None:
        """Commit the questions of parked calls while other tasks go on; a pause commits them itself."""
        if self._has_unshown:
            self._has_unshown = False
            self._ledger.commit_soon()

    async def idle(self, call: Call, pause: Paused, waiting: Coroutine[Any, Any, None]) -> None:
        turns = self.turns
        happening = asyncio.ensure_future(waiting)
        happening.add_done_callback(lambda _: turns.wake(call))
        try:
            await self.park(call, pause, may_withdraw=True)
        finally:
            happening.cancel()
        del self._parked[call]

    def limit(self, path: str, place: RunningPlace | None) -> None:
        self._places.pop(path, None)
        if place is not None:
            self._places[path] = place

    def _places_of(self, call: Call) -> list[RunningPlace]:
        if not self._places:
            return []
        return [place for path, place in self._places.items() if f"{call.path}/".startswith(f"{path}/")]

    def cut(self, call: Call, *, has_acted: bool) -> bool:
        call.has_not_acted = not has_acted
        self.turns.cut_under_way(call)
        return call.cut_at is not None

    def folded(self, action: Action) -> JournalRow | None:
        recorded = self.take(action) if self.has_record else None
        if recorded is None:
            return None
        self._kernel.folded(action.id)
        return recorded.after

    def finished_turns(self, loop_id: str) -> list[JournalRow]:
        turns = super().finished_turns(loop_id)
        for row in turns:
            self._kernel.folded(row.action_id)
        return turns

    def folded_turns(self, scope: StepScope) -> Sequence[Sequence[JournalRow]]:
        if not self._stretches:
            return ()
        calls = scope.calls or self._opened(scope)
        stretch = self._stretches.at(calls.path, self._kernel.coming_number(calls))
        return () if stretch is None else self._stretches.turns_in(stretch)

    def pass_over(self, scope: StepScope, rows: Sequence[JournalRow], folded_by: Action | None) -> None:
        calls = scope.calls or self._opened(scope)
        for row in rows:
            scope.pass_over(row.action_id)
            calls.number = row.number
        if folded_by is not None:
            self.folded(folded_by)

    def calls_in(self, scope: StepScope) -> CallScope | None:
        return scope.calls or self._opened(scope)

    def rows_below(self, path: str) -> Iterator[JournalRow]:
        below = f"{path}/"
        for action_id, recorded in self._actions.items():
            if action_id.startswith(below):
                yield from filter(None, (recorded.before, recorded.after))

    def pause_below(self, path: str) -> Paused | None:
        """Return what a parked call at a path or below it waits for; None if there is none."""
        below = f"{path}/"
        return next(
            (pause for call, pause in self._parked.items() if f"{call.path}/".startswith(below)), None
        )

    async def part_ended(self, path: str) -> None:
        if self._parked and (waiting := self.pause_below(path)) is not None:
            raise waiting
        if self._kernel.is_replaying:
            await self.turns.ended(path)

    def returned(self) -> None:
        if self._kernel.is_replaying:
            self.turns.returned()

    async def ended(self) -> None:
        if self.has_record or self._parked or self._kernel.over is not None:
            await self.turns.ended()
        if self._parked and self._turns is not None:
            raise self.interruption(await self._turns.over())

    def interruption(self, over: Over) -> RunInterruption:
        """Return the exception by which the program learns that the attempt is over."""
        if isinstance(over, Diverge):
            self._divergence = self._divergence or self._diverged(over)
            return self._divergence
        ids = tuple(wait for pause in self._parked.values() for wait in pause.wait_ids)
        with_reason = next((pause for pause in self._parked.values() if pause.reason), None)
        if with_reason is None:
            return Paused(*ids)
        return type(with_reason)(*ids, reason=with_reason.reason, facts=with_reason.facts)

    def _diverged(self, over: Diverge) -> RunDiverged:
        recorded = self._actions.get(over.action_id)
        asked = "the program left it out" if over.asked == _ENDED else over.asked
        stands = "".join(f"; {each}" for each in over.tasks)
        if recorded is not None:
            what, side = named(recorded.row), recorded_side(recorded.before, recorded.after)
        elif (question := self._question_about(over.action_id)) is not None:
            what = f"a question about {name_in(over.action_id)!r}"
            side = asked_about_side(over.action_id, question.row.number, question.row)
        else:
            what, side = over.recorded, None
        difference = f"{what} is recorded, and {asked}{stands}"
        return RunDiverged(over.action_id or over.where, difference, Sides(side))


class RunTurns(Turns):
    """The calls of one attempt at a run."""

    def __init__(self, kernel: Kernel, replay: DurableReplay) -> None:
        super().__init__(kernel)
        self._replay = replay

    def interruption(self, over: Over) -> BaseException:
        return self._replay.interruption(over)
