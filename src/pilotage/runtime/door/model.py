"""`RunAwareModel`: a model call is an effect inside a run, and a plain call outside of one.

Requests are adapted to models with fewer capabilities: without structured output the schema of the answer is described
in the prompt; without parallel calls no message of the transcript has several calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.model_reply import (
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent.model_request import ModelRequest, ModelSelection, StructuredOutputSpec
from pilotage.agent.model_stream import whole_replies, with_output
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.container.names import enumerate_names
from pilotage.errors import AgentModelConfigurationError, AgentStructuredOutputError, ModelCallError, Problem
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.runtime.budget.holds import Conduct
from pilotage.runtime.door.model_call import ModelReading, ModelStream, message_id_in
from pilotage.runtime.door.model_effect import ModelSource
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.events.feed import close
from pilotage.runtime.journal.scope import scope_for

_FENCED = re.compile(r"```(?:json)?\s*\n(?P<body>.*?)```", re.DOTALL)
_BEGINNING = re.compile(r"[{\[]")
_MOST_BEGINNINGS = 20
"""The number of brackets to try: a text with more of them is no answer, and trying all would take too long."""


def needs_adapting(capability: ModelCapability) -> bool:
    """Return whether requests to the model may have to be adapted."""
    return not (capability.structured_output and capability.parallel_tool_calls)


def adapted_request(request: ModelRequest, capability: ModelCapability) -> ModelRequest:
    """Return the request adapted to the model's capabilities."""
    if request.structured_output is not None and not capability.structured_output:
        request = _asked_in_words(request, request.structured_output)
    if not capability.parallel_tool_calls and any(len(each.tool_calls) > 1 for each in request.messages):
        request = replace(request, messages=tuple(_one_call_each(request.messages)))
    return request


def answer_of(response: ModelResponse, spec: StructuredOutputSpec) -> ModelResponse:
    """Return the response with the structured answer of its text; a response that is no answer is unchanged.

    Raises:
        AgentStructuredOutputError: there is no JSON in the text, or it does not match the schema.
    """
    is_answer = response.finish_reason is None or response.finish_reason.is_answer
    if response.tool_calls or not is_answer or not response.content.strip():
        return response
    found = found_in(response.content)
    return replace(response, structured_output=found, output=spec.decode(found))


def found_in(text: str) -> JsonValue:
    """Return the JSON in a text: all of it, in a fence, or from its first bracket on.

    Raises:
        AgentStructuredOutputError: there is none.
    """
    for candidate in (text.strip(), *(fence["body"] for fence in _FENCED.finditer(text))):
        try:
            found: JsonValue = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        return found
    for beginning in islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        try:
            found = json.JSONDecoder(strict=False).raw_decode(text, beginning.start())[0]
        except (ValueError, RecursionError):
            continue
        return found
    problem = "there is no JSON in the answer."
    raise AgentStructuredOutputError(f"the answer has no structured output: {problem}", problems=[problem])


def _asked_in_words(request: ModelRequest, spec: StructuredOutputSpec) -> ModelRequest:
    when = "When you call no tool, answer" if request.tool_calling is not None else "Answer"
    schema = canonical_json(spec.constraint.schema)
    note = ModelMessage.system(
        f"{when} with JSON only, without any other word, that fits this JSON schema:\n{schema}"
    )
    others = (i for i, each in enumerate(request.messages) if each.role is not ModelMessageRole.SYSTEM)
    lead = next(others, len(request.messages))
    messages = (*request.messages[:lead], note, *request.messages[lead:])
    return replace(request, messages=messages, structured_output=None)


def _one_call_each(messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """Yield each call in a message of its own, followed by its result."""
    results = {each.tool_call_id: each for each in messages if each.role is ModelMessageRole.TOOL}
    split = {call.call_id for each in messages if len(each.tool_calls) > 1 for call in each.tool_calls}
    for message in messages:
        if message.role is ModelMessageRole.TOOL and message.tool_call_id in split:
            continue
        if len(message.tool_calls) < 2:
            yield message
            continue
        for position, call in enumerate(message.tool_calls):
            # What stands beside the calls, reasoning for example, goes with the first of them.
            yield (
                replace(message, tool_calls=(call,)) if position == 0 else ModelMessage.assistant("", (call,))
            )
            if call.call_id in results:
                yield results[call.call_id]


def adapted_model(model: IAgentModel) -> IAgentModel:
    """Return the model itself, or wrapped so that requests are adapted to its capabilities."""
    capability = model.capability
    return AdaptedModel(model, capability) if needs_adapting(capability) else model


class AdaptedModel(IAgentModel):
    """Adapts requests to the model's capabilities, and parses the structured answer in its text."""

    def __init__(self, model: IAgentModel, capability: ModelCapability) -> None:
        self._model = model
        self._capability = capability

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return await self._model.count_tokens(adapted_request(request, self._capability))

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self._with_answer(
            await self._model.complete(adapted_request(request, self._capability)), request
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        adapted = adapted_request(request, self._capability)
        events = whole_replies(self._model.stream(adapted), adapted)
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


def misfits(
    definition: AgentDefinition, tools: Sequence[str], capability: ModelCapability
) -> Iterator[Problem]:
    """Yield the problems of driving an agent with a model; `tools` are the names of the agent's tools."""
    agent, model = definition.target.__name__, repr(capability.model)
    if tools and not capability.tools:
        yield Problem(
            "agent_model_without_tools",
            f"{agent} offers {enumerate_names([repr(each) for each in tools])} to {model}, which cannot call tools.",
            "Bind a model that can: app.bind(IAgentModel, ...), or offer no tools.",
            family=AgentModelConfigurationError,
        )
    budget, length = definition.spec.effective_context_budget, capability.context_tokens
    reserved = (budget.reserved_output_tokens or 0) if budget is not None else 0
    if length is not None and reserved >= length:
        yield Problem(
            "agent_context_too_short",
            f"{agent} keeps {reserved} tokens for the answer, and {model} takes {length} in all.",
            "Reserve fewer (AgentExecutionSpec.context_budget), or bind a model with a longer context.",
            family=AgentModelConfigurationError,
        )


def models_held_by(instance: object) -> list[IAgentModel]:
    """Return the models that an agent injects, in the order of its attributes."""
    return [each for each in vars(instance).values() if isinstance(each, IAgentModel)]


def within_length(budget: ContextTokenBudget, models: Iterable[IAgentModel]) -> ContextTokenBudget:
    """Return the budget reduced to the shortest context of the models; without a limit of its own, it gets theirs."""
    lengths = [model.capability.context_tokens for model in models]
    bounds = [each for each in (budget.max_tokens, *lengths) if each is not None]
    return replace(budget, max_tokens=min(bounds, default=None))


class RunAwareModel(IAgentModel):
    """A model with calls that are effects of the current run; outside a run it calls the wrapped model directly."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model

    @property
    def unwrapped_model(self) -> IAgentModel:
        """Return the wrapped model."""
        return self._model

    @cached_property
    def _source(self) -> ModelSource:
        """Return the model as runs call it; its capabilities are read at the first call."""
        capability = self._model.capability
        return ModelSource(adapted_model(self._model), capability.model, capability, Conduct())

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return await self._model.count_tokens(request)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        run = active_run()
        if run is None:
            return with_output(await self._model.complete(request), request.structured_output)
        stream = ModelStream(ModelReading(run, self._source, request, is_whole=True))
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
            return whole_replies(self._model.stream(request), request)
        return self.opened(run, request)

    def opened(self, run: Run, request: ModelRequest, attaches_tools: bool = True) -> ModelStream:
        """Return the stream of a call that a run makes; its tool calls may have the tools of the request."""
        return ModelStream(ModelReading(run, self._source, request, attaches_tools))

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
    """Return the wrapped model of a run-aware one; any other model is returned as it is.

    For wrappers: a call of the wrapper is the action, and its calls of the wrapped models are part of it.
    """
    return model.unwrapped_model if isinstance(model, RunAwareModel) else model


def next_message_id(run: Run) -> str:
    """Return the id of the model's message in the next call of this scope; in replay, the recorded one."""
    return message_id_in(run, scope_for("model").coming_id("model"))
