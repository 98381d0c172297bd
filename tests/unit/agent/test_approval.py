"""Approval requests: what they show, what binds them, when one is made at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pilotage.agent.approval import (
    DEFAULT_APPROVAL_DECISIONS,
    AgentApprovalBoundaryKind,
    AgentApprovalPlan,
    AgentApprovalPlanAction,
    AgentApprovalRequest,
    plan_agent_tool_approval,
)
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor, AgentToolIdentity, AgentToolSchemaHandle
from pilotage.agent.tools.metadata import (
    AgentToolMetadata,
    DataAccess,
    Externality,
    ToolApprovalRequirement,
    ToolEffects,
    ToolRisk,
    ToolRiskAxis,
)
from pilotage.agent.yields import AgentYieldKind, Approval
from pilotage.jsonvalue import JsonObject
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ARGUMENTS = {"to": "DE-1", "amount": 12}


def pay(to: str, amount: int) -> str:
    return f"{amount} to {to}"


PAY = AgentToolDescriptor(
    AgentToolIdentity("shop", "Payments", "pay"),
    object,
    pay,
    AgentToolSchemaHandle(
        "payments.pay",
        "payments.pay.input",
        "payments.pay.output",
        {"type": "object"},
        {"type": "string"},
        (SensitiveFieldDescriptor(("to",), SensitiveField(PII.ACCOUNT_ID)),),
    ),
    metadata=AgentToolMetadata(
        effects=ToolEffects.external_side_effect(),
        data_access=DataAccess.READ_WRITE,
        externality=Externality.EXTERNAL,
    ),
)


def ask(
    arguments: JsonObject | None = ARGUMENTS,
    approval_id: str = "q-1",
    call_id: str | None = None,
    policy: ContextExposurePolicy | None = None,
) -> AgentApprovalRequest:
    return AgentApprovalRequest.from_tool_descriptor(
        approval_id=approval_id,
        agent_state_id="run-1",
        descriptor=PAY,
        call_id=call_id,
        arguments=arguments,
        policy=policy,
    )


def test_a_request_for_a_tool_says_which_tool_and_how_risky_it_is() -> None:
    request = ask()
    assert request.boundary is AgentApprovalBoundaryKind.TOOL_INVOCATION
    assert request.prompt == "Approve the call of tool 'pay'?"
    assert request.action_ref == "shop.Payments:pay"
    assert request.risk == PAY.metadata.risk
    assert request.allowed_decisions == DEFAULT_APPROVAL_DECISIONS == tuple(ApprovalDecision)
    assert request.metadata == {
        "tool_identity": "shop.Payments:pay",
        "tool_schema_name": "payments.pay",
        "tool_name": "pay",
        "approval_requirement": "derived",
        "risk_axes": ["read", "write", "side_effect", "network"],
        "metadata": {},
    }


def test_a_request_takes_the_callers_words() -> None:
    request = AgentApprovalRequest.from_tool_descriptor(
        approval_id="q-1",
        agent_state_id="run-1",
        descriptor=PAY,
        prompt="Pay Ada?",
        call_id="call-1",
        metadata={"team": "a"},
        action_ref="payments",
    )
    assert (request.prompt, request.action_ref, request.call_id) == ("Pay Ada?", "payments", "call-1")
    assert (request.metadata["call_id"], request.metadata["metadata"]) == ("call-1", {"team": "a"})


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        (None, {"to": "[REDACTED]", "amount": 12}),
        (ContextExposurePolicy(include_pii_values=True), ARGUMENTS),
    ],
)
def test_arguments_are_shown_as_the_policy_allows(
    policy: ContextExposurePolicy | None, shown: JsonObject
) -> None:
    assert ask(policy=policy).arguments == shown


OTHER_SCHEMA = replace(PAY, schema=replace(PAY.schema, input_schema={"type": "object", "title": "new"}))
OTHER_TOOL = replace(PAY, identity=AgentToolIdentity("shop", "Payments", "refund"))


@pytest.mark.parametrize(
    ("request_", "descriptor", "arguments", "covered"),
    [
        pytest.param(
            ask(), PAY, {"amount": 12, "to": "DE-1"}, True, id="the same call, keys in another order"
        ),
        pytest.param(ask(), PAY, {"to": "DE-2", "amount": 12}, False, id="a hidden argument differs"),
        pytest.param(ask(), PAY, {"to": "DE-1", "amount": 13}, False, id="a shown argument differs"),
        pytest.param(ask(), PAY, {**ARGUMENTS, "note": "x"}, False, id="one argument more"),
        pytest.param(ask(), OTHER_SCHEMA, ARGUMENTS, False, id="the schema changed"),
        pytest.param(ask(), OTHER_TOOL, ARGUMENTS, False, id="another tool"),
        pytest.param(ask(None), PAY, {}, False, id="a request without arguments covers no call"),
        pytest.param(ask({}), PAY, {}, True, id="a call without arguments"),
    ],
)
def test_a_request_covers_exactly_the_call_it_was_made_for(
    request_: AgentApprovalRequest, descriptor: AgentToolDescriptor, arguments: JsonObject, covered: bool
) -> None:
    assert request_.covers(descriptor, arguments) is covered


def test_digests_of_equal_arguments_differ_between_requests() -> None:
    assert ask(approval_id="q-1").argument_digest != ask(approval_id="q-2").argument_digest


PLAIN = AgentApprovalRequest(
    "q-1",
    "run-1",
    AgentApprovalBoundaryKind.FINAL_PUBLICATION,
    "Publish?",
    ToolRisk((ToolRiskAxis.WRITE,)),
    "report",
    (ApprovalDecision.APPROVE, ApprovalDecision.REJECT),
    {"pages": 2},
)
PLAIN_METADATA = {
    "id": "q-1",
    "agent_state_id": "run-1",
    "boundary": "final_publication",
    "action_ref": "report",
    "risk_axes": ["write"],
    "allowed_decisions": ["approve", "reject"],
    "metadata": {"pages": 2},
}


def test_metadata_holds_what_binds_a_request_where_it_is_given() -> None:
    bound = replace(
        PLAIN,
        arguments={"to": "[REDACTED]"},
        argument_digest="a",
        tool_digest="t",
        attempt=2,
        call_id="call-1",
        expires_at=NOW,
        requested_by="ada",
    )
    assert PLAIN.to_metadata() == PLAIN_METADATA
    assert bound.to_metadata() == {
        **PLAIN_METADATA,
        "arguments": {"to": "[REDACTED]"},
        "argument_digest": "a",
        "tool_digest": "t",
        "attempt": 2,
        "call_id": "call-1",
        "expires_at": "2026-01-02T00:00:00+00:00",
        "requested_by": "ada",
    }


def test_a_request_becomes_a_waiting_state_and_an_item_of_the_stream() -> None:
    assert PLAIN.to_state(agent_type="Bank") == AgentState(
        "run-1",
        "Bank",
        *AgentSituation.WAITING_FOR_APPROVAL.value,
        current_activity="Publish?",
        metadata={"approval": PLAIN_METADATA},
    )
    item = PLAIN.to_yield()
    assert item.kind is AgentYieldKind.APPROVAL
    assert item.payload == Approval("q-1", "Publish?", PLAIN.allowed_decisions, PLAIN_METADATA)


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [(None, False), (NOW + timedelta(seconds=1), False), (NOW, True), (NOW - timedelta(seconds=1), True)],
)
def test_a_request_expires_at_its_time_if_it_has_one(expires_at: datetime | None, expired: bool) -> None:
    assert replace(PLAIN, expires_at=expires_at).is_expired(NOW) is expired


@pytest.mark.parametrize(
    ("metadata", "asks"),
    [
        (PAY.metadata, True),
        (AgentToolMetadata(), False),
        (replace(PAY.metadata, approval=ToolApprovalRequirement.NOT_REQUIRED), False),
        (AgentToolMetadata(approval=ToolApprovalRequirement.REQUIRED), True),
    ],
)
def test_a_person_is_asked_when_the_tool_or_its_risk_says_so(metadata: AgentToolMetadata, asks: bool) -> None:
    plan = plan_agent_tool_approval(
        descriptor=replace(PAY, metadata=metadata),
        approval_id="q-1",
        agent_state_id="run-1",
        agent_type="Bank",
        arguments=ARGUMENTS,
        attempt=2,
        expires_at=NOW,
        requested_by="ada",
    )
    assert plan.requires_approval is asks
    if not asks:
        assert plan == AgentApprovalPlan(AgentApprovalPlanAction.PROCEED)
        return
    assert plan.request is not None
    assert (plan.request.attempt, plan.request.expires_at, plan.request.requested_by) == (2, NOW, "ada")
    assert plan.request.covers(replace(PAY, metadata=metadata), ARGUMENTS)
    assert plan.state == plan.request.to_state(agent_type="Bank")
    assert plan.yield_item == plan.request.to_yield()
