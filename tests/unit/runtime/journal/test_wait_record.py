"""Questions to people survive the way to JSON and back, field by field."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import cast

import pytest

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.tools.metadata import ToolRisk, ToolRiskAxis
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.runtime.people.questions import decode_approval, decode_recovery, encode_request

SHORT = AgentApprovalRequest(
    "q-1", "run-1", AgentApprovalBoundaryKind.TOOL_INVOCATION, "Pay?", ToolRisk(), "shop.Payments:pay"
)
FULL = AgentApprovalRequest(
    "q-2",
    "run-1",
    AgentApprovalBoundaryKind.EXTERNAL_SIDE_EFFECT,
    "Pay ü?",
    ToolRisk((ToolRiskAxis.WRITE, ToolRiskAxis.NETWORK)),
    "shop.Payments:pay",
    (ApprovalDecision.APPROVE, ApprovalDecision.REJECT),
    {"tool_name": "pay", "nested": {"a": [1, None]}},
    {"amount": "5"},
    "argument-digest",
    "tool-digest",
    2,
    "run/tool:pay#1",
    datetime(2030, 1, 2, tzinfo=UTC),
    "ada",
)
UNKNOWN = AgentRecoveryRequest("q-3", "run-1", "run/tool:pay#1", 1, "Who knows?", AgentActionKind.TOOL_CALL)
DETAILED = AgentRecoveryRequest(
    "q-4",
    "run-1",
    "run/step:mail#1",
    3,
    "Who knows?",
    AgentActionKind.STEP,
    "mail",
    {"view": {"to": "Ada"}},
    ({"result": 1}, "late"),
    (RecoveryDecision.RETRY, RecoveryDecision.FAIL),
    {"by": "test"},
)


def kept(request: AgentApprovalRequest | AgentRecoveryRequest) -> JsonValue:
    """The request as a store gives it back."""
    return cast(JsonValue, json.loads(canonical_json(encode_request(request))))


@pytest.mark.parametrize("request_", [SHORT, FULL], ids=["short", "full"])
def test_an_approval_request_comes_back_as_it_was(request_: AgentApprovalRequest) -> None:
    assert decode_approval(kept(request_)) == request_


@pytest.mark.parametrize("request_", [UNKNOWN, DETAILED], ids=["short", "full"])
def test_a_recovery_request_comes_back_as_it_was(request_: AgentRecoveryRequest) -> None:
    assert decode_recovery(kept(request_)) == request_
