"""Delegation to another agent of the same application: a bounded task as a child of the run that asks for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import assert_never, cast

from pilotage.agent.delegation import (
    DelegationPacket,
    DelegationResult,
    DelegationReturnPolicy,
    DelegationToolResult,
)
from pilotage.agent.ports.delegate import IAgentDelegate
from pilotage.agent.yields import AgentYield, Final
from pilotage.container.pod import Pod
from pilotage.errors import AgentToolDispatchError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.door.effects import Effects, active_effects
from pilotage.runtime.scoped.children import Children
from pilotage.runtime.scoped.errands import ChildBounds, Errand, child_id, packet_label

_SUMMARY_CHARACTERS = 2_000
_IN_THE_EVIDENCE = "(in the evidence)"


@Pod()
class LocalDelegate(IAgentDelegate):
    """Runs the target of a packet as a child, with the packet's budget and tools, and never more than its parent has.

    What the child tells is told by its parent at once, so the stream of a delegation holds the result alone: what the
    packet's return policy lets through. The evidence is the child's run, by its id.
    """

    async def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        yield Final(_limited(await self._result(packet), packet.return_policy))

    async def delegate_tool_result(self, packet: DelegationPacket) -> DelegationToolResult:
        result = await self._result(packet)
        limited = _limited(result, packet.return_policy)
        returned = result.returned_under(packet.return_policy)
        return DelegationToolResult(limited.summary, limited.output, (), returned)

    async def _result(self, packet: DelegationPacket) -> DelegationResult:
        effects = _delegating(packet)
        children, target = cast(Children, effects.children), packet.target.agent_type
        task = children.fitting(target, packet.task, _going_along(packet))
        bounds = ChildBounds(packet.budget, packet.allowed_capabilities or None)
        call = children.call(packet_label(packet.id), packet.id, Errand(target, task, bounds, packet.id))
        output = await children.done(call)
        run_id = effects.ledger.run.run_id
        return DelegationResult(
            id=f"{run_id}:{packet.id}",
            packet_id=packet.id,
            target=packet.target,
            summary=_summary(output),
            output=output,
            evidence_refs=(child_id(run_id, call.action.id),),
        )


def _delegating(packet: DelegationPacket) -> Effects:
    """The run that delegates.

    Raises:
        AgentToolDispatchError: there is none, the packet is of another one, or its agent may not delegate.
    """
    effects = active_effects.get()
    if effects is None:
        raise AgentToolDispatchError(
            f"packet {packet.id!r} is delegated outside a run. Delegate from an agent that an application runs."
        )
    if packet.parent_agent_state_id != effects.ledger.run.run_id:
        raise AgentToolDispatchError(
            f"packet {packet.id!r} belongs to run {packet.parent_agent_state_id!r}, not to "
            f"{effects.ledger.run.run_id!r}. Use get_run_context().run_id."
        )
    if not effects.may_delegate:
        raise AgentToolDispatchError(
            f"agent {effects.ledger.state.agent_type!r} may not delegate. "
            "Allow it: AgentExecutionSpec(delegation_allowed=True)."
        )
    return effects


def _going_along(packet: DelegationPacket) -> JsonObject:
    """What a packet says besides the task: context, constraints, what is expected."""
    along: dict[str, JsonValue] = {}
    if packet.context.summary is not None:
        along["context"] = packet.context.summary
    if packet.constraints:
        along["constraints"] = list(packet.constraints)
    if packet.expected_output.description is not None:
        along["expected_output"] = packet.expected_output.description
    return along


def _limited(result: DelegationResult, policy: DelegationReturnPolicy) -> DelegationResult:
    """What a policy lets through of a result."""
    match policy:
        case DelegationReturnPolicy.SUMMARY:
            return replace(result, output=None, evidence_refs=())
        case DelegationReturnPolicy.EVIDENCE_REFS:
            return replace(result, output=None, summary=_IN_THE_EVIDENCE)
        case DelegationReturnPolicy.SUMMARY_AND_EVIDENCE:
            return replace(result, output=None)
        case DelegationReturnPolicy.FINAL_OUTPUT:
            return replace(result, evidence_refs=())
        case _:
            assert_never(policy)


def _summary(output: JsonValue) -> str:
    text = output if isinstance(output, str) else canonical_json(output)
    return text[:_SUMMARY_CHARACTERS].strip() or "(no words)"
