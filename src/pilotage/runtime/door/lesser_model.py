"""A model that can do less than a run may ask for, behind what makes up for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.runtime.actions.closing import close
from pilotage.runtime.door.lesser_requests import answer_of, is_lesser, put_for


def made_up_for(model: IAgentModel) -> IAgentModel:
    """The model itself, or with what it lacks made up for as far as that can be done in words."""
    capability = model.capability
    return LesserModel(model, capability) if is_lesser(capability) else model


class LesserModel(IAgentModel):
    """Puts requests so that the model can read them, and finds the answer in what it says."""

    def __init__(self, model: IAgentModel, capability: ModelCapability) -> None:
        self._model = model
        self._capability = capability

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self._with_answer(await self._model.complete(put_for(request, self._capability)), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        events = self._model.stream(put_for(request, self._capability))
        try:
            async for event in events:
                if event.response is None:
                    yield event
                    continue
                response = self._with_answer(event.response, request)
                if response is not event.response and response.structured_output is not None:
                    kind = ModelStreamEventKind.STRUCTURED_OUTPUT
                    yield ModelStreamEvent(kind, structured_output=response.structured_output)
                yield replace(event, response=response)
        finally:
            await close(events)

    def _with_answer(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        spec = request.structured_output
        is_made_up_for = spec is not None and not self._capability.structured_output
        return answer_of(response, spec) if spec is not None and is_made_up_for else response
