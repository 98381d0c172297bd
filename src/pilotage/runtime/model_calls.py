"""Model calls made inside a run: recorded when the stream ends, replayed without asking the model again."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any, cast

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.ports.model import IAgentModel, ModelCapability, ModelSelection
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import ModelCallError
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
        async for event in _ModelCall(effects, self._model, request).events():
            if event.response is not None:
                return event.response
        raise ModelCallError("the model's stream ended without a reply", retryable=True)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        effects = active_effects.get()
        if effects is None:
            return self._model.stream(request)
        return _ModelCall(effects, self._model, request).events()

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
        self._text = ""
        self._is_over = False
        self._scope: Scope = scope_for("model")
        self._boundary = self._scope.next_id("signals")
        self._action = _action(self._scope.next_id("model"), effects.ledger.run.run_id)

    @property
    def path(self) -> str:
        return self._scope.path

    async def events(self) -> AsyncGenerator[ModelStreamEvent, None]:
        self._effects.ledger.check_alive()
        request = self._effects.inbox.addressed(self._boundary, self._request)
        recorded = self._effects.recording.take(self._action)
        if recorded is not None and recorded.after is not None:
            for replayed in self._replayed(cast("dict[str, JsonValue]", recorded.after.record)):
                yield replayed
            return
        try:
            await self._effects.check_model(request)
        except ModelCallError as error:
            self._record({"error": str(error), "retryable": False})
            raise
        self._inner = self._model.stream(request)
        self._effects.open_streams.append(self)
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            await self._close()

    async def drain(self) -> None:
        while (event := await self._read()) is not None:
            self._read_ahead.append(event)

    async def _next(self) -> ModelStreamEvent | None:
        return self._read_ahead.popleft() if self._read_ahead else await self._read()

    async def _read(self) -> ModelStreamEvent | None:
        """The next event of the model; None behind the last one, whose reply is then recorded."""
        if self._is_over or self._inner is None:
            return None
        try:
            event = await anext(self._inner, None)
        except ModelCallError as error:
            self._record({"error": str(error), "retryable": error.retryable})
            raise
        if event is None:
            self._record({"error": "the model's stream ended without a reply", "retryable": True})
            raise ModelCallError("the model's stream ended without a reply", retryable=True)
        self._text += event.text if event.is_text_delta else ""
        if event.response is not None:
            self._record({"result": encode_response(event.response)})
        if event.is_tool_call and event.tools is None:
            return replace(event, tools=self._request.tool_calling)
        return event

    async def _close(self) -> None:
        """Whoever leaves early is given, now and in replay, what was read."""
        self._effects.open_streams.remove(self)
        if not self._is_over:
            self._record({"result": encode_response(ModelResponse(self._text))})
        if isinstance(self._inner, AsyncGenerator):
            await cast("AsyncGenerator[ModelStreamEvent, None]", self._inner).aclose()

    def _record(self, record: JsonObject) -> None:
        self._is_over = True
        self._effects.ledger.append(self._action, JournalStage.AFTER, 1, record, record)

    def _replayed(self, record: dict[str, JsonValue]) -> list[ModelStreamEvent]:
        if "error" in record:
            raise ModelCallError(record["error"], retryable=bool(record["retryable"]))
        response = decode_response(cast(JsonObject, record["result"]), self._request)
        return list(replayed_events(response, self._request))


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
