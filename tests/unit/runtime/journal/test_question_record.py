"""Questions to people survive the way to JSON and back, field by field."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.tools.metadata import ToolRisk, ToolRiskAxis
from pilotage.jsonvalue import JsonObject, canonical_json
from pilotage.runtime.journal.question_record import (
    decode_approval,
    decode_question,
    decode_recovery,
    encode_question,
)
from pilotage.runtime.journal.record_fields import DamagedRecordError

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

SHORT_JSON = (
    '{"action_ref":"shop.Payments:pay","agent_state_id":"run-1","allowed_decisions":["approve",'
    '"reject","modify","defer","cancel"],"approver_scope":null,"argument_digest":null,"arguments":{},'
    '"attempt":1,"binding":null,"boundary":"tool_invocation","call_id":null,"expires_at":null,'
    '"id":"q-1","metadata":{},"policy_version":null,"prompt":"Pay?","requested_by":null,"risk":{"axes":[]},'
    '"tool_digest":null}'
)
BEFORE_BINDINGS = (
    '{"action_ref":"shop.Payments:pay","agent_state_id":"run-1","allowed_decisions":["approve",'
    '"reject","modify","defer","cancel"],"argument_digest":null,"arguments":{},"attempt":1,"bou'
    'ndary":"tool_invocation","call_id":null,"expires_at":null,"id":"q-1","metadata":{},"prompt'
    '":"Pay?","requested_by":null,"risk":{"axes":[]},"tool_digest":null}'
)
UNKNOWN_JSON = (
    '{"action_id":"run/tool:pay#1","action_kind":"tool_call","action_name":null,"agent_state_id'
    '":"run-1","allowed_decisions":["retry","done","fail","cancel"],"arguments":{},"attempt":1,'
    '"id":"q-3","late_outcomes":[],"metadata":{},"reason":"Who knows?"}'
)


def stored(request: AgentApprovalRequest | AgentRecoveryRequest) -> JsonObject:
    """The request as a store gives it back."""
    record: JsonObject = json.loads(canonical_json(encode_question(request)))
    return record


@pytest.mark.parametrize("request_", [SHORT, FULL], ids=["short", "full"])
def test_an_approval_request_comes_back_as_it_was(request_: AgentApprovalRequest) -> None:
    assert decode_approval(stored(request_)) == request_


@pytest.mark.parametrize("request_", [UNKNOWN, DETAILED], ids=["short", "full"])
def test_a_recovery_request_comes_back_as_it_was(request_: AgentRecoveryRequest) -> None:
    assert decode_recovery(stored(request_)) == request_


@pytest.mark.parametrize("request_", [SHORT, FULL, UNKNOWN, DETAILED], ids=lambda each: each.id)
def test_a_question_of_either_kind_is_told_apart(
    request_: AgentApprovalRequest | AgentRecoveryRequest,
) -> None:
    assert decode_question(stored(request_)) == request_


def test_a_question_has_its_json() -> None:
    assert canonical_json(encode_question(SHORT)) == SHORT_JSON
    assert canonical_json(encode_question(UNKNOWN)) == UNKNOWN_JSON


def test_a_question_of_an_earlier_version_is_read_without_a_binding() -> None:
    assert decode_question(json.loads(BEFORE_BINDINGS)) == SHORT


@pytest.mark.parametrize("record", [{}, {"id": "q-1"}, {"action_kind": "tool_call"}], ids=str)
def test_a_record_that_is_no_question_is_damaged(record: JsonObject) -> None:
    with pytest.raises(DamagedRecordError, match="'record' is not of type Agent"):
        decode_question(record)
