"""A question of a run as AG-UI shows it: a native interrupt, and for older clients a deferred tool call. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ag_ui.core import BaseEvent, Interrupt, ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent

from pilotage.adapters.agui.errors import AgUiPendingApprovalError
from pilotage.agent.events import AgentEventAttribution, RunPausedEvent
from pilotage.agent.recovery_request import DEFERRED_CALL
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.agent.yields import Approval
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.values import value

HITL_TOOL = "hitl_approval"
"""The tool that older clients see called, and answer with a decision."""
PAUSE = "pause:"
"""The prefix of the id of an interrupt without a question; the run's id follows."""


@value
class AgUiApproval:
    """A question as a client gets to see it; recovery questions have decisions of their own."""

    id: str
    prompt: str
    allowed_decisions: tuple[str, ...] = tuple(each.value for each in ApprovalDecision)
    metadata: JsonObject | None = None


def approval_from_pause(event: RunPausedEvent) -> AgUiApproval:
    """The question a run paused with.

    Raises:
        AgUiPendingApprovalError: it paused without one.
    """
    if event.approval_id is None:
        raise AgUiPendingApprovalError(
            f"run {event.state_id!r} paused without a question: {event.prompt}. Resume it when it may go on."
        )
    return AgUiApproval(event.approval_id, event.prompt, event.allowed_decisions, event.metadata)


def find_pending_approval(state: AgentState) -> AgUiApproval | None:
    """The question in the state of a run, where `AgentApprovalRequest.to_state` put one."""
    found = state.metadata.get("approval")
    if state.is_terminal or not isinstance(found, Mapping) or not isinstance(found.get("id"), str):
        return None
    decisions = found.get("allowed_decisions")
    allowed = tuple(map(str, decisions)) if isinstance(decisions, Sequence) else ()
    return AgUiApproval(str(found["id"]), state.current_activity or HITL_TOOL, allowed, found)


def project_pending_approval(state: AgentState, attribution: AgentEventAttribution) -> list[BaseEvent]:
    """The question in the state of a run as a deferred tool call.

    Raises:
        AgUiPendingApprovalError: there is none.
    """
    approval = find_pending_approval(state)
    if approval is None:
        raise AgUiPendingApprovalError(
            f"run {state.id!r} is {state.status} and its state holds no question. "
            "Ask for the open questions of a run: AgentRuns.questions(run_id)."
        )
    return project_approval(approval, attribution)


def project_approval(
    approval: AgUiApproval | Approval, attribution: AgentEventAttribution
) -> list[BaseEvent]:
    """A question as a call of `hitl_approval` that has no result yet."""
    asked: dict[str, JsonValue] = {
        "prompt": approval.prompt,
        "allowed_decisions": [str(each) for each in approval.allowed_decisions],
        "run_id": attribution.run_id,
        **(approval.metadata or {}),
    }
    return [
        ToolCallStartEvent(tool_call_id=approval.id, tool_call_name=HITL_TOOL),
        ToolCallArgsEvent(tool_call_id=approval.id, delta=canonical_json(asked)),
        ToolCallEndEvent(tool_call_id=approval.id),
    ]


def interrupt_of(event: RunPausedEvent, by: str | None = None) -> Interrupt:
    """The pause as the protocol's own interrupt; `by` is the sub-agent that asks."""
    expires_at = event.metadata.get("expires_at")
    return Interrupt(
        id=event.approval_id or f"{PAUSE}{event.state_id}",
        reason=event.reason.value,
        message=event.prompt,
        tool_call_id=event.tool_call_id,
        response_schema=_answers(event.allowed_decisions) if event.approval_id else None,
        expires_at=expires_at if isinstance(expires_at, str) else None,
        metadata=dict(event.metadata) or None,
        subagent_run_id=by,
    )


def is_for_the_client(event: RunPausedEvent) -> bool:
    """Return whether a run waits for the result of a tool that its client runs."""
    metadata = event.metadata.get("metadata")
    return isinstance(metadata, Mapping) and DEFERRED_CALL in metadata


def _answers(allowed: Sequence[str]) -> dict[str, JsonValue]:
    """The schema of an answer, for clients that build a form from it."""
    properties: dict[str, JsonValue] = {
        "decision": {"type": "string", "enum": list(allowed)},
        "comment": {"type": "string"},
    }
    if ApprovalDecision.MODIFY.value in allowed:
        properties["modified_payload"] = {
            "type": "object",
            "description": "the arguments to use, where the decision is modify",
        }
    if "done" in allowed:
        properties["result"] = {"description": "what came of it, where the decision is done"}
    return {"type": "object", "properties": properties, "required": ["decision"]}
