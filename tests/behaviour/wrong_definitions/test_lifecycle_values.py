"""Wrong lifecycle values: what each mistake is answered with, word for word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.cancellation import (
    AgentCancellationCleanupReport,
    AgentCancellationCleanupResult,
    AgentCancellationCleanupTask,
    AgentCancellationRequest,
    AgentCancellationTargetKind,
    begin_agent_cancellation,
    complete_agent_cancellation,
)
from pilotage.agent.context import (
    ContextDigest,
    ContextHealthSignal,
    ContextManifest,
    ContextManifestEntry,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextTokenBudget,
)
from pilotage.agent.decisions import (
    AgentApprovalDecisionOutcome,
    check_agent_approval_decision,
    materialize_agent_approval_decision_state,
    parse_agent_approval_decision_signal,
)
from pilotage.agent.delegation import (
    AgentDelegateTarget,
    AgentTeammate,
    DelegationBudget,
    DelegationContextSlice,
    DelegationExpectedOutput,
    DelegationPacket,
    DelegationResult,
    DelegationToolResult,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.recovery import (
    AgentActionBoundaryCheckpoint,
    AgentActionBoundaryStage,
    AgentActionKind,
    plan_agent_resume,
)
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryFailed,
    materialize_agent_recovery_decision_state,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState, AgentStateTransition, AgentStatus
from pilotage.agent.tools.metadata import EvidenceCapture, ToolRisk
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue

NAIVE = datetime(2026, 1, 2)  # noqa: DTZ001 - the mistake under test
TOOL = AgentCancellationTargetKind.TOOL_EXECUTION
TARGET = AgentDelegateTarget("Writer")
RUNNING = AgentState("run-1", "Bank", *AgentSituation.RUNNING.value)
COMPLETED = AgentState("run-1", "Bank", *AgentSituation.COMPLETED.value)
CANCEL = AgentSignal("s-1", "run-1", AgentSignalKind.CANCEL)
REQUEST = AgentApprovalRequest(
    "q-1",
    "run-1",
    AgentApprovalBoundaryKind.TOOL_INVOCATION,
    "Pay?",
    ToolRisk(),
    "pay",
    allowed_decisions=(ApprovalDecision.APPROVE, ApprovalDecision.MODIFY),
)


def decision(agent_state_id: str = "run-1", **payload: JsonValue) -> AgentSignal:
    return AgentSignal("s-1", agent_state_id, AgentSignalKind.APPROVAL_DECISION, payload)


def boundary(**payload: JsonValue) -> AgentEvidence:
    row = {"action_id": "a", "action_kind": "tool_call", "stage": "before", "idempotency": "unknown"}
    return AgentEvidence("e-1", "run-1", AgentEvidenceKind.ACTION_BOUNDARY, {**row, **payload})


def approval(**changes: Any) -> AgentApprovalRequest:
    fields: dict[str, Any] = {
        "id": "q-1",
        "agent_state_id": "run-1",
        "boundary": AgentApprovalBoundaryKind.MODEL_CALL,
        "prompt": "Go on?",
        "risk": ToolRisk(),
        "action_ref": "model",
    }
    return AgentApprovalRequest(**{**fields, **changes})


def recovery(**changes: Any) -> AgentRecoveryRequest:
    fields: dict[str, Any] = {
        "id": "q-1",
        "agent_state_id": "run-1",
        "action_id": "a",
        "attempt": 1,
        "reason": "Unknown outcome.",
        "action_kind": AgentActionKind.TOOL_CALL,
    }
    return AgentRecoveryRequest(**{**fields, **changes})


def tool_result(tool_identity: str, tool_schema_name: str) -> AgentEvidenceCandidate:
    return AgentEvidenceCandidate.tool_result(
        tool_identity=tool_identity,
        tool_schema_name=tool_schema_name,
        result=1,
        capture=EvidenceCapture.NONE,
    )


BLANK = "Give it at least one visible character."
BLANK_OPTIONAL = "Give it at least one visible character, or leave it out."
CONTEXT = [
    (
        "pack without an id",
        lambda: ContextPack(" ", "text", "crm", ContextPackRole.MEMORY),
        f"ContextPack.id is blank. {BLANK}",
    ),
    (
        "pack without a source",
        lambda: ContextPack("p", "text", "", ContextPackRole.MEMORY),
        f"ContextPack.source is blank. {BLANK}",
    ),
    (
        "relevance above one",
        lambda: ContextPack("p", "text", "crm", ContextPackRole.MEMORY, relevance=1.5),
        "ContextPack.relevance is 1.5. Use a number from 0 to 1, or leave it out.",
    ),
    (
        "score that is no number",
        lambda: ContextHealthSignal("h", ContextRotSymptom.STALE, score=float("nan")),
        "ContextHealthSignal.score is nan. Use a number from 0 to 1, or leave it out.",
    ),
    (
        "symptom observed at no certain time",
        lambda: ContextHealthSignal("h", ContextRotSymptom.STALE, observed_at=NAIVE),
        "ContextHealthSignal.observed_at has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "budget of no tokens",
        lambda: ContextTokenBudget(max_tokens=0),
        "ContextTokenBudget.max_tokens is 0. Use a positive number, or leave it out.",
    ),
    (
        "negative estimate",
        lambda: ContextTokenBudget(estimated_tokens=-1),
        "ContextTokenBudget.estimated_tokens is -1. Use zero or more.",
    ),
    (
        "optimisation without a reason",
        lambda: ContextOptimizationAction("a", ContextOptimizationActionKind.COMPRESSION, reason=" "),
        f"ContextOptimizationAction.reason is blank. {BLANK_OPTIONAL}",
    ),
    (
        "manifest entry without an origin",
        lambda: ContextManifestEntry("p", "crm", ContextPackRole.MEMORY, ""),
        f"ContextManifestEntry.origin_ref is blank. {BLANK}",
    ),
    (
        "manifest of no certain time",
        lambda: ContextManifest("m", (), created_at=NAIVE),
        "ContextManifest.created_at has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "digest without a digest",
        lambda: ContextDigest("d", "conversation", "m", " "),
        f"ContextDigest.digest is blank. {BLANK}",
    ),
]
EVIDENCE = [
    (
        "evidence without an id",
        lambda: AgentEvidence("", "run-1", AgentEvidenceKind.TOOL),
        f"AgentEvidence.id is blank. {BLANK}",
    ),
    (
        "evidence of no certain time",
        lambda: AgentEvidence("e", "run-1", AgentEvidenceKind.TOOL, created_at=NAIVE),
        "AgentEvidence.created_at has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "result of no tool",
        lambda: tool_result("", "find"),
        f"AgentEvidenceCandidate.tool_result.tool_identity is blank. {BLANK}",
    ),
    (
        "result without a schema name",
        lambda: tool_result("shop.Tools:find", " "),
        f"AgentEvidenceCandidate.tool_result.tool_schema_name is blank. {BLANK}",
    ),
    (
        "decision of no model",
        lambda: AgentEvidenceCandidate.model_decision(model="", decision={}),
        f"AgentEvidenceCandidate.model_decision.model is blank. {BLANK}",
    ),
    (
        "decision about no tool",
        lambda: AgentEvidenceCandidate.tool_decision(tool_identity="", decision={}),
        f"AgentEvidenceCandidate.tool_decision.tool_identity is blank. {BLANK}",
    ),
    (
        "candidate for no run",
        lambda: AgentEvidenceCandidate(AgentEvidenceKind.TOOL).to_evidence(
            evidence_id="e", agent_state_id=""
        ),
        f"AgentEvidenceCandidate.to_evidence.agent_state_id is blank. {BLANK}",
    ),
]
APPROVAL = [
    (
        "request without a prompt",
        lambda: approval(prompt=""),
        f"AgentApprovalRequest.prompt is blank. {BLANK}",
    ),
    (
        "request without an answer",
        lambda: approval(allowed_decisions=()),
        "AgentApprovalRequest.allowed_decisions is empty. Give it at least one member.",
    ),
    (
        "request with a blank call id",
        lambda: approval(call_id=" "),
        f"AgentApprovalRequest.call_id is blank. {BLANK_OPTIONAL}",
    ),
    (
        "attempt zero",
        lambda: approval(attempt=0),
        "AgentApprovalRequest.attempt is 0. Use a positive number.",
    ),
    (
        "expiry at no certain time",
        lambda: approval(expires_at=NAIVE),
        "AgentApprovalRequest.expires_at has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "state of no agent",
        lambda: REQUEST.to_state(agent_type=" "),
        f"AgentApprovalRequest.to_state.agent_type is blank. {BLANK}",
    ),
    (
        "decision by another kind of signal",
        lambda: parse_agent_approval_decision_signal(CANCEL),
        "Signal 's-1' is of kind 'cancel'. Send an 'approval_decision'.",
    ),
    (
        "decision about nothing",
        lambda: parse_agent_approval_decision_signal(decision(decision="approve")),
        "Signal 's-1' has the request_id None. Use the id of the request it answers.",
    ),
    (
        "decision about another request",
        lambda: parse_agent_approval_decision_signal(
            decision(request_id="q-2", decision="approve"), request=REQUEST
        ),
        "Signal 's-1' answers request 'q-2', not 'q-1'.",
    ),
    (
        "decision from another run",
        lambda: parse_agent_approval_decision_signal(
            decision("run-2", request_id="q-1", decision="approve"), request=REQUEST
        ),
        "Signal 's-1' is for run 'run-2', not 'run-1'.",
    ),
    (
        "no such decision",
        lambda: parse_agent_approval_decision_signal(decision(request_id="q-1", decision="yes")),
        "Signal 's-1' has the decision 'yes'. Use one of: approve, reject, modify, defer, cancel.",
    ),
    (
        "decision that is not offered",
        lambda: parse_agent_approval_decision_signal(
            decision(request_id="q-1", decision="reject"), request=REQUEST
        ),
        "Signal 's-1' decides 'reject', which is not offered. Use one of: approve, modify.",
    ),
    (
        "modify without arguments",
        lambda: parse_agent_approval_decision_signal(decision(request_id="q-1", decision="modify")),
        "Signal 's-1' decides 'modify' without a modified_payload. Add the arguments to use.",
    ),
    (
        "modified payload that is no object",
        lambda: parse_agent_approval_decision_signal(
            decision(request_id="q-1", decision="modify", modified_payload=[1])
        ),
        "Signal 's-1' has a modified_payload of type list. Use an object.",
    ),
    (
        "approve with other arguments",
        lambda: parse_agent_approval_decision_signal(
            decision(request_id="q-1", decision="approve", modified_payload={"amount": 1})
        ),
        "Signal 's-1' decides 'approve' with a modified_payload. Decide 'modify', or leave it out.",
    ),
    (
        "blank comment",
        lambda: parse_agent_approval_decision_signal(
            decision(request_id="q-1", decision="approve", comment=" ")
        ),
        "Signal 's-1' has the comment ' '. Use a text that is not blank, or leave it out.",
    ),
    (
        "check at no certain time",
        lambda: check_agent_approval_decision(REQUEST, decision(), NAIVE),
        "check_agent_approval_decision.now has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "outcome that is no situation",
        lambda: AgentApprovalDecisionOutcome(
            "q-1", ApprovalDecision.APPROVE, AgentStatus.COMPLETED, AgentStateTransition.RUNNING
        ),
        (
            "AgentApprovalDecisionOutcome has the triple (completed, running, None), which is no "
            "situation of a run. Use the triple of an AgentSituation."
        ),
    ),
    (
        "decision for a run that does not wait",
        lambda: materialize_agent_approval_decision_state(
            RUNNING, parse_agent_approval_decision_signal(decision(request_id="q-1", decision="approve"))
        ),
        (
            "run 'run-1' is active and waits for no approval. "
            "Decide about a run whose transition is 'waiting_approval'."
        ),
    ),
]
CANCELLATION = [
    (
        "request without a target",
        lambda: AgentCancellationRequest("run-1", "s-1", TOOL, ""),
        f"AgentCancellationRequest.target_ref is blank. {BLANK}",
    ),
    (
        "request with a blank reason",
        lambda: AgentCancellationRequest.from_signal(
            state=RUNNING,
            signal=AgentSignal("s-1", "run-1", AgentSignalKind.CANCEL, {"reason": " "}),
            target_kind=TOOL,
            target_ref="a",
        ),
        f"AgentCancellationRequest.reason is blank. {BLANK_OPTIONAL}",
    ),
    (
        "failure without a message",
        lambda: AgentCancellationCleanupResult.failed(
            target_kind=TOOL, target_ref="a", error_code="io", message=""
        ),
        f"AgentCancellationCleanupResult.message is blank. {BLANK_OPTIONAL}",
    ),
    (
        "hook without a target",
        lambda: AgentCancellationCleanupTask(TOOL, " ", _never),
        f"AgentCancellationCleanupTask.target_ref is blank. {BLANK}",
    ),
    (
        "report of no signal",
        lambda: AgentCancellationCleanupReport("run-1", ""),
        f"AgentCancellationCleanupReport.signal_id is blank. {BLANK}",
    ),
    (
        "cancelling by another kind of signal",
        lambda: begin_agent_cancellation(RUNNING, decision()),
        "Signal 's-1' is of kind 'approval_decision'. Send a 'cancel'.",
    ),
    (
        "cancelling another run",
        lambda: begin_agent_cancellation(RUNNING, AgentSignal("s-1", "run-2", AgentSignalKind.CANCEL)),
        "Signal 's-1' is for run 'run-2', not 'run-1'.",
    ),
    (
        "cancelling a finished run",
        lambda: begin_agent_cancellation(COMPLETED, CANCEL),
        "run 'run-1' is completed and cannot become cancelling. Allowed: nothing: it has ended.",
    ),
    (
        "ending a cancellation that did not begin",
        lambda: complete_agent_cancellation(RUNNING, AgentCancellationCleanupReport("run-1", "s-1")),
        (
            "run 'run-1' is active, so its cancellation cannot end. "
            "Begin it first: begin_agent_cancellation(state, signal)."
        ),
    ),
    (
        "ending the cancellation of another run",
        lambda: complete_agent_cancellation(RUNNING, AgentCancellationCleanupReport("run-2", "s-1")),
        "The cleanup report is about run 'run-2', not 'run-1'.",
    ),
]
RECOVERY = [
    (
        "row of no action",
        lambda: AgentActionBoundaryCheckpoint(" ", AgentActionKind.STEP, AgentActionBoundaryStage.BEFORE),
        f"AgentActionBoundaryCheckpoint.action_id is blank. {BLANK}",
    ),
    (
        "recorded row of no action",
        lambda: plan_agent_resume(RUNNING, [boundary(action_id=None)]),
        "Evidence 'e-1' has the action_id None. Use the id of the action.",
    ),
    (
        "recorded row of an unknown kind",
        lambda: plan_agent_resume(RUNNING, [boundary(action_kind="dance")]),
        (
            "Evidence 'e-1' has the action_kind 'dance'. "
            "Use one of: model_call, tool_call, approval_wait, delegation, signal, step, value."
        ),
    ),
    (
        "recorded row of an unknown stage",
        lambda: plan_agent_resume(RUNNING, [boundary(stage=7)]),
        "Evidence 'e-1' has the stage 7. Use one of: before, after.",
    ),
    (
        "recorded row of an unknown idempotency",
        lambda: plan_agent_resume(RUNNING, [boundary(idempotency="perhaps")]),
        (
            "Evidence 'e-1' has the idempotency 'perhaps'. "
            "Use one of: idempotent, conditionally_idempotent, non_idempotent, unknown."
        ),
    ),
    (
        "resuming with the record of another run",
        lambda: plan_agent_resume(RUNNING, [AgentEvidence("e-1", "run-2", AgentEvidenceKind.TOOL)]),
        (
            "plan_agent_resume: evidence 'e-1' belongs to run 'run-2', not 'run-1'. "
            "Give it the evidence of one run."
        ),
    ),
    (
        "recovery request without a reason",
        lambda: recovery(reason=" "),
        f"AgentRecoveryRequest.reason is blank. {BLANK}",
    ),
    (
        "recovery request for attempt zero",
        lambda: recovery(attempt=0),
        "AgentRecoveryRequest.attempt is 0. Use a positive number.",
    ),
    (
        "recovery request without an answer",
        lambda: recovery(allowed_decisions=()),
        "AgentRecoveryRequest.allowed_decisions is empty. Give it at least one member.",
    ),
    (
        "recovery of a run that does not wait",
        lambda: materialize_agent_recovery_decision_state(RUNNING, RecoveryFailed("q-1", "a")),
        (
            "run 'run-1' is active and waits for no recovery decision. "
            "Answer a run whose reason is 'recovery_requires_hitl'."
        ),
    ),
]
DELEGATION = [
    (
        "target of no type",
        lambda: AgentDelegateTarget(""),
        f"AgentDelegateTarget.agent_type is blank. {BLANK}",
    ),
    (
        "budget of no steps",
        lambda: DelegationBudget(max_steps=0),
        "DelegationBudget.max_steps is 0. Use a positive number, or leave it out.",
    ),
    (
        "negative timeout",
        lambda: DelegationBudget(timeout_seconds=-1.5),
        "DelegationBudget.timeout_seconds is -1.5. Use a positive number, or leave it out.",
    ),
    (
        "deadline at no certain time",
        lambda: DelegationBudget(deadline_at=NAIVE),
        "DelegationBudget.deadline_at has no time zone (2026-01-02T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "teammate from nowhere",
        lambda: AgentTeammate("writer"),
        "AgentTeammate 'writer' has neither pod nor card_url. Give it exactly one.",
    ),
    (
        "teammate from two places",
        lambda: AgentTeammate("writer", str, "https://example.org/card"),
        "AgentTeammate 'writer' has both pod and card_url. Give it exactly one.",
    ),
    (
        "slice with a blank summary",
        lambda: DelegationContextSlice(summary=""),
        f"DelegationContextSlice.summary is blank. {BLANK_OPTIONAL}",
    ),
    (
        "expectation without words",
        lambda: DelegationExpectedOutput(description=" "),
        f"DelegationExpectedOutput.description is blank. {BLANK_OPTIONAL}",
    ),
    (
        "packet of no parent",
        lambda: DelegationPacket("p", "", TARGET, {}),
        f"DelegationPacket.parent_agent_state_id is blank. {BLANK}",
    ),
    (
        "result without a summary",
        lambda: DelegationResult("r", "p", TARGET, " "),
        f"DelegationResult.summary is blank. {BLANK}",
    ),
    (
        "record in no run",
        lambda: DelegationResult("r", "p", TARGET, "ok").to_parent_evidence(
            evidence_id="e", parent_agent_state_id=""
        ),
        f"DelegationResult.to_parent_evidence.parent_agent_state_id is blank. {BLANK}",
    ),
    (
        "tool result without a summary",
        lambda: DelegationToolResult(""),
        f"DelegationToolResult.summary is blank. {BLANK}",
    ),
]


async def _never(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
    raise AssertionError(request)


WRONG = [
    pytest.param(make, AgentDefinitionError, message, id=name)
    for name, make, message in [*CONTEXT, *EVIDENCE, *APPROVAL, *CANCELLATION, *RECOVERY, *DELEGATION]
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG)
def test_a_wrong_lifecycle_value_is_answered_with_what_to_write_instead(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message
