"""One model call inside a run: recorded when its stream ends, replayed without asking the model again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import suppress
from typing import Any
from weakref import ref

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import AgentStructuredOutputError, ModelCallError, ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.spending import count_reply
from pilotage.runtime.context.condense import ContextChange, ModelSummary, SummaryRefusedError
from pilotage.runtime.context.fit import FittedRequest
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.model_reply import ReplyRecorder
from pilotage.runtime.door.run import ModelEffect, ModelSource, OpenStream, Run
from pilotage.runtime.door.signals import with_signals
from pilotage.runtime.effect import MODEL_CALL, ONE_STEP, SUMMARY
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import object_field, optional_text
from pilotage.runtime.journal.records import (
    decode_failure,
    decode_response,
    replayed_events,
    replayed_misfit,
)
from pilotage.runtime.journal.scope import scope_for
from pilotage.runtime.journal.seals import has_record

# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_NOTHING_LEFT: Iterator[ModelStreamEvent] = iter(())
_MODEL_CALL = AgentActionKind.MODEL_CALL


class ModelCall(ModelEffect):
    """A call of a model. It is opened by `act`; its reply is recorded when the stream ends."""

    kind = MODEL_CALL
    boundary = AgentApprovalBoundaryKind.MODEL_CALL
    is_recorded = False

    def fit(self, fitted: FittedRequest) -> None:
        """Ask the model with a request that was fitted to its context."""
        self.request, self.manifest = fitted.request, fitted.manifest

    async def act(self) -> object:
        run = self._run
        run.speaker = (self.action.id, run.ledger.epoch)
        if run.ledger.epoch > 1:
            run.events.supersede(run.message_id)
        if run.prompts is not None:
            run.prompts.keep(self.action.id, self.model, self.request)
        return self.source.port.stream(self.request)

    def reuse(self, record: JsonObject) -> Iterator[ModelStreamEvent]:
        count_reply(record, self._run.spending)
        if words.PROBLEMS in record:
            return replayed_misfit(record)
        if words.ERROR in record:
            raise decode_failure(record)
        response = decode_response(object_field(record, words.RESULT), self.program_request)
        reasoning = optional_text(record, words.REASONING) or ""
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


class SummaryCall(ModelEffect):
    """A model's summary of earlier turns: admitted like every other model call, recorded with the context change."""

    kind = SUMMARY
    boundary = AgentApprovalBoundaryKind.MODEL_CALL
    is_recorded = False

    async def act(self) -> object:
        run, used = self._run, ONE_STEP
        if run.prompts is not None:
            run.prompts.keep(self.action.id.partition("/condensed")[0], self.model, self.request)
        try:
            response = await self.source.port.complete(self.request)
            used += run.spending.settle_model_call(self.model, response.usage, self.held)
        except ModelCallError:
            run.spending.release(self.held)
            raise
        finally:
            await self.settle(used)
        return ModelSummary(response.content, used)

    def refused(self, reason: str) -> Exception:
        return SummaryRefusedError(f"the model call is not allowed: {reason}")

    def rejected(self, rejection: ToolError) -> Exception:
        return SummaryRefusedError(str(rejection))


class ModelReading(OpenStream):
    """The reading of one model call. Its id is taken when it is made, not when its first event is awaited."""

    _inner: AsyncIterator[ModelStreamEvent]
    _recorder: ReplyRecorder
    _replay: Iterator[ModelStreamEvent] = _NOTHING_LEFT
    reader: ref[ModelStream] | None = None
    """The stream as its reader holds it; None once it is closed."""
    is_open = False
    """Whether the model's own stream is being read."""
    read_ahead: deque[ModelStreamEvent] | None = None
    """What was read before the reader asked for it."""
    _leaving: asyncio.Task[None] | None = None
    _is_new = True
    _summaries = 0

    def __init__(self, run: Run, source: ModelSource, request: ModelRequest) -> None:
        scope = scope_for("model")
        action_id = scope.next_id("model")
        # A changed prompt is drift, not divergence: the messages are not part of the fingerprint.
        action = run.action(action_id, _MODEL_CALL, words.MODEL)
        self._run = run
        self._liveness = run.replay.liveness
        self._call = ModelCall(run, scope, action, source, request)

    @property
    def path(self) -> str:
        return self._call.scope.path

    async def drain(self) -> None:
        """Read the rest of the stream for its reader; if the reader has left, the part read so far is the reply."""
        if self.reader is None or self.reader() is None:
            await self.close()
            return
        if self.read_ahead is None:
            self.read_ahead = deque()
        ahead = self.read_ahead
        with suppress(StopAsyncIteration):
            while True:
                ahead.append(await self.read())

    def left_by_its_reader(self, _: object, /) -> None:
        """Close a stream that its reader dropped, as the event loop does it for a generator."""
        if self.is_open:
            with suppress(RuntimeError):
                self._leaving = asyncio.get_running_loop().create_task(self.close())

    async def read_aside(self) -> ModelStreamEvent:
        """Return the next event unless it is one of the open stream: a replayed one, or one that was read ahead."""
        if self.read_ahead:
            return self.read_ahead.popleft()
        if self._is_new:
            self._is_new = False
            if await self._begin():
                return await self.read()
        for event in self._replay:
            return event
        raise StopAsyncIteration

    async def _begin(self) -> bool:
        """Ask the model, or replay its recorded reply; return whether the model was asked."""
        run, call = self._run, self._call
        if run.ledger.is_durable and run.signals.listens:
            request = await with_signals(run, call.scope, call.action.id, call.program_request)
            call.request = request
        recorded = run.replay.outcome_of(call.action.id) if run.replay.has_record else None
        is_live = recorded is None or not has_record(recorded)
        if run.is_context_fitted or call.request.context:
            await self._fit(is_live=is_live)
        if recorded is not None:
            run.speaker = (call.action.id, recorded.epoch)
        opened = await perform(run, call)
        if not is_live:
            self._replay = opened
            return False
        self._inner, self.is_open = opened, True
        self._recorder = ReplyRecorder(run, call)
        if not run.telemetry.is_idle:
            self._recorder.asked_at = run.ports.clock.monotonic()
        run.open_streams.append(self)
        return True

    async def _fit(self, *, is_live: bool) -> None:
        """Fit the request to its context; condensing it is an effect of its own below the call."""
        run, call = self._run, self._call
        stage = run.context_stage
        if not stage.concerns(call.request, is_live=is_live):
            return
        fitting = stage.fitting(call.scope.path, call.action.id, call.request)
        condensation = fitting.condensation()
        if condensation is not None:
            action_id = f"{call.action.id}/{words.CONDENSED}"
            action = run.action(action_id, AgentActionKind.STEP, words.CONDENSED)
            change = ContextChange(
                call.scope,
                action,
                condensation,
                stage.strategies,
                ledger=run.ledger,
                redactor=run.redactor,
                trust=run.trust,
                summarise=self._summarise,
            )
            is_recorded = run.replay.knows(action_id)
            if not is_recorded and not run.replay.knows(call.action.id):
                decision = await condensation.decide(stage.handler)
                if decision is not None:
                    change.decision, is_recorded = decision, True
            if is_recorded:
                # A person who rejects it leaves the context as it is.
                with suppress(ToolError):
                    fitting.condense_to(await perform(run, change))
                run.spending.absorb(change.spent)
        call.fit(fitting.fitted())

    async def _summarise(self, request: ModelRequest) -> ModelSummary:
        """Return the model's summary of earlier turns.

        Raises:
            ModelCallError: the call failed, or must not be made.
        """
        call, self._summaries = self._call, self._summaries + 1
        action_id = f"{call.action.id}/{words.CONDENSED}/summary#{self._summaries}"
        action = self._run.action(action_id, _MODEL_CALL, words.SUMMARY)
        summary = SummaryCall(self._run, call.scope, action, call.source, request)
        made: ModelSummary = await perform(self._run, summary)
        return made

    async def read(self) -> ModelStreamEvent:
        """Return the next event of the model. Its last one is the reply, which is recorded; then the stream ends."""
        if self.is_over:
            await self.close()
            raise StopAsyncIteration
        try:
            try:
                event = await self._inner.__anext__()
            except StopAsyncIteration:
                self._check_alive()
                no_reply = ModelCallError("the model's stream ended without a reply", retryable=True)
                raise self._failed(no_reply) from None
            except Exception as error:
                raise self._failed(error) from error
            if self._liveness.must_look:
                self._check_alive()
            if event.kind is _TOKEN and event.usage is None:
                self._recorder.text.append(event.token_delta or "")
                return event
            event = self._recorder.note(event)
            if event.response is not None:
                self.is_over = True
                used = self._recorder.end(event.response)
                if self._call.reservation is not None or self._run.hooks is not None:
                    await self._notify(event.response, used)
        except BaseException:
            await self.close()
            raise
        return event

    async def _notify(self, response: ModelResponse, used: BudgetAmount) -> None:
        """Settle the application's budget, and show hooks the reply."""
        run, call = self._run, self._call
        if call.reservation is not None:
            await self._settle(ONE_STEP + used)
        if run.hooks is not None:
            await run.hooks.after_model(run.context, response, call.program_request, run.redactor)

    def _check_alive(self) -> None:
        """Raise the interruption that ended the attempt in the middle of the stream."""
        if self._liveness.must_look:
            self._liveness.check(self._call.scope)

    async def _settle(self, used: BudgetAmount) -> None:
        await self._call.settle(used)

    async def close(self) -> None:
        """Close the stream: the program gets the part that was read, now and in replay."""
        self._is_new, self._replay = False, _NOTHING_LEFT
        if not self.is_open:
            return
        self.is_open, self.reader = False, None
        self._run.open_streams.remove(self)
        if not self.is_over:
            self.is_over = True
            task = asyncio.current_task()
            is_stopped = self._liveness.is_ending or bool(task and task.cancelling())
            self._recorder.leave(is_stopped=is_stopped)
        if self._call.reservation is not None:
            await self._settle(ONE_STEP + self._recorder.took)
        if (aclose := getattr(self._inner, "aclose", None)) is not None:
            await aclose()

    def _failed(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        self.is_over = True
        return self._recorder.fail(error)


class ModelStream(AsyncGenerator[ModelStreamEvent, None]):
    """A model call as its reader holds it. A reader that drops it has left the stream."""

    __slots__ = ("__weakref__", "_reading")

    def __init__(self, reading: ModelReading) -> None:
        self._reading = reading
        reading.reader = ref(self, reading.left_by_its_reader)

    def __anext__(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        reading = self._reading
        return reading.read() if reading.is_open and not reading.read_ahead else reading.read_aside()

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Leave the stream, if it has not ended."""
        return self._reading.close()

    async def asend(self, value: None, /) -> ModelStreamEvent:
        return await self.__anext__()

    async def athrow(self, error: Any, /, *_: object) -> ModelStreamEvent:
        """Leave the stream with an error."""
        await self._reading.close()
        raise error
