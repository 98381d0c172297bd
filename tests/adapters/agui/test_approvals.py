"""Questions in pauses and in states, as deferred tool calls."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.adapters.agui.samples import BY

from pilotage.adapters.agui import (
    AgUiApproval,
    AgUiPendingApprovalError,
    approval_from_pause,
    find_pending_approval,
    project_approval,
    project_pending_approval,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentState,
    Approval,
    ApprovalDecision,
    RunPausedEvent,
    ToolRisk,
)
from pilotage.agent.state import AgentSituation, AgentStateReason

REQUEST = AgentApprovalRequest(
    "run-1:a",
    "run-1",
    AgentApprovalBoundaryKind.TOOL_INVOCATION,
    "May I?",
    ToolRisk(),
    "pay",
    (ApprovalDecision.APPROVE, ApprovalDecision.REJECT),
)


def test_a_pause_has_the_question_it_is_about() -> None:
    event = RunPausedEvent(
        BY, AgentStateReason.APPROVAL_REQUIRED, "May I?", "run-1", "run-1:a", None, ("approve",)
    )
    assert approval_from_pause(event) == AgUiApproval("run-1:a", "May I?", ("approve",), {})
    with pytest.raises(AgUiPendingApprovalError, match="run 'run-1' paused without a question: May I"):
        approval_from_pause(replace(event, approval_id=None))


def test_the_state_of_a_waiting_run_has_its_question() -> None:
    found = find_pending_approval(REQUEST.to_state(agent_type="bank"))
    assert found is not None
    assert (found.id, found.prompt, found.allowed_decisions) == ("run-1:a", "May I?", ("approve", "reject"))


def test_a_run_that_goes_on_or_has_ended_waits_for_nothing() -> None:
    waiting = REQUEST.to_state(agent_type="bank")
    running, completed = AgentSituation.RUNNING, AgentSituation.COMPLETED
    states = [
        AgentState("run-1", "bank", running.status, running.transition),
        replace(waiting, status=completed.status, transition=completed.transition, reason=completed.reason),
    ]
    for state in states:
        assert find_pending_approval(state) is None
        with pytest.raises(AgUiPendingApprovalError, match="AgentRuns.questions"):
            project_pending_approval(state, BY)


def test_a_question_is_a_call_without_a_result_from_wherever_it_comes() -> None:
    asked = [
        project_approval(Approval.from_request(REQUEST), BY),
        project_pending_approval(REQUEST.to_state(agent_type="bank"), BY),
    ]
    for frames in asked:
        assert [frame.type for frame in frames] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
        shown = json.loads(frames[1].model_dump()["delta"])
        assert (shown["prompt"], shown["allowed_decisions"]) == ("May I?", ["approve", "reject"])
        assert shown["action_ref"] == "pay"
