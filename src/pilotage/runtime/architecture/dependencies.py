"""`Dependencies` bound to a run: the only way of an architecture to effects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar, cast

from pilotage.agent.control_tools import ControlTools, Exit, passes_history, refuses
from pilotage.agent.events import AgentEvent, AgentEventAttribution, StepFinishedEvent
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest, ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import (
    AgentSession,
    Architecture,
    Dependencies,
    IScopedModel,
    IScopedTools,
    LoopTurns,
    ToolCallOutcome,
)
from pilotage.agent.ports.budget import NoBudget
from pilotage.agent.ports.observability import NoTelemetry
from pilotage.agent.ports.permissions import AllowAll
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.architecture.blocks import ScopedRuntime
from pilotage.runtime.architecture.loop_turns import DurableTurns
from pilotage.runtime.architecture.memory import ScopedMemory
from pilotage.runtime.architecture.tools import ScopedTools
from pilotage.runtime.door.model import RunAwareModel, next_message_id
from pilotage.runtime.door.model_call import ModelStream, message_id_in
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.scope import StepScope, entered, scope_for, worker_scope
from pilotage.runtime.services import Provided
from pilotage.safety.trust import TrustLabel
from pilotage.schema.validation import MisfitsError, Validate, compile_validator, core_of_json

T = TypeVar("T")


class ScopedModel(IScopedModel):
    """A model with calls that are effects of one run, with forced answers."""

    def __init__(self, model: RunAwareModel, run: Run, scope: StepScope | None = None) -> None:
        self._model = model
        self._opened = model.opened
        self._run = run
        self._scope = scope

    def inside(self, scope: StepScope) -> ScopedModel:
        """Return the same model with its calls in another scope."""
        return ScopedModel(self._model, self._run, scope)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        with entered(self._scope):
            return self._opened(self._run, request)

    def ask(self, request: ModelRequest) -> ModelStream:
        """Return the stream of a call for a loop, which calls tools by their names."""
        if self._scope is None:
            return self._opened(self._run, request, False)
        with entered(self._scope):
            return self._opened(self._run, request, False)

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


DEFAULT_MAX_TURNS = 50
ToolsChange: TypeAlias = Callable[[IScopedTools], IScopedTools]

_NO_BUDGET, _ALLOW_ALL, _NO_TELEMETRY = NoBudget(), AllowAll(), NoTelemetry()


class RunDependencies(Dependencies):
    """The dependencies of one attempt at a run."""

    def __init__(
        self,
        run: Run,
        model: ScopedModel,
        tools: ScopedTools,
        provided: Provided,
        *,
        instructions: str,
        output: StructuredOutputSpec | None = None,
        max_turns: int = DEFAULT_MAX_TURNS,
        streaming: bool = True,
        scope: StepScope | None = None,
        change_tools: ToolsChange | None = None,
    ) -> None:
        by = run.source.attribution
        self._scope = scope
        self._change_tools = change_tools
        self.model = self._model = model
        self._tools = tools
        self.tools: IScopedTools = tools if change_tools is None else change_tools(tools)
        self.runtime = ScopedRuntime(run, scope)
        self.attribution = by if scope is None else replace(by, branch=_place(by, scope))
        self.context = run.context
        self.output = output
        self.max_turns = max_turns
        self.streaming = streaming
        self._run = run
        self._provided = provided
        self._instructions = instructions
        stages, memory = provided.stages, provided.memory
        self.memory = None if memory is None else ScopedMemory(memory, run, scope)
        self.budget = stages.budget or _NO_BUDGET
        self.permissions = stages.permissions or _ALLOW_ALL
        self.hooks = stages.hooks
        self.telemetry = provided.telemetry or _NO_TELEMETRY
        self.audit_log = provided.audit_log

    @property
    def trust(self) -> TrustLabel:
        return self._run.trust

    @property
    def fast_audit(self) -> bool:
        return self._provided.audit_log is None

    @property
    def fast_telemetry(self) -> bool:
        return self._provided.telemetry is None

    @property
    def fast_permissions(self) -> bool:
        return self._provided.stages.permissions is None

    @property
    def fast_hooks(self) -> bool:
        return not self._provided.stages.hooks

    @property
    def fast_runtime(self) -> bool:
        return not self._run.ledger.is_durable

    @property
    def fast_budget(self) -> bool:
        return self._provided.stages.budget is None

    def fresh_session(self, instructions: str | None = None) -> AgentSession:
        run_id = self.attribution.run_id
        with entered(self._scope):
            session_id = scope_for("session").next_id("session")
        return AgentSession(
            f"{run_id}:{session_id}", instructions or self._instructions, cumulative_usage=ModelUsage(0, 0, 0)
        )

    def scope_for_worker(self, name: str) -> Dependencies:
        with entered(self._scope):
            scope = worker_scope(name)
        return self._with(
            model=self._model.inside(scope),
            tools=self._tools.inside(scope),
            scope=scope,
        )

    def with_extra_tools(self, tools: Sequence[Callable[..., object]]) -> Dependencies:
        return self._with(tools=self._tools.with_more(tools))

    def with_tools(self, change: ToolsChange) -> Dependencies:
        before = self._change_tools

        def changed(tools: IScopedTools) -> IScopedTools:
            return change(tools if before is None else before(tools))

        return self._with(change_tools=changed)

    def with_output(self, output: StructuredOutputSpec | None) -> Dependencies:
        return self._with(output=output)

    async def tell(self, event: AgentEvent) -> None:
        run = self._run
        if run.secrets_to_recall:
            await self._tools.recall_secrets()
        run.events.write(event)
        if run.events.is_full:
            await run.events.wait_for_room()

    def next_message_id(self) -> str:
        if self._scope is None:
            return next_message_id(self._run)
        with entered(self._scope):
            return next_message_id(self._run)

    def ask(self, request: ModelRequest) -> tuple[str, AsyncIterator[ModelStreamEvent]]:
        stream = self._model.ask(request)
        return message_id_in(self._run, stream.action_id), stream

    def turns(self) -> LoopTurns:
        run = self._run
        if not run.ledger.is_durable:
            return super().turns()
        return DurableTurns(run, self._tools, self.output, self._scope, is_plain=self.tools is self._tools)

    def progress(self, step: str, **facts: JsonValue) -> AgentEvent:
        return StepFinishedEvent(self.attribution, step, facts)

    def _with(self, **changed: Any) -> RunDependencies:
        current: dict[str, Any] = {
            "run": self._run,
            "model": self._model,
            "tools": self._tools,
            "provided": self._provided,
            "instructions": self._instructions,
            "output": self.output,
            "max_turns": self.max_turns,
            "streaming": self.streaming,
            "scope": self._scope,
            "change_tools": self._change_tools,
        }
        return RunDependencies(**{**current, **changed})


def _place(by: AgentEventAttribution, scope: StepScope) -> str:
    """Return the place of a part of the run, below the place of the run itself."""
    path = scope.path.removeprefix("run/")
    return path if by.branch is None else f"{by.branch}/{path}"


_ONE_IS_ENOUGH = "not done: the reply leaves by another way already."
_REPEATED = (
    "not done: it was done before with the same words, and led back here. There is no way out of this kind any more. "
    "Answer yourself, with what you know."
)


def with_exits(
    deps: Dependencies, architecture: Architecture, exits: Sequence[ModelToolSpec]
) -> Dependencies:
    """Return the dependencies of a loop with these exits on offer; the first that a reply calls ends the loop.

    A call with arguments that its exit refuses is answered with an error, and all exits are withdrawn from then on.
    Loops that work in parts do not support exits, because the end of a part is not the end of the loop; others set
    `takes_exits`.
    """
    if not exits or not getattr(architecture, "takes_exits", False):
        return deps
    ways_out = _WaysOut(exits)
    return deps.with_tools(
        partial(
            ControlTools, controls=exits, answer=ways_out.leave, is_withdrawn=lambda: ways_out.are_withdrawn
        )
    )


class _WaysOut:
    """The exits of one loop: which calls leave by them, and whether they are on offer."""

    def __init__(self, exits: Sequence[ModelToolSpec]) -> None:
        self._by_name = {each.name: each for each in exits}
        self.are_withdrawn = False

    async def leave(self, calls: Sequence[ModelToolCall]) -> list[ToolCallOutcome]:
        """Answer the exit calls of one reply: the first that can be followed ends the loop."""
        outcomes: list[ToolCallOutcome] = []
        for call in calls:
            is_left = any(outcome.ends for outcome in outcomes)
            refusal = _ONE_IS_ENOUGH if is_left else self._refusal(call)
            history = () if passes_history(self._by_name[call.name]) else None
            left = Exit(call.name, call.arguments, history=history).output
            outcomes.append(
                ToolCallOutcome(call, error=refusal, is_wrong_control=True)
                if refusal
                else ToolCallOutcome(call, left, ends=True)
            )
        return outcomes

    def _refusal(self, call: ModelToolCall) -> str:
        """Return why a call is not followed; empty if it is."""
        exit_ = self._by_name[call.name]
        if misfits := _misfits(exit_, call):
            return misfits
        self.are_withdrawn = self.are_withdrawn or refuses(exit_, call.arguments)
        return _REPEATED if self.are_withdrawn else ""


def _misfits(spec: ModelToolSpec, call: ModelToolCall) -> str:
    """Return the problems of the arguments as text for the model; empty if there are none."""
    try:
        _validator(canonical_json(spec.parameters.schema))(call.arguments)
    except MisfitsError as error:
        return " ".join(f"{misfit.path or 'the arguments'}: {misfit.words}." for misfit in error.misfits)
    return ""


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validate:
    loaded: JsonObject = json.loads(schema)
    return compile_validator(core_of_json(loaded))
