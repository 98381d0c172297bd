"""`ModelStream`: a model call as its reader holds it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Protocol
from weakref import ref

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount, BudgetReservation
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentStructuredOutputError, ModelCallError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.spending import NOTHING, ONE_STEP, count_reply
from pilotage.runtime.door.model_reply import ReplyRecorder, expected_usage
from pilotage.runtime.door.run import Effects, IContext, Summary
from pilotage.runtime.effect import Attempt, Call
from pilotage.runtime.journal.action import new_action
from pilotage.runtime.journal.model_record import (
    decode_failure,
    decode_response,
    replayed_events,
    replayed_misfit,
)
from pilotage.runtime.journal.scope import Scope, scope_for
from pilotage.runtime.journal.seals import is_kept
from pilotage.runtime.people.handlers import is_inside_an_action


class IReadCall(Protocol):
    """A call as far as its reader is concerned."""

    reader: ref[ModelStream] | None
    """Who reads; None once the stream is closed."""
    is_open: bool
    """Whether the model's own stream is being read."""
    read_ahead: deque[ModelStreamEvent] | None
    """What was read of it before the reader asked, where anything was."""

    def read(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        """The next event of the model's own stream."""
        ...

    def read_aside(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        """The next event in all other cases."""
        ...

    def left_by_its_reader(self, reader: object, /) -> None:
        """The reader has let go of the stream without closing it."""
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """Leave the stream."""
        ...


class ModelStream(AsyncGenerator[ModelStreamEvent, None]):
    """A model call as its reader holds it. Who lets go of it has left the stream."""

    __slots__ = ("__weakref__", "_call")

    def __init__(self, call: IReadCall) -> None:
        self._call = call
        call.reader = ref(self, call.left_by_its_reader)

    def __anext__(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        call = self._call
        return call.read() if call.is_open and not call.read_ahead else call.read_aside()

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Leave the stream, if it has not ended."""
        return self._call.close()

    async def asend(self, value: None, /) -> ModelStreamEvent:
        return await self.__anext__()

    async def athrow(self, error: Any, /, *_: object) -> ModelStreamEvent:
        """Leave the stream with an error."""
        await self._call.close()
        raise error


# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_NOTHING_LEFT: Iterator[ModelStreamEvent] = iter(())
_MODEL_CALL = AgentActionKind.MODEL_CALL


class ModelCall:
    """One call. Its id is taken when it is made, not when its first event is awaited."""

    _inner: AsyncIterator[ModelStreamEvent]
    _heard: ReplyRecorder
    _replay: Iterator[ModelStreamEvent] = _NOTHING_LEFT
    _manifest: JsonObject | None = None
    reader: ref[ModelStream] | None = None
    _leaving: asyncio.Task[None] | None = None

    def __init__(self, effects: Effects, model: IAgentModel, name: str, request: ModelRequest) -> None:
        self._effects = effects
        self._liveness = effects.liveness
        self._model = model
        self._name = name
        self._request = request
        self._is_new = True
        self.is_open = self.is_over = False
        self._budgeted: BudgetReservation | None = None
        self.read_ahead: deque[ModelStreamEvent] | None = None
        self._scope: Scope = scope_for("model")
        action_id = self._scope.next_id("model")
        # A changed prompt is drift, not divergence: the messages are not part of the fingerprint.
        fingerprint = effects.fingerprint(action_id, _MODEL_CALL, "model")
        self._action = new_action(
            action_id, _MODEL_CALL, "model", None, None, Idempotency.IDEMPOTENT, True, fingerprint
        )

    @property
    def path(self) -> str:
        return self._scope.path

    async def drain(self) -> None:
        """Read on for the reader; for one that has left, what was read is the reply."""
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
        """Nobody has closed the stream: it is closed for the reader, as the event loop does it for a generator."""
        if self.is_open:
            with suppress(RuntimeError):
                self._leaving = asyncio.get_running_loop().create_task(self.close())

    async def read_aside(self) -> ModelStreamEvent:
        """Everything but the next event of an open stream: its beginning, what was read ahead, what is replayed."""
        if self.read_ahead:
            return self.read_ahead.popleft()
        if self._is_new:
            self._is_new = False
            self._liveness.begin(self._scope)
            try:
                recorded = await self._begin()
            except BaseException as end:
                self._liveness.ended(self._scope, end)
                raise
            self._liveness.ended(self._scope)
            if recorded is None:
                return await self.read()
            self._effects.said_by = (self._action.id, recorded.epoch)
            self._replay = self._replayed(recorded.record)
        for event in self._replay:
            return event
        raise StopAsyncIteration

    async def _begin(self) -> JournalRow | None:
        """Ask the model, unless its reply is recorded."""
        effects = self._effects
        is_addressed = effects.is_kept and effects.inbox.listens
        request = await self._addressed() if is_addressed else self._request
        recorded = effects.recording.take(self._action) if effects.has_record else None
        reply = recorded.after if recorded is not None else None
        is_live = reply is None or not is_kept(reply)
        is_looked_at = effects.needs_context or request.context
        if is_looked_at and effects.context.concerns(request, is_live=is_live):
            request = await self._shown(effects.context, request)
        if is_live:
            await self._open(request)
            return None
        return reply

    async def _addressed(self) -> ModelRequest:
        """The request with what was sent to the run; what a tool or a handler asks a model is its own affair."""
        if is_inside_an_action(self._scope.path):
            return self._request
        effects = self._effects
        boundary = f"{self._scope.path}/signals#{self._action.id.rpartition('#')[2]}"
        await effects.hear(boundary, self._action.id, len(self._request.messages))
        return effects.inbox.inserted(self._request)

    async def _shown(self, context: IContext, request: ModelRequest) -> ModelRequest:
        shown = await context.shown(self._scope, self._action.id, request, self._summary)
        self._manifest = shown.manifest
        return shown.request

    async def _summary(self, request: ModelRequest) -> Summary:
        """What the model says of earlier turns: counted and asked about like any other call.

        Raises:
            ModelCallError: the call failed, or must not be made.
        """
        effects = self._effects
        if effects.switches is not None:
            await effects.switches.check()
        held = effects.spending.reserve_model_call(self._name)
        reserved, used = await effects.gate.reserve(self._needed(request)), ONE_STEP
        try:
            await self._check_allowed(request)
            if effects.prompts is not None:
                effects.prompts.keep(self._action.id, self._name, request)
            response = await self._model.complete(request)
            used += effects.spending.settle_model_call(self._name, response.usage, held)
        except ModelCallError:
            effects.spending.let_go(held)
            raise
        finally:
            await effects.gate.settle(reserved, used)
        return Summary(response.content, used)

    async def _check_allowed(self, request: ModelRequest) -> None:
        denied = await self._effects.gate.before_model(request, self._effects.redactor)
        if denied is not None:
            raise ModelCallError(f"the model call is not allowed: {denied.reason}")

    async def _open(self, request: ModelRequest) -> None:
        effects = self._effects
        if effects.switches is not None:
            await effects.switches.check()
        effects.begin_anew()
        effects.said_by = (self._action.id, effects.ledger.epoch)
        if effects.ledger.epoch > 1:
            effects.telling.supersede(effects.message_id)
        held = effects.spending.reserve_model_call(self._name)
        self._heard = ReplyRecorder(
            effects, self._action, self._name, self._request, request, self._manifest, held
        )
        if effects.warnings is not None:
            effects.warnings.look_at(effects.spending)
        if not effects.gate.is_open or effects.was_asked(self._action.id):
            await self._pass_the_gate(request)
        effects.go_on()
        if effects.prompts is not None:
            effects.prompts.keep(self._action.id, self._name, request)
        self._inner = self._model.stream(request)
        self.is_open = True
        if not effects.observer.is_idle:
            self._heard.asked_at = effects.clock.monotonic()
        effects.open_streams.append(self)

    async def _pass_the_gate(self, request: ModelRequest) -> None:
        self._budgeted = await self._effects.gate.reserve(self._needed(request))
        try:
            await self._ask_whoever_must_be_asked()
            await self._look_for_a_veto(request)
        except BaseException:
            # Nobody was asked: what was held for the call is free again, also while the run waits for a person.
            await self._settle(NOTHING)
            raise

    async def _look_for_a_veto(self, request: ModelRequest) -> None:
        try:
            await self._check_allowed(request)
        except ModelCallError as denied:
            raise self._failed(denied) from denied

    def _needed(self, request: ModelRequest) -> BudgetAmount:
        """What the call is thought to take, for an application that bounds what several calls take together."""
        if not self._effects.gate.has_budget:
            return ONE_STEP
        return ONE_STEP + self._effects.spending.worth_of(self._name, expected_usage(request))

    async def _ask_whoever_must_be_asked(self) -> None:
        boundary, effects = AgentApprovalBoundaryKind.MODEL_CALL, self._effects
        was_asked = effects.was_asked(self._action.id)
        asks = None if was_asked else await effects.gate.question(boundary, self._action)
        if asks is None and not was_asked:
            return
        call = Call(self._scope, self._action, _never, _as_it_is, boundary=boundary)
        try:
            effects.waits.approved_arguments(call, 1, asks)
        except ToolError as rejected:
            raise self._failed(ModelCallError(str(rejected))) from rejected

    async def read(self) -> ModelStreamEvent:
        """The next event of the model. Its last one is the reply, which is recorded; behind it the stream ends."""
        if self.is_over:
            await self.close()
            raise StopAsyncIteration
        try:
            try:
                event = await self._inner.__anext__()
            except StopAsyncIteration:
                self._look()
                no_reply = ModelCallError("the model's stream ended without a reply", retryable=True)
                raise self._failed(no_reply) from None
            except Exception as error:
                raise self._failed(error) from error
            if self._liveness.must_look:
                self._look()
            if event.kind is _TOKEN and event.usage is None:
                self._heard.text.append(event.token_delta or "")
                return event
            event = self._heard.note(event)
            if event.response is not None:
                self.is_over = True
                used = self._heard.end(event.response)
                if not self._effects.gate.is_open:
                    await self._tell_the_gate(event.response, used)
        except BaseException:
            await self.close()
            raise
        return event

    def _look(self) -> None:
        """Somebody may have ended the attempt in the middle of the stream."""
        if self._liveness.must_look:
            self._liveness.check(self._scope)

    async def _tell_the_gate(self, response: ModelResponse, used: BudgetAmount) -> None:
        await self._settle(ONE_STEP + used)
        await self._effects.gate.after_model(response, self._request, self._effects.redactor)

    async def _settle(self, used: BudgetAmount) -> None:
        """Tell the application's budget what the call took, once."""
        reserved, self._budgeted = self._budgeted, None
        await self._effects.gate.settle(reserved, used)

    async def close(self) -> None:
        """Whoever leaves early is given, now and in replay, what was read."""
        self._is_new, self._replay = False, _NOTHING_LEFT
        if not self.is_open:
            return
        self.is_open, self.reader = False, None
        self._effects.open_streams.remove(self)
        if not self.is_over:
            self.is_over = True
            task = asyncio.current_task()
            is_stopped = self._liveness.is_ending or bool(task and task.cancelling())
            self._heard.leave(is_stopped=is_stopped)
        if self._budgeted is not None:
            await self._settle(ONE_STEP + self._heard.took)
        if (aclose := getattr(self._inner, "aclose", None)) is not None:
            await aclose()

    def _failed(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        self.is_over = True
        return self._heard.fail(error)

    def _replayed(self, record: Any) -> Iterator[ModelStreamEvent]:
        self._effects.spending.absorb(ONE_STEP)
        count_reply(record, self._effects.spending)
        if "problems" in record:
            return replayed_misfit(record)
        if "error" in record:
            raise decode_failure(record)
        response = decode_response(record["result"], self._request)
        return iter(replayed_events(response, self._request, record.get("reasoning", "")))


async def _never(_: Attempt) -> object:
    raise AssertionError("a model call is carried out by its stream")


def _as_it_is(value: JsonValue) -> object:
    return value
