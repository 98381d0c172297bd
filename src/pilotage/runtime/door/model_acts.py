"""The effects that ask a model (a call of the program, the summary of a context) and the tries of each.

The hold of each try is a row before the model is asked, and each discarded try is one. A try that was under way when
its process died has a hold and no outcome. What it took cannot be known, so its hold counts as spent: `lost_holds`
finds it in the rows of the run, and the next try of the call records it as discarded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.media import check_taken_by, media_in
from pilotage.agent.messages import MediaPart
from pilotage.agent.model_reply import ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.context.assemble import Assembled, stored_manifest
from pilotage.errors import MediaBrokenError, MediaNotFoundError, MediaRefusedError, ModelCallError, ToolError
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.budget.holds import BudgetHold, LostHold
from pilotage.runtime.budget.limits import PaidReply, paid_replies
from pilotage.runtime.budget.spending import Spending, count_reply
from pilotage.runtime.context.condense import ModelSummary, SummaryRefusedError
from pilotage.runtime.context.prefix import PrefixShares
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.model_reply import ReplyRecorder
from pilotage.runtime.door.model_retry import DiscardedTry
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import HOLD, MODEL_CALL, NOTHING, ONE_STEP, SUMMARY, Effect, Outcome
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached, RunInterruption
from pilotage.runtime.journal.media import RunMedia
from pilotage.runtime.journal.record_fields import (
    count_field,
    object_field,
    optional_text,
    record_of,
    text_field,
)
from pilotage.runtime.journal.records import (
    decode_amount,
    decode_costs,
    decode_failure,
    decode_response,
    encode_amount,
    encode_costs,
    replayed_events,
    replayed_misfit,
)
from pilotage.runtime.journal.scope import Action, StepScope

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
        amount, cost = run.spending.worst_case(held)
        record: JsonObject = {
            words.MODEL: effect.model,
            words.HOLD: self._holds,
            words.SETTLED_BY: settled_by,
            words.HELD: encode_amount(amount),
            words.COUNTED: words.EXACT if held.call.is_exact else words.ESTIMATED,
            **({} if cost is None else {words.COSTS: encode_costs([cost])}),
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
        **({} if lost.cost is None else {words.COSTS: encode_costs([lost.cost])}),
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
            costs = decode_costs(record)
            lost = LostHold(
                count_field(record, words.HOLD),
                text_field(record, words.MODEL),
                held,
                costs[0] if costs else None,
            )
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


_NO_EVENTS: tuple[ModelStreamEvent, ...] = ()


class ModelCall(ModelEffect):
    """A call of a model. It is opened by `act`; its reply is recorded when the stream ends."""

    kind = MODEL_CALL
    boundary = AgentApprovalBoundaryKind.MODEL_CALL
    is_recorded = False
    is_replayed_early = True

    took: JsonObject | None = None
    """The usage of a reply that the program cut short."""
    unfit: ModelCallError | None = None
    """Why there is no request that could be sent: the call fails without asking the model."""
    sent: ModelRequest | None = None
    """The request with the bytes of its media, where it has some."""

    @cached_property
    def tries(self) -> ModelTries:
        """The tries of the call: made for one that has a hold, a record or a failure."""
        return ModelTries(self._run, self)

    def cut_record(self) -> JsonObject:
        return {**super().cut_record(), **(self.took or {})}

    def fit(self, fitted: Assembled) -> None:
        """Ask the model with a request that was fitted to its context; the record of the call has its manifest."""
        self.request, self.manifest = fitted.request, stored_manifest(fitted)
        self.message_tokens = fitted.tokens if fitted.is_plain else None

    async def act(self) -> object:
        run = self._run
        try:
            if self.held is not None:
                await self.tries.hold(self, self.held, self.action.id)
            if not self.has_row:
                run.speaker = (self.action.id, run.ledger.epoch)
                if run.ledger.epoch > 1:
                    run.events.supersede(run.message_id)
            if self.unfit is None and (wanted := self.program_request.sampling.max_tokens) is not None:
                self.unfit = self._unfit_length(wanted)
            if self.unfit is None and (media := run.new_media(self.request.messages)):
                await self._fill(media)
            if self.unfit is not None:
                return _failing(self.unfit)
            if run.prompts is not None:
                run.prompts.keep(self.action.id, self.model, self.request)
            if not run.telemetry.is_idle:
                self._measure_prefix()
            return self.source.port.stream(self.request if self.sent is None else self.sent)
        except BaseException:
            run.spending.release(self.held)
            with suppress(RunInterruption):
                await self.settle(NOTHING)
            raise

    def _measure_prefix(self) -> None:
        share = self._run.part(PrefixShares).of(self.scope.path, self.request)
        if share is not None:
            self._run.telemetry.count("agent.model.prefix_share", share, model=self.model)

    def _unfit_length(self, wanted: int) -> ModelCallError | None:
        """Return why the model cannot write a reply of so many tokens."""
        why = self.source.capability.why_too_long(wanted)
        if why is None:
            return None
        return ModelCallError(f"the model call is not made: {why}", failure="max_tokens_refused")

    async def _fill(self, media: Sequence[MediaPart]) -> None:
        """Give the model the bytes of media, if it takes them."""
        self.unfit = self._unfit_media(media)
        if self.unfit is not None:
            return
        try:
            self.sent = await self._run.part(RunMedia).filled(self.request, media)
        except (MediaNotFoundError, MediaBrokenError) as error:
            self.unfit = ModelCallError(f"the model call is not made: {error}", failure=error.code)

    def _unfit_media(self, media: Sequence[MediaPart]) -> ModelCallError | None:
        """Return why the model is not given these media."""
        capability = self.source.capability
        try:
            self._run.source.definition.spec.media_limits.check(media)
            check_taken_by(capability.model, capability.media_types, media)
        except MediaRefusedError as error:
            return ModelCallError(f"the model call is not made: {error}", failure=error.code)
        return None

    def reuse(self, record: JsonObject) -> Iterator[ModelStreamEvent]:
        count_reply(record, self._run.spending)
        if words.PROBLEMS in record:
            return replayed_misfit(record)
        if words.ERROR in record:
            raise decode_failure(record)
        reasoning = optional_text(record, words.REASONING) or ""
        response = decode_response(
            object_field(record, words.RESULT), self.program_request.structured_output, reasoning
        )
        return iter(replayed_events(response, self.program_request, reasoning))

    def refused(self, reason: str) -> Exception:
        return self._ended(ModelCallError(f"the model call is not allowed: {reason}"))

    def rejected(self, rejection: ToolError) -> Exception:
        return self._ended(ModelCallError(str(rejection)))

    def _ended(self, error: ModelCallError) -> Exception:
        """Record that the model was not asked; the record counts, now and in replay."""
        run = self._run
        run.speaker = (self.action.id, run.ledger.epoch)
        run.spending.absorb(ONE_STEP)
        return ReplyRecorder(run, self).fail(error)


async def _failing(error: ModelCallError) -> AsyncGenerator[ModelStreamEvent, None]:
    """Return the stream of a model that was not asked: it has no events."""
    for event in _NO_EVENTS:
        yield event
    raise error


class SummaryCall(ModelEffect):
    """A model's summary of earlier turns: admitted like every other model call, recorded with the context change."""

    kind = SUMMARY
    boundary = AgentApprovalBoundaryKind.MODEL_CALL
    is_recorded = False
    tries: ModelTries

    async def act(self) -> object:
        run, used, held = self._run, ONE_STEP, self.held
        settled_by, _, _ = self.action.id.rpartition("/")
        if run.prompts is not None:
            run.prompts.keep(self.action.id.partition("/condensed")[0], self.model, self.request)
        try:
            if held is not None:
                await self.tries.hold(self, held, settled_by)
            response = await self.source.port.complete(await self._filled())
            name, paid = response.answered_by or self.model, paid_replies(response.metadata)
            costs = run.spending.costs_of(name, response.usage, paid)
            used += run.spending.settle_model_call(
                name, response.usage, held, paid, bounded=self.bounded, costs=costs
            )
        except (MediaNotFoundError, MediaBrokenError) as error:
            run.spending.release(held)
            raise ModelCallError(f"the model call is not made: {error}", failure=error.code) from error
        except ModelCallError:
            run.spending.release(held)
            raise
        except LimitReached:
            used += self.held_in_budget
            raise
        except BaseException:
            run.note_stopped(self)
            if held is not None and held.is_open:
                # What a summary took that did not come to its end cannot be known.
                used += run.spending.count_left(self.model, held.usage, held)
            raise
        finally:
            await self.settle(used)
        replies = (PaidReply(name, response.usage), *paid)
        return ModelSummary(run.redactor.without_secrets(response.content), used, replies, costs)

    async def _filled(self) -> ModelRequest:
        """Return the request with the bytes of its media."""
        media = media_in(self.request.messages)
        return await self._run.part(RunMedia).filled(self.request, media) if media else self.request

    def refused(self, reason: str) -> Exception:
        return SummaryRefusedError(f"the model call is not allowed: {reason}")

    def rejected(self, rejection: ToolError) -> Exception:
        return SummaryRefusedError(str(rejection))
