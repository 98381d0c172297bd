"""`RunAwareModel`: inside a run a call of the model is an effect, outside it is the model's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability, ModelSelection
from pilotage.errors import ModelCallError
from pilotage.runtime.door.capabilities import adapted_model
from pilotage.runtime.door.model_call import ModelReading, ModelStream
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.journal.action import message_id_of
from pilotage.runtime.journal.scope import scope_for


class RunAwareModel(IAgentModel):
    """A model whose calls are effects of the run they are made in; outside a run it is the model itself."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model

    @property
    def behind(self) -> IAgentModel:
        """The model itself."""
        return self._model

    @cached_property
    def name(self) -> str:
        """The name of the model, for prices and records."""
        return self._model.capability.model

    @cached_property
    def _asked(self) -> IAgentModel:
        """The model as a run asks it; its capabilities are known when it is asked first."""
        return adapted_model(self._model)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        run = active_run()
        if run is None:
            return await self._model.complete(request)
        stream = ModelStream(ModelReading(run, self._asked, self.name, request))
        try:
            async for event in stream:
                if event.response is not None:
                    return event.response
        finally:
            await stream.aclose()
        raise ModelCallError("the model's stream ended without a reply", retryable=True)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        run = active_run()
        if run is None:
            return self._model.stream(request)
        return ModelStream(ModelReading(run, self._asked, self.name, request))

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


def next_message_id(run: Run) -> str:
    """Return the id of what the model will say in the next call of this scope: in replay the one it had."""
    action_id = scope_for("model").coming_id("model")
    recorded = run.replay.outcome_of(action_id)
    return message_id_of(run.id, action_id, run.ledger.epoch if recorded is None else recorded.epoch)
