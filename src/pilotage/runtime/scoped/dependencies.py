"""What an architecture may use: `Dependencies` bound to a run, the only way to effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotage.agent.events import AgentEvent, AgentEventAttribution, StepFinishedEvent
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.ports.audit import IAgentAuditLog
from pilotage.agent.ports.budget import IAgentBudget, NoBudget
from pilotage.agent.ports.hooks import IAgentHooks
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.permissions import AllowAll, IAgentPermissions
from pilotage.agent.ports.telemetry import IAgentTelemetry, NoTelemetry
from pilotage.agent.principal import RunContext
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.actions.scope import Scope, entered, scope_for, worker_scope
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.model_calls import next_message_id
from pilotage.runtime.gate.gate import NO_STAGES, Stages
from pilotage.runtime.scoped.blocks import ScopedRuntime
from pilotage.runtime.scoped.model import ScopedModel
from pilotage.runtime.scoped.tools import ScopedTools
from pilotage.values import value

DEFAULT_MAX_TURNS = 50

_NO_BUDGET, _ALLOW_ALL, _NO_TELEMETRY = NoBudget(), AllowAll(), NoTelemetry()


@value
class Provided:
    """The application's ports that architectures may read; None where there is nothing, or the built-in no-op."""

    stages: Stages = NO_STAGES
    memory: IAgentMemory | None = None
    telemetry: IAgentTelemetry | None = None
    audit_log: IAgentAuditLog | None = None


class RunDependencies(Dependencies):
    """The dependencies of one attempt at a run."""

    def __init__(
        self,
        effects: Effects,
        model: ScopedModel,
        tools: ScopedTools,
        runtime: ScopedRuntime,
        by: AgentEventAttribution,
        context: RunContext,
        provided: Provided,
        instructions: str,
        output: StructuredOutputSpec | None = None,
        max_turns: int = DEFAULT_MAX_TURNS,
        scope: Scope | None = None,
    ) -> None:
        self._scope = scope
        self.model = self._model = model
        self.tools = self._tools = tools
        self.runtime = self._runtime = runtime
        self.attribution = by
        self.context = context
        self.output = output
        self.max_turns = max_turns
        self.streaming = True
        self._effects = effects
        self._provided = provided
        self._instructions = instructions
        self._take(provided)

    def _take(self, provided: Provided) -> None:
        stages = provided.stages
        self.memory: IAgentMemory | None = provided.memory
        self.budget: IAgentBudget = stages.budget or _NO_BUDGET
        self.permissions: IAgentPermissions = stages.permissions or _ALLOW_ALL
        self.hooks: Sequence[IAgentHooks] = stages.hooks
        self.telemetry: IAgentTelemetry = provided.telemetry or _NO_TELEMETRY
        self.audit_log: IAgentAuditLog | None = provided.audit_log
        self.fast_audit = provided.audit_log is None
        self.fast_telemetry = provided.telemetry is None
        self.fast_permissions = stages.permissions is None
        self.fast_hooks = not stages.hooks
        self.fast_runtime = not self._effects.ledger.is_kept
        self.fast_budget = stages.budget is None

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
        parts = (self._model.inside(scope), self._tools.inside(scope), self._runtime.inside(scope))
        return self._with(*parts, scope)

    def with_extra_tools(self, tools: Sequence[Callable[..., object]]) -> Dependencies:
        return self._with(self._model, self._tools.with_more(tools), self._runtime, self._scope)

    def next_message_id(self) -> str:
        if self._scope is None:
            return next_message_id(self._effects)
        with entered(self._scope):
            return next_message_id(self._effects)

    async def fit(self, session: AgentSession) -> None:
        """The run's context window condenses what a model gets to see; the session keeps all of it."""

    def progress(self, step: str, **facts: JsonValue) -> AgentEvent:
        return StepFinishedEvent(self.attribution, step, facts)

    def _with(
        self, model: ScopedModel, tools: ScopedTools, runtime: ScopedRuntime, scope: Scope | None
    ) -> RunDependencies:
        return RunDependencies(
            self._effects,
            model,
            tools,
            runtime,
            self.attribution,
            self.context,
            self._provided,
            self._instructions,
            self.output,
            self.max_turns,
            scope,
        )
