"""Folding the turns of a loop of the library: every few dozen turns one row stands for them in replay.

A stretch of turns is folded where the rows of its calls alone say what the loop got: no question, signal, handler,
further try or change of the context stands beside them, and no call is inside of them. The loop itself takes the turns
again from the rows, by the functions that it took them with; the row has their place only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Self

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.architecture import FoldedTurn, LoopTurns, ToolCallOutcome
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.architecture.tools import ScopedTools
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.door.run import Run
from pilotage.runtime.events.following import message_id_of
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RecordDamaged, RunDiverged, damage_of
from pilotage.runtime.journal.positions import CallScope
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row, object_field
from pilotage.runtime.journal.records import decode_response
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.scope import Action, StepScope, current_place, entered, running_task
from pilotage.runtime.journal.stretches import (
    CALLS,
    is_plain_outcome,
    is_plain_record,
    is_stretch,
    stretch_id,
)

TURNS_PER_FOLD = 24
"""So many turns are folded at once."""
_FEWEST = 8
"""Fewer turns before one that cannot be folded are not worth a row."""
_BEFORE, _AFTER, _FOLDED = JournalStage.BEFORE, JournalStage.AFTER, JournalStage.FOLDED


class _Turn(NamedTuple):
    """The numbers of the first and last call of a turn that was made, and of the events before it and up to its end."""

    first: int
    last: int
    emitted: int
    emitted_then: int


class DurableTurns(LoopTurns):
    """The turns of a loop of a durable run; `is_plain` says that the model calls the tools themselves."""

    def __init__(
        self,
        run: Run,
        tools: ScopedTools,
        output: StructuredOutputSpec | None,
        scope: StepScope | None,
        *,
        is_plain: bool,
    ) -> None:
        self._run = run
        self._tools = tools
        self._output = output
        with entered(scope):
            place = current_place()
        own = None if place is None else place.scope
        # Calls of another task than the owner's are in a scope of their own, which its first call makes.
        self._scope = own if own is not None and own.owner is running_task() else None
        self._is_plain = is_plain and self._scope is not None and self._scope.host is None
        self._folded: deque[tuple[Sequence[JournalRow], Action | None]] = deque()
        self._made: list[_Turn] = []
        self._begun = 0
        self._emitted = 0
        self._calls = _PlainCalls("" if own is None else own.path)

    def __enter__(self) -> Self:
        if self._is_plain:
            self._run.ledger.watches.append(self._calls.see)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_plain:
            self._run.ledger.watches.remove(self._calls.see)

    def folded(self) -> FoldedTurn | None:
        scope = self._scope
        if scope is None:
            return None
        run = self._run
        try:
            if not self._folded and run.replay.has_record:
                self._enter(scope)
            if not self._folded:
                self._begin(scope)
                return None
            return self._take(scope)
        except DamagedRecordError as error:
            damaged = RecordDamaged(damage_of(error))
            run.replay.liveness.meet(damaged)
            raise damaged from error
        except RunDiverged as diverged:
            run.replay.liveness.meet(diverged)
            raise

    def ended(self, calls: int) -> None:
        scope = self._scope
        if scope is None or not self._is_plain:
            return
        numbers = self._numbers(scope)
        if numbers is None:
            return
        # A call without a number was refused before it was made: its answer is in no row.
        if numbers.number == self._begun + 1 + calls and not (
            self._calls.is_spoiled or numbers.domain.others
        ):
            self._made.append(_Turn(self._begun + 1, numbers.number, self._emitted, self._run.events.emitted))
        if len(self._made) >= TURNS_PER_FOLD and self._may_fold():
            self._fold_made()

    def _enter(self, scope: StepScope) -> None:
        """Take up the folded turns that begin with the next call of the scope."""
        turns = self._run.replay.folded_turns(scope)
        if turns:
            fold = self._action(scope.path, turns[0][0].number, turns[-1][-1].number)
            self._folded.extend((rows, None) for rows in turns[:-1])
            # Until the last of them is taken the fold is not used up: a loop that ends before has diverged.
            self._folded.append((turns[-1], fold))

    def _take(self, scope: StepScope) -> FoldedTurn:
        run = self._run
        rows, fold = self._folded.popleft()
        run.replay.pass_over(scope, rows, fold)
        reply = rows[0]
        count_rows((reply,), run.spending)
        run.speaker = (reply.action_id, reply.epoch)
        response = decode_row(reply, self._response_in)
        outcomes = partial(self._outcomes_in, rows[1:])
        return FoldedTurn(response, message_id_of(run.id, reply.action_id, reply.epoch), outcomes)

    def _outcomes_in(
        self, rows: Sequence[JournalRow], calls: Sequence[ModelToolCall]
    ) -> list[ToolCallOutcome]:
        try:
            return self._tools.recorded(calls, rows)
        except DamagedRecordError as error:
            damaged = RecordDamaged(damage_of(error))
            self._run.replay.liveness.meet(damaged)
            raise damaged from error
        except RunDiverged as diverged:
            self._run.replay.liveness.meet(diverged)
            raise

    def _response_in(self, record: JsonObject) -> ModelResponse:
        return decode_response(object_field(record, words.RESULT), self._output)

    def _begin(self, scope: StepScope) -> None:
        numbers = self._numbers(scope) if self._is_plain else None
        if numbers is not None:
            self._begun = numbers.number
            self._emitted = self._run.events.emitted
            self._calls.is_spoiled = False

    def _numbers(self, scope: StepScope) -> CallScope | None:
        return self._run.replay.calls_in(scope)

    def _fold_made(self) -> None:
        """Fold the turns that were made, where there are enough of them in a row."""
        self._calls.read(self._run.replay)
        in_a_row: list[_Turn] = []
        for turn in filter(self._calls.are_plain, self._made):
            if in_a_row and in_a_row[-1].last + 1 != turn.first:
                self._fold(in_a_row, _FEWEST)
                in_a_row = []
            in_a_row.append(turn)
        self._made = [] if self._fold(in_a_row, TURNS_PER_FOLD) else in_a_row

    def _may_fold(self) -> bool:
        run = self._run
        return (
            run.replay.is_used_up
            and not run.handles_signals
            and not run.events.holds_back
            and not run.context_stage.is_dynamic
            and not run.replay.pauses
        )

    def _fold(self, turns: Sequence[_Turn], fewest: int) -> bool:
        """Write the row that stands for turns, if they are enough; return whether it is written."""
        if len(turns) < fewest:
            return False
        first, last = turns[0], turns[-1]
        record: JsonObject = {words.TURNS: len(turns)}
        if self._calls.path == words.RUN:
            # Beside a branch of the program others emit events.
            record = {**record, words.EMITTED: [first.emitted, last.emitted_then]}
        self._run.outcomes.fold(self._action(self._calls.path, first.first, last.last), record)
        return True

    def _action(self, path: str, first: int, last: int) -> Action:
        return self._run.action(stretch_id(path, first, last), AgentActionKind.STEP, words.TURNS)


class _PlainCalls:
    """The calls of a scope with rows that alone say what they gave, and those with something beside or inside."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._below = f"{path}/"
        self._plain: set[int] = set()
        self._others: set[int] = set()
        self._is_read = False
        self.is_spoiled = False
        """Whether something else than a plain call was written since the turn began."""

    def are_plain(self, turn: _Turn) -> bool:
        """Return whether all calls of a turn are plain."""
        numbers = range(turn.first, turn.last + 1)
        return self._plain.issuperset(numbers) and self._others.isdisjoint(numbers)

    def see(self, action: Action, stage: JournalStage, number: int, turn: int | None, record: object) -> None:
        """Take in a row that is written."""
        path, _, _ = action.id.rpartition("/")
        if path == self.path:
            if stage is _FOLDED or (stage is _BEFORE and action.kind in CALLS):
                return
            if stage is _AFTER and number and turn is None and is_plain_record(action.kind, record):
                self._plain.add(number)
                return
        elif not path.startswith(self._below):
            return
        self.is_spoiled = True

    def read(self, replay: Replay) -> None:
        """Take in the rows that earlier attempts wrote, once."""
        if self._is_read:
            return
        self._is_read = True
        numbers, plain, beside = dict[str, int](), set[int](), set[str]()
        for row in replay.rows_below(self.path):
            call_id = self._call_of(row.action_id)
            if row.kind not in CALLS or call_id != row.action_id:
                if is_stretch(row):
                    continue
                # A signal, timer or step has the number of its call, or takes one of its own.
                self._others.add(row.number)
                if call_id != row.action_id or not row.number:
                    beside.add(call_id)
                continue
            numbers[call_id] = row.number
            if row.stage is not _BEFORE:
                (plain if is_plain_outcome(row) else self._others).add(row.number)
        if beside <= numbers.keys():
            self._others.update(numbers[each] for each in beside)
            self._plain |= plain

    def _call_of(self, action_id: str) -> str:
        return self._below + action_id[len(self._below) :].partition("/")[0]
