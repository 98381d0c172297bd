"""What became true of a run, for the outbox: which step makes which fact true. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pilotage.agent.fact_types import (
    AgentActionCompleted,
    AgentActionOutcome,
    AgentApprovalRequested,
    AgentFact,
    AgentQuestionKind,
    AgentRunCancelled,
    AgentRunCancelling,
    AgentRunCompleted,
    AgentRunDelegated,
    AgentRunFailed,
    AgentRunPaused,
    AgentRunResumed,
    AgentRunStarted,
    write_fact,
)
from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus

_OF_STATUS: Mapping[AgentStatus, type[AgentFact]] = {
    AgentStatus.CANCELLING: AgentRunCancelling,
    AgentStatus.COMPLETED: AgentRunCompleted,
    AgentStatus.CANCELLED: AgentRunCancelled,
}


def fact_of(before: AgentState, after: AgentState) -> OutboxEvent | None:
    """What became true of a run by a step from one state to another; None for a step that changes no status."""
    if before.status is after.status and before.reason is after.reason:
        return None
    match after.status:
        case AgentStatus.CREATED:
            return None
        case AgentStatus.ACTIVE:
            began = before.status is AgentStatus.CREATED
            return _written(AgentRunStarted if began else AgentRunResumed, after)
        case AgentStatus.INTERRUPTED:
            return _written(AgentRunPaused, after, reason=after.reason or AgentStateReason.USER_INTERRUPTED)
        case AgentStatus.FAILED:
            return _written(AgentRunFailed, after, reason=after.reason or AgentStateReason.EXECUTION_FAILED)
        case _:
            return _written(_OF_STATUS[after.status], after)


def approval_requested(state: AgentState, request: Mapping[str, object], action: str) -> OutboxEvent:
    """A person was asked about an action; `request` is the question as it is recorded."""
    is_recovery = "action_kind" in request
    question = AgentQuestionKind.RECOVERY if is_recovery else AgentQuestionKind.APPROVAL
    return _written(AgentApprovalRequested, state, request_id=request["id"], question=question, action=action)


def action_completed(
    state: AgentState, action_id: str, kind: AgentActionKind, action: str, *, has_failed: bool
) -> OutboxEvent:
    """An action came to its outcome."""
    outcome = AgentActionOutcome.FAILED if has_failed else AgentActionOutcome.DONE
    return _written(
        AgentActionCompleted, state, action_id=action_id, kind=kind, action=action, outcome=outcome
    )


def run_delegated(state: AgentState, child: str, child_agent: str) -> OutboxEvent:
    """A run gave work to another one."""
    return _written(AgentRunDelegated, state, child=child, child_agent=child_agent)


def _written(fact: type[AgentFact], state: AgentState, **details: object) -> OutboxEvent:
    of_run = {"run_id": state.id, "tenant_id": state.tenant_id, "agent": state.agent_type}
    return write_fact(cast(Any, fact)(**of_run, parent=state.metadata.get("parent"), **details))
