"""The reading of one model call: recorded when its stream ends, replayed without asking the model again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
)
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import ref

from pilotage.agent.messages import MediaPart
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.model_stream import restarted_id
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.context.condense import ModelSummary
from pilotage.runtime.door.context_fitting import ContextFitter
from pilotage.runtime.door.door import perform, perform_again
from pilotage.runtime.door.model_acts import ModelCall, SummaryCall
from pilotage.runtime.door.model_effect import ModelSource
from pilotage.runtime.door.model_reply import ReplyRecorder
from pilotage.runtime.door.model_retry import model_unavailable, retry_pause
from pilotage.runtime.door.model_secrets import MaskedReply
from pilotage.runtime.door.not_performed import parked
from pilotage.runtime.door.run import OpenStream, Run
from pilotage.runtime.door.signals import with_signals
from pilotage.runtime.effect import ONE_STEP
from pilotage.runtime.events.following import message_id_of
from pilotage.runtime.exposure.trust import label_of_packs
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused
from pilotage.runtime.journal.media import RunMedia
from pilotage.runtime.journal.positions import Call
from pilotage.runtime.journal.record_fields import object_or_empty, optional_count
from pilotage.runtime.journal.records import call_failure, encode_failure
from pilotage.runtime.journal.result_codec import without_cause
from pilotage.runtime.journal.scope import scope_for
from pilotage.runtime.journal.seals import has_record

# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_NOTHING_LEFT: Iterator[ModelStreamEvent] = iter(())
_MODEL_CALL, _STEP = AgentActionKind.MODEL_CALL, AgentActionKind.STEP


class ModelReading(OpenStream):
    """The reading of one model call. Its id is taken when it is made, not when its first event is awaited."""

    _inner: AsyncIterator[ModelStreamEvent]
    _close_inner: Callable[[], Awaitable[None]] | None
    _recorder: ReplyRecorder
    _replay: Iterator[ModelStreamEvent] = _NOTHING_LEFT
    reader: ref[ModelStream] | None = None
    """The stream as its reader holds it; None once it is closed."""
    is_new: bool
    """Whether nothing was read of it."""
    is_open: bool
    """Whether the model's own stream is being read."""
    read_ahead: deque[ModelStreamEvent] | None
    """Events that were read before the reader asked for them."""
    _leaving: asyncio.Task[None] | None = None
    _summaries = 0
    _is_between_tries = False
    _restarts = 0
    """The number of restart events that its reader got."""

    def __init__(
        self,
        run: Run,
        source: ModelSource,
        request: ModelRequest,
        attaches_tools: bool = True,
        *,
        is_whole: bool = False,
    ) -> None:
        scope = scope_for("model")
        self.action_id = action_id = scope.next_id("model")
        # A changed prompt is drift, not divergence: the messages are not part of the fingerprint.
        action = run.action(action_id, _MODEL_CALL, words.MODEL)
        if request.context:
            run.trust = run.trust.join(label_of_packs(request.context))
        # Asked for with every event: a default of the class takes three times as long to read.
        self.is_new, self.is_open, self.is_over = True, False, False
        self.read_ahead = None
        self._run = run
        self._liveness = run.replay.liveness
        self._redactor = run.redactor
        self._call = ModelCall(run, scope, action, source, request)
        if run.ledger.is_durable:
            run.number(self._call)
        self._attaches_tools = attaches_tools
        self._is_whole = is_whole
        """Whether the program gets the reply as a whole, and nothing of one that breaks off."""
        self._may_restart = is_whole or request.streaming.restarts

    @property
    def effect(self) -> ModelCall:
        return self._call

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

    async def close_if_left(self) -> None:
        if self._leaving is not None:
            await self._leaving

    def left_by_its_reader(self, _: object, /) -> None:
        """Close a stream that its reader dropped, as the event loop does it for a generator."""
        if self.is_open:
            with suppress(RuntimeError):
                self._leaving = asyncio.get_running_loop().create_task(self.close())

    async def read_aside(self) -> ModelStreamEvent:
        """Return the next event unless it is one of the open stream: a replayed one, or one that was read ahead."""
        if self.read_ahead:
            return self.read_ahead.popleft()
        call = self._call.call
        for event in self._replay:
            if call is not None and event.response is not None:
                await self._run.replay.turn(call)
            return event
        raise StopAsyncIteration

    async def begin(self) -> ModelStreamEvent:
        """Ask the model, or replay its recorded reply; return the first event."""
        self.is_new = False
        run, call = self._run, self._call
        recorded, is_live, has_steps = None, True, False
        try:
            if run.ledger.is_durable and run.signals.listens:
                call.request = await with_signals(run, call, call.program_request)
            if run.replay.has_record:
                recorded = run.replay.outcome_of(call.action.id)
                is_live = recorded is None or not has_record(recorded)
                # Tries, holds and changes of the context are recorded as steps: most runs have none of them.
                has_steps = run.replay.has_any(_STEP)
            if has_steps:
                await call.tries.recall()
            is_fitted = run.is_context_fitted or bool(call.request.context)
            if is_fitted and (is_live or has_steps or run.context_stage.is_dynamic):
                await ContextFitter(run, call, self._summarise, is_live=is_live).fit()
            if recorded is not None:
                run.speaker = (call.action.id, recorded.epoch)
            opened = await perform(run, call)
        except Paused as pause:
            await parked(run, call, pause)
        if not is_live:
            self._replay = opened
            return await self.read_aside()
        self._opened(opened)
        run.open_streams.append(self)
        event = await self.read()
        if not run.telemetry.is_idle:
            self._recorder.first_at = run.ports.clock.monotonic()
        return event

    def _opened(self, inner: AsyncIterator[ModelStreamEvent]) -> None:
        run, call = self._run, self._call
        self._inner, self.is_open = inner, True
        self._close_inner = getattr(inner, "aclose", None)
        self._recorder = ReplyRecorder(run, call, self._restarts, self._attaches_tools)
        if self._redactor.revision:
            self._mask()
        if call.held is not None:
            call.held.is_idle = self._is_idle
        if call.budget_hold is not None:
            call.budget_hold.is_idle = self._is_idle
        if not run.telemetry.is_idle:
            self._recorder.asked_at = run.ports.clock.monotonic()

    def _mask(self) -> MaskedReply:
        """Mask the secrets in the rest of the stream."""
        masked = MaskedReply(self._inner, self._redactor, list(self._recorder.pieces))
        self._inner, self._recorder.written = masked, masked.written
        return masked

    def _is_idle(self) -> bool:
        """Return whether no read of the open stream is under way: the model waits for its reader."""
        return not getattr(self._inner, "ag_running", True)

    async def _summarise(self, request: ModelRequest) -> ModelSummary:
        """Return the model's summary of earlier turns; after a failure that may pass, that of another try.

        Raises:
            ModelCallError: the call failed, or must not be made.
            ModelUnavailable: a durable run waits for the model.
        """
        run, call, self._summaries = self._run, self._call, self._summaries + 1
        action_id = f"{call.action.id}/{words.CONDENSED}/summary#{self._summaries}"
        action = run.action(action_id, _MODEL_CALL, words.SUMMARY)
        while True:
            summary = SummaryCall(run, call.scope, action, call.source, request)
            summary.tries = call.tries
            try:
                made: ModelSummary = await perform(run, summary)
            except ModelCallError as error:
                if not (run.ledger.is_durable and error.retryable):
                    raise
                await self._try_summary_again(summary, error)
            else:
                return made

    async def _try_summary_again(self, summary: SummaryCall, error: ModelCallError) -> None:
        """Record a summary that was not given, and return when it is time for another try.

        Raises:
            ModelUnavailable: it is time for another attempt at the run.
        """
        run, tries, clock = self._run, summary.tries, self._run.ports.clock
        run.spending.give_back(ONE_STEP)
        failed: JsonObject = {**encode_failure(call_failure(error)), words.MODEL: summary.model}
        await tries.discard(failed, summary.hold_number)
        pause = retry_pause(tries.count, error, run.ports.model_retries)
        if tries.here > run.ports.model_retries.tries_in_process:
            raise model_unavailable(summary.model, error, tries.count, clock.now() + pause) from error
        await clock.sleep(pause.total_seconds())

    async def read(self) -> ModelStreamEvent:
        """Return the next event of the model. Its last one is the reply, which is recorded; then the stream ends."""
        if self.is_over:
            await self.close()
            raise StopAsyncIteration
        try:
            try:
                event = await self._inner.__anext__()
                if self._redactor.revision and self._recorder.written is None:
                    # The first secret was handed out in the middle of the stream.
                    event = await self._mask().after(event)
            except Exception as error:  # noqa: BLE001 - whatever a model raises is the outcome of its call
                return await self._after(error)
            if self._liveness.must_look:
                self._check_alive()
            if event.kind is _TOKEN and event.usage is None:
                self._recorder.text.append(event.token_delta or "")
                return event
            try:
                event = self._recorder.note(event)
            except (ModelCallError, AgentStructuredOutputError) as error:
                return await self._after(error)
            if event.response is not None:
                event = await self._ended_with(event, event.response)
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        except BaseException as end:
            await self.close()
            without_cause(end)
            raise
        return event

    async def _ended_with(self, event: ModelStreamEvent, response: ModelResponse) -> ModelStreamEvent:
        """Record the reply, and return its event: with digests in place of its media."""
        parts = response.ordered
        if parts is not None and any(isinstance(part, MediaPart) for part in parts):
            response = replace(response, ordered=await self._run.part(RunMedia).keep_reply(tuple(parts)))
            event = replace(event, response=response)
        if (waiting := self._end(response)) is not None:
            await waiting
        return event

    def _end(self, response: ModelResponse) -> Awaitable[None] | None:
        """Record the reply; what is returned is to be awaited before its reader gets the end."""
        self.is_over = True
        call, used = self._call, self._recorder.end(response)
        if call.call is not None and call.call.takes_turn:
            return self._give_in_turn(call.call, response, used)
        if call.reservation is not None or self._run.hooks is not None:
            return self._notify(response, used)
        return None

    async def _cancelled(self) -> None:
        """Close a stream whose reader was cancelled: its program cut the call short, or the attempt ends."""
        run, call = self._run, self._call
        if call.call is not None and not self.is_over and run.replay.cut(call.call, has_acted=True):
            self.is_over = True
            call.took = self._recorder.cut()
            run.outcomes.cut(call)
        if self._is_between_tries and call.call is not None and call.call.cut_at is not None:
            run.spending.absorb(ONE_STEP)
        await self.close()

    async def _give_in_turn(self, call: Call, response: ModelResponse, used: BudgetAmount) -> None:
        replay = self._run.replay
        with replay.holding_turn(call):
            await self._notify(response, used)
        await replay.turn(call)

    async def _notify(self, response: ModelResponse, used: BudgetAmount) -> None:
        """Settle the application's budget, and show hooks the reply."""
        run, call = self._run, self._call
        if call.reservation is not None:
            await self._call.settle(ONE_STEP + used)
        if run.hooks is not None:
            await run.hooks.after_model(run.context, response, call.program_request, run.redactor)

    def _check_alive(self) -> None:
        """Raise the interruption that ended the attempt in the middle of the stream."""
        if self._liveness.must_look:
            self._liveness.check(self._call.scope.path)

    async def close(self) -> None:
        """Close the stream: the program gets the part that was read, now and in replay."""
        self.is_new, self._replay = False, _NOTHING_LEFT
        if not self.is_open:
            return
        self.is_open, self.reader = False, None
        self._run.open_streams.remove(self)
        if not self.is_over:
            self.is_over = True
            self._recorder.leave(is_stopped=self._is_stopped())
        if self._call.reservation is not None:
            await self._call.settle(ONE_STEP + self._recorder.took)
        if self._close_inner is not None:
            await self._close_inner()

    async def _after(self, error: Exception) -> ModelStreamEvent:
        """Record a failure that stays; after one that may pass, read another try, or let a durable run wait for it.

        Raises:
            ModelCallError, AgentStructuredOutputError: the failure stays.
            RunInterruption: the run waits, or the attempt is over.
        """
        run, call = self._run, self._call
        if isinstance(error, StopAsyncIteration):
            self._check_alive()
            error = ModelCallError("the model's stream ended without a reply", retryable=True)
        if not (run.ledger.is_durable and isinstance(error, ModelCallError) and error.retryable):
            # The words of the cause may have a secret.
            raise await self._failed(error) from None
        self._check_alive()
        lost = self._recorder
        is_repeated_here = self._may_restart and lost.has_begun and call.ask is None
        await self._discard(error)
        settings, clock = run.ports.model_retries, run.ports.clock
        pause = retry_pause(self._call.tries.count, error, settings)
        if self._close_inner is not None:
            await self._close_inner()
        if not is_repeated_here or self._call.tries.here > settings.tries_in_process:
            self.is_over = True
            waits = model_unavailable(call.model, error, self._call.tries.count, clock.now() + pause)
            # The call does not return in this attempt: the run pauses when its other tasks are at rest.
            await parked(run, call, waits)
        await clock.sleep(pause.total_seconds())
        await self._ask_again()
        if self._is_whole:
            return await self.read()
        self._restarts = self._recorder.restarts = self._restarts + 1
        return lost.restart(self._restarts)

    async def _discard(self, error: ModelCallError) -> None:
        """Record a try that is not the reply."""
        call = self._call
        record = self._recorder.discard(error)
        if call.reservation is not None:
            await self._call.settle(self._recorder.took)
        await self._call.tries.discard(record, call.hold_number)
        # What it took is in its own row: a call that is cut short from here on has taken nothing.
        call.held = call.hold_number = None
        self._recorder = ReplyRecorder(self._run, call, self._restarts, self._attaches_tools)
        self._is_between_tries = True

    async def _ask_again(self) -> None:
        """Open the stream of another try of the same call."""
        # A refusal is recorded as the outcome of the call.
        self.is_over = True
        opened = await perform_again(self._run, self._call)
        self.is_over = self._is_between_tries = False
        self._opened(opened)

    def _is_stopped(self) -> bool:
        """Return whether the attempt ends, and the reader has not left by itself."""
        task, liveness = asyncio.current_task(), self._liveness
        is_cancelled = self._call.call is None and bool(task and task.cancelling())
        return liveness.is_ending or liveness.is_stopping or is_cancelled

    async def _failed(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        """Record a failed call, and return its error when the program may get it."""
        self.is_over = True
        failure = self._recorder.fail(error)
        if self._call.call is not None:
            await self._run.replay.turn(self._call.call)
        return failure


def message_id_in(run: Run, action_id: str) -> str:
    """Return the id of the message of a model call; in replay, the recorded one."""
    recorded = run.replay.outcome_of(action_id) if run.replay.has_record else None
    if recorded is None:
        return message_id_of(run.id, action_id, run.ledger.epoch)
    message_id = message_id_of(run.id, action_id, recorded.epoch)
    restarts = optional_count(object_or_empty(recorded.record), words.RESTARTS)
    return restarted_id(message_id, restarts) if restarts else message_id


class ModelStream(AsyncGenerator[ModelStreamEvent, None]):
    """A model call as its reader holds it. A reader that drops it has left the stream."""

    __slots__ = ("__weakref__", "_reading", "action_id")

    def __init__(self, reading: ModelReading) -> None:
        self._reading = reading
        self.action_id: str = reading.action_id
        """The id of the call."""
        reading.reader = ref(self, reading.left_by_its_reader)

    def __anext__(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        reading = self._reading
        if reading.is_open and not reading.read_ahead:
            return reading.read()
        return reading.begin() if reading.is_new else reading.read_aside()

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Leave the stream, if it has not ended."""
        return self._reading.close()

    async def asend(self, value: None, /) -> ModelStreamEvent:
        return await self.__anext__()

    async def athrow(self, error: Any, /, *_: object) -> ModelStreamEvent:
        """Leave the stream with an error."""
        await self._reading.close()
        raise error
