"""The model sees `to` and `amount` only; everything else about the tool is typed metadata."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage.agent import (
    AgentToolBindingError,
    EvidenceCapture,
    Idempotency,
    ToolRiskAxis,
    discover_agent_tools,
)
from tests.programs.program_06_tools import CanPay, Payments

(PAY,) = discover_agent_tools(Payments).descriptors


def test_the_model_sees_only_what_it_may_fill() -> None:
    assert PAY.schema.input_schema == {
        "type": "object",
        "title": "pay.input",
        "properties": {"to": {"type": "string"}, "amount": {"type": "string", "format": "decimal"}},
        "required": ["to", "amount"],
        "additionalProperties": False,
    }
    assert PAY.description == "Pay an amount to an account."


def test_the_metadata_says_what_the_tool_does_to_the_world() -> None:
    metadata = PAY.metadata
    assert metadata.permissions == (CanPay(),)
    assert metadata.idempotency is Idempotency.NON_IDEMPOTENT
    assert metadata.evidence is EvidenceCapture.STRUCTURED
    assert metadata.timeout.seconds == 10
    assert metadata.reconcile == "find_payment"
    assert metadata.requires_approval_candidate
    assert metadata.risk.includes(ToolRiskAxis.NETWORK)
    assert list(PAY.secrets) == ["api_key"]


def test_arguments_are_validated_and_secrets_cannot_be_supplied() -> None:
    bound = PAY.bind_invocation({"to": "DE-1", "amount": "12.50"})
    assert bound.args == ("DE-1", Decimal("12.50"))
    with pytest.raises(AgentToolBindingError, match="api_key"):
        PAY.bind_invocation({"to": "DE-1", "amount": "12.50", "api_key": "stolen"})
