"""The agent's model as an architecture sees it: every call is an action of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar, cast

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import IScopedModel
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError
from pilotage.runtime.journal.scope import Scope, entered

T = TypeVar("T")


class ScopedModel(IScopedModel):
    """A run-aware model, with forced answers."""

    def __init__(self, model: IAgentModel, scope: Scope | None = None) -> None:
        self._model = model
        self._scope = scope

    def inside(self, scope: Scope) -> ScopedModel:
        """The same model, its calls in another scope."""
        return ScopedModel(self._model, scope)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if self._scope is None:
            return self._model.stream(request)
        with entered(self._scope):
            return self._model.stream(request)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        with entered(self._scope):
            return await self._model.complete(request)

    async def structured(self, output_type: type[T], prompt: str | Sequence[ModelMessage]) -> T:
        messages = [ModelMessage.user(prompt)] if isinstance(prompt, str) else list(prompt)
        wanted: object = output_type
        output = StructuredOutputSpec.from_type(wanted)
        try:
            typed = await self._typed(messages, output)
        except AgentStructuredOutputError as error:
            problems = "\n".join(f"- {problem}" for problem in error.problems or (str(error),))
            note = f"The last answer was not of the type asked for:\n{problems}\nAnswer again, and only in that type."
            typed = await self._typed([*messages, ModelMessage.evidence(note)], output)
        return cast(T, typed.output)

    async def _typed(self, messages: Sequence[ModelMessage], output: StructuredOutputSpec) -> ModelResponse:
        response = await self.complete(ModelRequest(messages, output=output))
        if response.structured_output is None:
            problems = ["there was no structured answer."]
            raise AgentStructuredOutputError("the answer has no structured output", problems=problems)
        return response
