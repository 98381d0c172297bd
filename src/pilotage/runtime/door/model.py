"""A model that knows the run it is called in: inside one a call is an action, outside it is the model's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability, ModelSelection
from pilotage.errors import ModelCallError
from pilotage.runtime.door.capabilities import adapted_model
from pilotage.runtime.door.model_call import ModelCall, ModelStream
from pilotage.runtime.door.run import Effects, active_effects
from pilotage.runtime.journal.action import message_id_of
from pilotage.runtime.journal.scope import scope_for


class RunAwareModel(IAgentModel):
    """A model that is part of the run it is called in; outside a run it is the model behind it."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model

    @property
    def behind(self) -> IAgentModel:
        """The model itself."""
        return self._model

    @cached_property
    def name(self) -> str:
        """What the model is called, for prices and records."""
        return self._model.capability.model

    @cached_property
    def _asked(self) -> IAgentModel:
        """The model as a run asks it; what it can do is known when it is asked first."""
        return adapted_model(self._model)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        effects = active_effects.get()
        if effects is None:
            return await self._model.complete(request)
        stream = ModelStream(ModelCall(effects, self._asked, self.name, request))
        try:
            async for event in stream:
                if event.response is not None:
                    return event.response
        finally:
            await stream.aclose()
        raise ModelCallError("the model's stream ended without a reply", retryable=True)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        effects = active_effects.get()
        if effects is None:
            return self._model.stream(request)
        return ModelStream(ModelCall(effects, self._asked, self.name, request))

    @property
    def capability(self) -> ModelCapability:
        return self._model.capability

    def capability_for(self, selection: ModelSelection | None) -> ModelCapability:
        return self._model.capability_for(selection)

    def validate_request(self, request: ModelRequest) -> None:
        self._model.validate_request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def plain_model(model: IAgentModel) -> IAgentModel:
    """The model behind a run-aware one, any other as it is.

    For wrappers: a call of the wrapper is the action, and what it asks the models inside is part of it.
    """
    return model.behind if isinstance(model, RunAwareModel) else model


def next_message_id(effects: Effects) -> str:
    """The id of what the model will say in the next call of this scope: in replay the one it had."""
    action_id, ledger = scope_for("model").coming_id("model"), effects.ledger
    recorded = effects.recording.outcome_of(action_id) if effects.has_record else None
    return message_id_of(ledger.run.run_id, action_id, ledger.epoch if recorded is None else recorded.epoch)
