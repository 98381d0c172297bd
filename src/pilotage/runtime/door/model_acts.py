"""The effects that ask a model: a call of the program, and the summary of a context that is condensed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.media import check_taken_by
from pilotage.agent.messages import MediaPart
from pilotage.agent.model_reply import ModelStreamEvent
from pilotage.context.assemble import Assembled, kept_manifest
from pilotage.errors import MediaRefusedError, ModelCallError, ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.spending import count_reply
from pilotage.runtime.budget.usage import paid_replies
from pilotage.runtime.context.condense import ModelSummary, SummaryRefusedError
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.model_reply import ReplyRecorder
from pilotage.runtime.door.model_tries import ModelTries
from pilotage.runtime.effect import MODEL_CALL, NOTHING, ONE_STEP, SUMMARY
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached, RunInterruption
from pilotage.runtime.journal.record_fields import object_field, optional_text
from pilotage.runtime.journal.records import (
    decode_failure,
    decode_response,
    replayed_events,
    replayed_misfit,
)

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

    @cached_property
    def tries(self) -> ModelTries:
        """The tries of the call: made for one that has a hold, a record or a failure."""
        return ModelTries(self._run, self)

    def cut_record(self) -> JsonObject:
        return {**super().cut_record(), **(self.took or {})}

    def fit(self, fitted: Assembled) -> None:
        """Ask the model with a request that was fitted to its context; the record of the call has its manifest."""
        self.request, self.manifest = fitted.request, kept_manifest(fitted)
        self.message_tokens = fitted.tokens if fitted.is_plain else None

    async def act(self) -> object:
        run = self._run
        try:
            if self.held is not None:
                await self.tries.hold(self, self.held, self.action.id)
            run.speaker = (self.action.id, run.ledger.epoch)
            if run.ledger.epoch > 1:
                run.events.supersede(run.message_id)
            if self.unfit is None and (media := run.new_media(self.request.messages)):
                self.unfit = self._unfit_media(media)
            if self.unfit is not None:
                return _failing(self.unfit)
            if run.prompts is not None:
                run.prompts.keep(self.action.id, self.model, self.request)
            return self.source.port.stream(self.request)
        except BaseException:
            run.spending.release(self.held)
            with suppress(RunInterruption):
                await self.settle(NOTHING)
            raise

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
        response = decode_response(object_field(record, words.RESULT), self.program_request, reasoning)
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
            response = await self.source.port.complete(self.request)
            name, paid = response.answered_by or self.model, paid_replies(response.metadata)
            used += run.spending.settle_model_call(name, response.usage, held, paid, bounded=self.bounded)
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
        return ModelSummary(run.redactor.without_secrets(response.content), used)

    def refused(self, reason: str) -> Exception:
        return SummaryRefusedError(f"the model call is not allowed: {reason}")

    def rejected(self, rejection: ToolError) -> Exception:
        return SummaryRefusedError(str(rejection))
