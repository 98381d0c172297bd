"""The tries of one model call: the hold of each is a row before the model is asked, and each discarded try is one.

A try that was under way when its process died has a hold and no outcome. What it took cannot be known, so its hold
counts as spent: `lost_holds` finds it in the rows of the run, and the next try of the call records it as discarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.budget.holds import BudgetHold, LostHold
from pilotage.runtime.budget.spending import Spending
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.model_retry import DiscardedTry
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import HOLD, Effect, Outcome
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.record_fields import count_field, record_of, text_field
from pilotage.runtime.journal.records import decode_amount, encode_amount
from pilotage.runtime.journal.scope import StepScope

_STEP = AgentActionKind.STEP


class HoldRow(Effect):
    """The row of a hold: it is committed before the model is asked."""

    kind = HOLD

    def __init__(self, scope: StepScope, action: Action, record: JsonObject) -> None:
        super().__init__(scope, action)
        self._record = record

    async def act(self) -> object:
        return Outcome(self._record, self._record, None)

    def reuse(self, record: JsonObject) -> object:
        return None


class ModelTries:
    """The tries of one model call and of its summaries, in all attempts and in this one."""

    def __init__(self, run: Run, call: ModelEffect) -> None:
        self._run = run
        # Without the call itself, which refers to its tries: an attempt is freed without the collector.
        self._call_id, self._scope, self._number = call.action.id, call.scope, call.number
        self.count = self.here = 0
        """The numbers of replies that broke off or failed, in all attempts and in this one."""
        self._holds = 0

    async def recall(self) -> None:
        """Count the tokens of tries that earlier attempts discarded, and find the numbers of their holds."""
        run = self._run
        while run.replay.knows(self._id(words.TRY, self.count + 1)):
            self.count += 1
            spent, usage = await perform(run, self._discarded({}))
            run.spending.absorb(spent, usage)
        while run.replay.knows(self._id(words.HOLD, self._holds + 1)):
            self._holds += 1
            await perform(run, self._hold_row({}))

    async def discard(self, record: JsonObject, hold_number: int | None) -> None:
        """Record a try that is not the reply."""
        self.count, self.here = self.count + 1, self.here + 1
        if hold_number is not None:
            record = {**record, words.HOLD: hold_number}
        await perform(self._run, self._discarded(record))

    async def hold(self, effect: ModelEffect, held: BudgetHold, settled_by: str) -> None:
        """Commit the hold of a call, or of a summary for it, before the model is asked.

        `settled_by` is the id of the action whose outcome counts the tokens.
        """
        run = self._run
        if not run.ledger.is_durable:
            return
        for lost in run.lost_holds.pop(self._call_id, ()):
            self.count += 1
            await perform(run, self._discarded(_lost_record(lost)))
        self._holds += 1
        record: JsonObject = {
            words.MODEL: effect.model,
            words.HOLD: self._holds,
            words.SETTLED_BY: settled_by,
            words.HELD: encode_amount(held.amount),
        }
        await perform(run, self._hold_row(record))
        effect.hold_number = self._holds
        await run.ledger.barrier()

    def _id(self, word: str, number: int) -> str:
        return f"{self._call_id}/{word}#{number}"

    def _discarded(self, record: JsonObject) -> DiscardedTry:
        run = self._run
        action = run.action(self._id(words.TRY, self.count), _STEP, words.TRY)
        discarded = DiscardedTry(self._scope, action, record, object_or_empty(run.redactor.json(record)))
        discarded.number = self._number
        return discarded

    def _hold_row(self, record: JsonObject) -> HoldRow:
        action = self._run.action(self._id(words.HOLD, self._holds), _STEP, words.HOLD)
        row = HoldRow(self._scope, action, record)
        row.number = self._number
        return row


def _lost_record(lost: LostHold) -> JsonObject:
    return {
        words.ERROR: "the process ended before the reply was recorded",
        words.RETRYABLE: True,
        words.MODEL: lost.model,
        words.HOLD: lost.number,
        words.SPENT: encode_amount(lost.amount),
    }


def lost_holds(rows: Iterable[JournalRow]) -> dict[str, tuple[LostHold, ...]]:
    """Return the holds without an outcome by the id of their model call: their tries ended with their process."""
    holds: dict[tuple[str, int], tuple[str, LostHold]] = {}
    ended: set[str] = set()
    for row in rows:
        if row.stage is not JournalStage.AFTER and row.stage is not JournalStage.FOLDED:
            continue
        ended.add(row.action_id)
        call_id, _, name = row.action_id.rpartition("/")
        if row.kind is _STEP and name.startswith(_HOLD):
            record = record_of(row)
            held = decode_amount(object_or_empty(record.get(words.HELD)))
            lost = LostHold(count_field(record, words.HOLD), text_field(record, words.MODEL), held)
            holds[call_id, lost.number] = text_field(record, words.SETTLED_BY), lost
        elif row.kind is _STEP and name.startswith(_TRY) and words.HOLD in (record := record_of(row)):
            holds.pop((call_id, count_field(record, words.HOLD)), None)
    lost_by_call: dict[str, tuple[LostHold, ...]] = {}
    for (call_id, _), (settled_by, lost) in holds.items():
        if settled_by not in ended:
            lost_by_call[call_id] = (*lost_by_call.get(call_id, ()), lost)
    return lost_by_call


_HOLD, _TRY = f"{words.HOLD}#", f"{words.TRY}#"


def count_lost(lost: Mapping[str, tuple[LostHold, ...]], spending: Spending) -> None:
    """Count the holds of tries that ended with their process: what they took cannot be known."""
    for holds in lost.values():
        for each in holds:
            spending.absorb(each.amount)
