"""Model calls made inside a run: recorded when the stream ends, replayed without asking the model again."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast
from weakref import ref

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.ports.model import IAgentModel, ModelCapability, ModelSelection
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.action import Action, fingerprint_of
from pilotage.runtime.effects import Effects, active_effects
from pilotage.runtime.model_record import decode_response, encode_response, replayed_events
from pilotage.runtime.scope import Scope, scope_for


class RunAwareModel(IAgentModel):
    """A model that is part of the run it is called in; outside a run it is the model behind it."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model

    async def complete(self, request: ModelRequest) -> ModelResponse:
        effects = active_effects.get()
        if effects is None:
            return await self._model.complete(request)
        async with aclosing(_ModelCall(effects, self._model, request).stream()) as events:
            async for event in events:
                if event.response is not None:
                    return event.response
        raise ModelCallError("the model's stream ended without a reply", retryable=True)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        effects = active_effects.get()
        if effects is None:
            return self._model.stream(request)
        return _ModelCall(effects, self._model, request).stream()

    @property
    def capability(self) -> ModelCapability:
        return self._model.capability

    def capability_for(self, selection: ModelSelection | None) -> ModelCapability:
        return self._model.capability_for(selection)

    def validate_request(self, request: ModelRequest) -> None:
        self._model.validate_request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _ModelCall:
    """One call. Its id is taken when it is made, not when its first event is awaited."""

    def __init__(self, effects: Effects, model: IAgentModel, request: ModelRequest) -> None:
        self._effects = effects
        self._model = model
        self._request = request
        self._inner: AsyncIterator[ModelStreamEvent] | None = None
        self._read_ahead: deque[ModelStreamEvent] = deque()
        self._text = self._reasoning = ""
        self.is_over = False
        self._reader: ref[AsyncGenerator[ModelStreamEvent, None]] | None = None
        self._scope: Scope = scope_for("model")
        self._boundary = self._scope.next_id("signals")
        self._action = _action(self._scope.next_id("model"), effects.ledger.run.run_id)

    @property
    def path(self) -> str:
        return self._scope.path

    def stream(self) -> AsyncGenerator[ModelStreamEvent, None]:
        """The stream to read; the call knows when its reader lets go of it."""
        events = self._events()
        self._reader = ref(events)
        return events

    async def drain(self) -> None:
        """Read on for the reader; for one that has left, what was read is the reply."""
        if self._reader is None or self._reader() is None:
            await self._close()
            return
        while (event := await self._read()) is not None:
            self._read_ahead.append(event)

    async def _events(self) -> AsyncGenerator[ModelStreamEvent, None]:
        self._effects.liveness.check(self._scope)
        request = self._effects.inbox.addressed(self._boundary, self._request)
        recorded = self._effects.recording.take(self._action)
        if recorded is not None and recorded.after is not None:
            for replayed in self._replayed(cast("dict[str, JsonValue]", recorded.after.record)):
                yield replayed
            return
        await self._open(request)
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            await self._close()

    async def _open(self, request: ModelRequest) -> None:
        try:
            await self._effects.check_model(request)
        except ModelCallError as error:
            raise self._failed(error) from error
        self._inner = self._model.stream(request)
        self._effects.open_streams.append(self)

    async def _next(self) -> ModelStreamEvent | None:
        return self._read_ahead.popleft() if self._read_ahead else await self._read()

    async def _read(self) -> ModelStreamEvent | None:
        """The next event of the model; None behind the last one, whose reply is then recorded."""
        if self.is_over or self._inner is None:
            return None
        try:
            event = await anext(self._inner, None)
        except Exception as error:
            raise self._failed(error) from error
        if event is None:
            raise self._failed(ModelCallError("the model's stream ended without a reply", retryable=True))
        self._text += event.text if event.is_text_delta else ""
        self._reasoning += event.reasoning_delta or ""
        if event.response is not None:
            self._record({"result": encode_response(event.response), "reasoning": self._reasoning})
        if event.is_tool_call and event.tools is None:
            return replace(event, tools=self._request.tool_calling)
        return event

    async def _close(self) -> None:
        """Whoever leaves early is given, now and in replay, what was read."""
        if self in self._effects.open_streams:
            self._effects.open_streams.remove(self)
        if not self.is_over:
            self._record({"result": encode_response(ModelResponse(self._text))})
        inner, self._inner = self._inner, None
        if isinstance(inner, AsyncGenerator):
            await cast("AsyncGenerator[ModelStreamEvent, None]", inner).aclose()

    def _failed(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        """Write down how the call failed, and give the error the program gets, now and in replay."""
        if isinstance(error, AgentStructuredOutputError):
            self._record({"error": str(error), "problems": list(error.problems)})
            return error
        failure = (
            error if isinstance(error, ModelCallError) else ModelCallError(f"{type(error).__name__}: {error}")
        )
        self._record({"error": str(failure), "retryable": failure.retryable})
        return failure

    def _record(self, record: JsonObject) -> None:
        self.is_over = True
        self._effects.ledger.append(self._action, JournalStage.AFTER, 1, record, record)

    def _replayed(self, record: dict[str, JsonValue]) -> list[ModelStreamEvent]:
        if "problems" in record:
            problems = cast("list[str]", record["problems"])
            raise AgentStructuredOutputError(record["error"], problems=problems)
        if "error" in record:
            raise ModelCallError(record["error"], retryable=bool(record["retryable"]))
        response = decode_response(cast(JsonObject, record["result"]), self._request)
        reasoning = cast(str, record.get("reasoning", ""))
        return list(replayed_events(response, self._request, reasoning))


def _action(action_id: str, run_id: str) -> Action:
    """A changed prompt is drift, not divergence: the messages are not part of the fingerprint."""
    kind = AgentActionKind.MODEL_CALL
    return Action(
        id=action_id,
        kind=kind,
        name="model",
        asked=None,
        view=None,
        idempotency=Idempotency.IDEMPOTENT,
        is_read_only=True,
        fingerprint=fingerprint_of(run_id, action_id, kind, "model", None),
    )
