"""Facts about runs that leave with the commit that makes them true: what other systems are told. Pure.

They are no events of a stream: an `AgentEvent` is for whoever watches a run, a fact for whoever reacts to it.
"""

from __future__ import annotations

from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.state import AgentState, AgentStatus

FACT_VERSION = 1

_ENDS = {
    AgentStatus.INTERRUPTED: "AgentRunPaused",
    AgentStatus.CANCELLING: "AgentRunCancelling",
    AgentStatus.COMPLETED: "AgentRunCompleted",
    AgentStatus.FAILED: "AgentRunFailed",
    AgentStatus.CANCELLED: "AgentRunCancelled",
}


def fact_of(before: AgentState, after: AgentState) -> OutboxEvent | None:
    """What became true of a run by a step from one state to another; None for a step that changes no status."""
    if before.status is after.status and before.reason is after.reason:
        return None
    name = _ENDS.get(after.status)
    if after.status is AgentStatus.ACTIVE:
        name = "AgentRunStarted" if before.status is AgentStatus.CREATED else "AgentRunResumed"
    if name is None:
        return None
    return OutboxEvent(
        name,
        FACT_VERSION,
        {
            "run_id": after.id,
            "tenant_id": after.tenant_id,
            "agent": after.agent_type,
            "status": after.status.value,
            "reason": after.reason.value if after.reason else None,
            "parent": after.metadata.get("parent"),
        },
    )
