"""Approval decisions: read, checked, applied."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.decisions import (
    AgentApprovalDecisionOutcome,
    ApprovalAccepted,
    ApprovalExpired,
    DecisionMalformed,
    DecisionMisdirected,
    DecisionNotAllowed,
    DecisionRefusal,
    check_agent_approval_decision,
    materialize_agent_approval_decision_state,
    parse_agent_approval_decision_signal,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor, AgentToolIdentity, AgentToolSchemaHandle
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue

NOW = datetime(2026, 1, 2, tzinfo=UTC)
REQUEST = AgentApprovalRequest(
    "q-1", "run-1", AgentApprovalBoundaryKind.TOOL_INVOCATION, "Pay?", ToolRisk(), "shop.Payments:pay"
)
APPROVE_ONLY = replace(REQUEST, allowed_decisions=(ApprovalDecision.APPROVE,))
WAITING = AgentState(
    "run-1", "Bank", *AgentSituation.WAITING_FOR_APPROVAL.value, metadata={"kept": True}, created_at=NOW
)


def pay(amount: int) -> str:
    return f"{amount}"


PAY = AgentToolDescriptor(
    AgentToolIdentity("shop", "Payments", "pay"),
    object,
    pay,
    AgentToolSchemaHandle("pay", "pay.input", "pay.output"),
)


def answer(
    decision: JsonValue, *, to_request: str = "q-1", run: str = "run-1", **payload: JsonValue
) -> AgentSignal:
    content = {"request_id": to_request, "decision": decision, **payload}
    return AgentSignal("s-1", run, AgentSignalKind.APPROVAL_DECISION, content)


DECISIONS = [
    ("approve", {}, AgentSituation.RUNNING, "approval approved"),
    ("modify", {"modified_payload": {"amount": 1}}, AgentSituation.RUNNING, "approval modified"),
    ("defer", {}, AgentSituation.APPROVAL_DEFERRED, "approval deferred"),
    ("cancel", {}, AgentSituation.CANCELLING, "approval cancellation requested"),
    ("reject", {"comment": "too much"}, AgentSituation.APPROVAL_REJECTED, "approval rejected"),
]


@pytest.mark.parametrize("request_", [None, REQUEST])
@pytest.mark.parametrize(("decision", "payload", "situation", "activity"), DECISIONS)
def test_each_decision_is_read_and_moves_the_run(
    decision: str,
    payload: JsonObject,
    situation: AgentSituation,
    activity: str | None,
    request_: AgentApprovalRequest | None,
) -> None:
    outcome = parse_agent_approval_decision_signal(answer(decision, **payload), request=request_)
    assert outcome == AgentApprovalDecisionOutcome(
        "q-1", ApprovalDecision(decision), *situation.value, **payload
    )
    assert materialize_agent_approval_decision_state(WAITING, outcome) == AgentState(
        "run-1",
        "Bank",
        *situation.value,
        current_activity=activity,
        metadata={
            "kept": True,
            "approval_decision": {
                "request_id": "q-1",
                "decision": decision,
                "modified_payload": payload.get("modified_payload", {}),
                "comment": payload.get("comment"),
            },
        },
        created_at=NOW,
    )


def test_a_deferred_run_can_still_be_approved() -> None:
    deferred = parse_agent_approval_decision_signal(answer("defer"))
    approved = parse_agent_approval_decision_signal(answer("approve"))
    state = materialize_agent_approval_decision_state(
        materialize_agent_approval_decision_state(WAITING, deferred), approved
    )
    assert (state.status, state.transition, state.reason) == AgentSituation.RUNNING.value


@pytest.mark.parametrize("descriptor", [None, PAY])
@pytest.mark.parametrize(("decision", "payload"), [(each[0], each[1]) for each in DECISIONS])
def test_a_good_answer_in_time_is_accepted(
    decision: str, payload: JsonObject, descriptor: AgentToolDescriptor | None
) -> None:
    signal = answer(decision, **payload)
    request = replace(REQUEST, expires_at=NOW + timedelta(seconds=1))
    checked = check_agent_approval_decision(request, signal, NOW, descriptor=descriptor)
    assert checked == ApprovalAccepted(parse_agent_approval_decision_signal(signal))


@pytest.mark.parametrize("signal", [answer("approve"), answer("nonsense")])
def test_any_answer_to_an_expired_request_closes_it_as_rejected(signal: AgentSignal) -> None:
    checked = check_agent_approval_decision(replace(REQUEST, expires_at=NOW), signal, NOW)
    assert checked == ApprovalExpired(
        AgentApprovalDecisionOutcome(
            "q-1",
            ApprovalDecision.REJECT,
            *AgentSituation.APPROVAL_REJECTED.value,
            comment="The approval request expired.",
        )
    )


@pytest.mark.parametrize(
    ("request_", "signal", "refusal"),
    [
        pytest.param(
            replace(REQUEST, expires_at=NOW),
            answer("approve", to_request="q-2"),
            DecisionMisdirected("Signal 's-1' answers request 'q-2', not 'q-1'."),
            id="an answer to another request does not close an expired one",
        ),
        pytest.param(
            REQUEST,
            answer("approve", run="run-2"),
            DecisionMisdirected("Signal 's-1' is for run 'run-2', not 'run-1'."),
            id="another run",
        ),
        pytest.param(
            REQUEST,
            AgentSignal("s-1", "run-1", AgentSignalKind.CANCEL, {"request_id": "q-1"}),
            DecisionMisdirected("Signal 's-1' is of kind 'cancel'. Send an 'approval_decision'."),
            id="another kind",
        ),
        pytest.param(
            APPROVE_ONLY,
            answer("reject"),
            DecisionNotAllowed("Signal 's-1' decides 'reject', which is not offered. Use one of: approve."),
            id="not offered",
        ),
        pytest.param(
            REQUEST,
            answer("modify"),
            DecisionMalformed(
                "Signal 's-1' decides 'modify' without a modified_payload. Add the arguments to use."
            ),
            id="modify what",
        ),
        pytest.param(
            REQUEST,
            answer("approve", comment=7),
            DecisionMalformed(
                "Signal 's-1' has the comment 7. Use a text that is not blank, or leave it out."
            ),
            id="a comment that is no text",
        ),
    ],
)
def test_a_bad_answer_is_refused_with_a_reason_for_its_sender(
    request_: AgentApprovalRequest, signal: AgentSignal, refusal: DecisionRefusal
) -> None:
    assert check_agent_approval_decision(request_, signal, NOW) == refusal


def test_modified_arguments_that_do_not_fit_the_tool_are_refused() -> None:
    signal = answer("modify", modified_payload={"amount": "much"})
    checked = check_agent_approval_decision(REQUEST, signal, NOW, descriptor=PAY)
    assert isinstance(checked, DecisionMalformed)
    assert checked.reason.startswith("Signal 's-1' has a modified_payload that the tool refuses: ")
    assert "amount" in checked.reason


@pytest.mark.parametrize("payload", [{"modified_payload": {}}, {}])
def test_an_empty_modified_payload_is_no_modification(payload: JsonObject) -> None:
    assert parse_agent_approval_decision_signal(answer("approve", **payload)).modified_payload == {}


WAITS = {AgentSituation.WAITING_FOR_APPROVAL, AgentSituation.APPROVAL_DEFERRED}


@pytest.mark.parametrize("situation", [each for each in AgentSituation if each not in WAITS])
def test_a_run_that_does_not_wait_takes_no_decision(situation: AgentSituation) -> None:
    state = AgentState("run-1", "Bank", *situation.value)
    with pytest.raises(AgentDefinitionError, match="waits for no approval"):
        materialize_agent_approval_decision_state(
            state, parse_agent_approval_decision_signal(answer("approve"))
        )
