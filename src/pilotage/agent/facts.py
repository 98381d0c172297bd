"""What became true of a run, for the outbox: which step makes which fact true. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

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
)
from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject

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
            return _told(AgentRunStarted if began else AgentRunResumed, after)
        case AgentStatus.INTERRUPTED:
            return _told(AgentRunPaused, after, reason=after.reason or AgentStateReason.USER_INTERRUPTED)
        case AgentStatus.FAILED:
            return _told(AgentRunFailed, after, reason=after.reason or AgentStateReason.EXECUTION_FAILED)
        case _:
            return _told(_OF_STATUS[after.status], after)


def approval_requested(state: AgentState, request: JsonObject, action: str) -> OutboxEvent:
    """A person was asked about an action; `request` is the question as it is recorded."""
    is_recovery = "action_kind" in request
    question = AgentQuestionKind.RECOVERY if is_recovery else AgentQuestionKind.APPROVAL
    asked = str(request["id"])
    return _told(AgentApprovalRequested, state, request_id=asked, question=question, action=action)


def action_completed(
    state: AgentState, action_id: str, kind: AgentActionKind, action: str, *, has_failed: bool
) -> OutboxEvent:
    """An action came to its outcome."""
    outcome = AgentActionOutcome.FAILED if has_failed else AgentActionOutcome.DONE
    return _told(AgentActionCompleted, state, action_id=action_id, kind=kind, action=action, outcome=outcome)


def run_delegated(state: AgentState, child: str, child_agent: str) -> OutboxEvent:
    """A run gave work to another one."""
    return _told(AgentRunDelegated, state, child=child, child_agent=child_agent)


def _told(fact: type[AgentFact], state: AgentState, **details: str) -> OutboxEvent:
    """The fact as it is stored. It is not made first: a run tells more facts than anybody reads."""
    payload: JsonObject = {
        "run_id": state.id,
        "tenant_id": state.tenant_id,
        "agent": state.agent_type,
        "parent": state.metadata.get("parent"),
        **details,
    }
    return _new_fact()(fact.__name__, fact.version, payload)


@cache
def _new_fact() -> Callable[[str, int, JsonObject], OutboxEvent]:
    """Makes facts of the types we know, whose names and versions need no look."""
    return unchecked(OutboxEvent)
