"""Delegation to another agent of the same application: a bounded task in a child run."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.delegation import DelegationPacket, DelegationResult
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.runner import IAgentDelegate
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.yields import AgentYield, Final
from pilotage.container.pod import Pod
from pilotage.errors import (
    AgentStructuredOutputError,
    AgentToolBindingError,
    AgentToolDispatchError,
    DelegationError,
)
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.children.children import Children
from pilotage.runtime.children.tasks import (
    ChildBounds,
    ChildTask,
    child_id,
    described,
    output_of,
    packet_label,
)
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.values import value

_SUMMARY_CHARACTERS = 2_000


@Pod()
class LocalDelegate(IAgentDelegate):
    """Runs the target of a packet as a child run, with the packet's budget and tools, within the parent's limits.

    The parent forwards the child's events at once, so the stream of a delegation has only the result, reduced by the
    packet's return policy. The evidence is the id of the child run.
    """

    async def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        yield Final((await self._result(packet)).limited_to(packet.return_policy))

    async def _result(self, packet: DelegationPacket) -> DelegationResult:
        run = _delegating(packet)
        children, target = run.part(Children), packet.target.agent_type
        task = children.fitting(target, packet.task, described(packet))
        bounds = ChildBounds(packet.budget, packet.allowed_capabilities or None)
        child = children.prepared(packet_label(packet.id), packet.id, ChildTask(target, task, bounds, packet))
        output = await children.perform(child)
        _check_answer(packet, output)
        return DelegationResult(
            id=f"{run.id}:{packet.id}",
            packet_id=packet.id,
            target=packet.target,
            summary=_summary(output),
            output=output,
            evidence_refs=(child_id(run.id, child.action.id),),
        )


def _delegating(packet: DelegationPacket) -> Run:
    """Return the run that delegates.

    Raises:
        AgentToolDispatchError: no run is active, the packet belongs to another run, or the agent may not delegate.
    """
    run = active_run()
    if run is None:
        raise AgentToolDispatchError(
            f"packet {packet.id!r} is delegated outside a run. Delegate from an agent that an application runs."
        )
    if packet.parent_agent_state_id != run.id:
        raise AgentToolDispatchError(
            f"packet {packet.id!r} belongs to run {packet.parent_agent_state_id!r}, not to "
            f"{run.id!r}. Use get_run_context().run_id."
        )
    if not run.source.definition.spec.delegation_allowed:
        raise AgentToolDispatchError(
            f"agent {run.ledger.state.agent_type!r} may not delegate. "
            "Allow it: AgentExecutionSpec(delegation_allowed=True)."
        )
    return run


def _check_answer(packet: DelegationPacket, output: JsonValue) -> None:
    """Check the answer to a packet against the schema of its expected output.

    Raises:
        DelegationError: it does not fit.
    """
    wanted = output_of(packet)
    if wanted is None:
        return
    try:
        wanted.decode(output)
    except AgentStructuredOutputError as error:
        raise DelegationError(
            f"{packet.target.agent_type!r} gave an answer that does not fit the schema of packet {packet.id!r}: "
            + " ".join(error.problems),
            partial_output=output,
            problems=error.problems,
        ) from error


def _summary(output: JsonValue) -> str:
    text = output if isinstance(output, str) else canonical_json(output)
    return text[:_SUMMARY_CHARACTERS].strip() or "(no words)"


_TASK: JsonObject = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that is needed to do it."}
    },
    "required": ["task"],
    "additionalProperties": False,
}


@value
class Teammate:
    """An agent that another agent of the application may delegate to, and its purpose."""

    name: str
    agent: AgentRef
    purpose: str

    @property
    def tool_name(self) -> str:
        """Return the name of the teammate's tool."""
        return f"ask_{re.sub(r'[^A-Za-z0-9_-]+', '_', self.name)}"

    @property
    def tool(self) -> ModelToolSpec:
        """Return the spec of the teammate's tool for a model request."""
        schema: JsonObject = {"title": f"{self.tool_name}.input", **_TASK}
        return ModelToolSpec(self.tool_name, JsonSchemaConstraint(schema), self.purpose)

    def task_in(self, call: ModelToolCall) -> str:
        """Return the task in a model's call of the teammate.

        Raises:
            AgentToolBindingError: the task is missing, or there are other arguments.
        """
        task = call.arguments.get("task")
        if not isinstance(task, str) or not task.strip() or set(call.arguments) != {"task"}:
            problem = f"{self.tool_name} takes one argument, 'task', a text that is not blank."
            raise AgentToolBindingError(problem, problems=[problem])
        return task


def teammates_of(
    spec: AgentExecutionSpec,
    definition_of: Callable[[AgentRef], AgentDefinition],
    capabilities: Sequence[str] | None = None,
) -> Mapping[str, Teammate]:
    """Return the teammates of an agent by the names of their tools; only those in the run's tools, if it has a list.

    Raises:
        AgentDefinitionError: one of them is no agent of the application.
    """
    found = [
        Teammate(mate.name, mate.pod, _purpose(mate.name, definition_of(mate.pod)))
        for mate in spec.teammates
        if mate.pod is not None
    ]
    return {mate.tool_name: mate for mate in found if capabilities is None or mate.tool_name in capabilities}


def _purpose(name: str, definition: AgentDefinition) -> str:
    purpose = definition.spec.objective or (definition.target.__doc__ or "").strip().partition("\n")[0]
    return f"Ask {name}, who works alone and knows only what the task says. {purpose}".strip()
