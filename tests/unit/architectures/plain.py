"""Dependencies without a runtime: the model is asked, tools are called, nothing is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from copy import copy
from datetime import datetime
from typing import TypeVar

from pilotage.agent.events import AgentEvent, AgentEventAttribution, StepFinishedEvent
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest, ModelToolSpec, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    Dependencies,
    FailurePolicy,
    IScopedModel,
    IScopedRuntime,
    IScopedTools,
    ToolCallOutcome,
)
from pilotage.agent.ports.budget import NoBudget
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.observability import NoTelemetry
from pilotage.agent.ports.permissions import AllowAll
from pilotage.agent.principal import RunContext
from pilotage.agent.tools.declare import get_agent_tool_definition
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentToolBindingError, AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.safety.trust import TrustLabel

T = TypeVar("T")
BY = AgentEventAttribution("greeter", "run-1", "run-1")


class PlainModel(IScopedModel):
    """A model that is simply asked; it keeps the replies and counts the streams that were closed."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model
        self.replies: list[ModelResponse] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        try:
            async for event in self._model.stream(request):
                if event.response is not None:
                    self.replies.append(event.response)
                yield event
        finally:
            self.closed += 1

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._model.complete(request)

    async def structured(self, output_type: type[T], prompt: str | Sequence[ModelMessage]) -> T:
        messages = [ModelMessage.user(prompt)] if isinstance(prompt, str) else prompt
        request = ModelRequest(messages, output=StructuredOutputSpec.from_type(output_type))
        answer: T = (await self.complete(request)).output
        return answer


class PlainTools(IScopedTools):
    """Functions marked `@agent_tool`; it remembers what was called, and what together."""

    def __init__(self, functions: Sequence[Callable[..., object]]) -> None:
        self._calling = ToolCallingSpec.from_tools(functions) if functions else None
        self.called: list[list[str]] = []

    @property
    def calling(self) -> ToolCallingSpec | None:
        return self._calling

    def is_read_only(self, name: str) -> bool:
        function = self._calling.functions.get(name) if self._calling else None
        definition = get_agent_tool_definition(function) if function else None
        return definition is None or definition.metadata.is_read_only

    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        self.called.append([call.name])
        return await self._outcome(call)

    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        self.called.append([call.name for call in calls])
        return await asyncio.gather(*map(self._outcome, calls))

    async def _outcome(self, call: ModelToolCall) -> ToolCallOutcome:
        try:
            spec = self._calling or ToolCallingSpec(())
            return ToolCallOutcome(call, to_json_value(await spec.invoke(call)))
        except (ToolError, AgentToolBindingError, AgentToolDispatchError) as error:
            return ToolCallOutcome(call, error=str(error))


class PlainRuntime(IScopedRuntime):
    """Does what it is asked at once; what only a durable runtime can do is refused."""

    async def step(
        self, name: str, act: Callable[[], Awaitable[T]], *, idempotency: Idempotency = Idempotency.UNKNOWN
    ) -> T:
        return await act()

    async def gather(
        self,
        label: str,
        branches: Sequence[Callable[[], Awaitable[T]]],
        *,
        limit: int | None = None,
        policy: FailurePolicy = FailurePolicy.FAIL_FAST,
        quorum: int | None = None,
    ) -> Sequence[T]:
        return [await branch() for branch in branches]

    async def loop(self, label: str, state: T, turn: Callable[[T], Awaitable[T | None]]) -> T:
        while (after := await turn(state)) is not None:
            state = after
        return state

    async def spawn_child(
        self, name: str, agent: AgentRef, task: JsonValue, *, exits: Sequence[ModelToolSpec] = ()
    ) -> JsonValue:
        raise NotImplementedError

    async def now(self) -> datetime:
        raise NotImplementedError

    async def uid(self) -> str:
        raise NotImplementedError


class PlainDependencies(Dependencies):
    """Everything an architecture may use, with nothing behind it but a model and functions."""

    fast_audit = fast_telemetry = fast_permissions = fast_hooks = fast_runtime = fast_budget = True

    def __init__(
        self,
        model: IAgentModel,
        tools: Sequence[Callable[..., object]] = (),
        *,
        output_type: object = None,
        max_turns: int = 10,
    ) -> None:
        self.model = self.plain_model = PlainModel(model)
        self.plain_tools = PlainTools(tools)
        self.tools: IScopedTools = self.plain_tools
        self.runtime = PlainRuntime()
        self.attribution = BY
        self.output = StructuredOutputSpec.from_type(output_type) if output_type is not None else None
        self.memory = None
        self.budget = NoBudget()
        self.permissions = AllowAll()
        self.hooks = ()
        self.telemetry = NoTelemetry()
        self.audit_log = None
        self.context = RunContext(run_id=BY.run_id)
        self.max_turns = max_turns
        self.streaming = True
        self._messages = 0
        self.told: list[AgentEvent] = []
        self._trust = TrustLabel()

    @property
    def trust(self) -> TrustLabel:
        return self._trust

    def learn(self, label: TrustLabel) -> None:
        self._trust = self._trust.join(label)

    def fresh_session(self, instructions: str | None = None) -> AgentSession:
        return AgentSession("run-1", instructions or "")

    def scope_for_worker(self, name: str) -> Dependencies:
        return self

    def with_extra_tools(self, tools: Sequence[Callable[..., object]]) -> Dependencies:
        raise NotImplementedError

    def with_tools(self, change: Callable[[IScopedTools], IScopedTools]) -> Dependencies:
        changed = copy(self)
        changed.tools = change(self.tools)
        return changed

    def with_output(self, output: StructuredOutputSpec | None) -> Dependencies:
        changed = copy(self)
        changed.output = output
        return changed

    async def tell(self, event: AgentEvent) -> None:
        self.told.append(event)

    def next_message_id(self) -> str:
        self._messages += 1
        return f"run-1:message-{self._messages}"

    def progress(self, step: str, **facts: JsonValue) -> AgentEvent:
        return StepFinishedEvent(BY, step, facts)
