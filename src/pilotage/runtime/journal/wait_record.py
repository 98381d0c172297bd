"""Questions to people as JSON and back: what the journal keeps of an approval or a recovery request. Pure."""

from __future__ import annotations

from typing import cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value


def encode_request(request: AgentApprovalRequest | AgentRecoveryRequest) -> JsonObject:
    """Every field of the request."""
    return cast(JsonObject, to_json_value(request))


def decode_approval(record: JsonValue) -> AgentApprovalRequest:
    """The approval request that was recorded."""
    return cast(AgentApprovalRequest, StructuredOutputSpec.from_type(AgentApprovalRequest).decode(record))


def decode_recovery(record: JsonValue) -> AgentRecoveryRequest:
    """The recovery request that was recorded."""
    return cast(AgentRecoveryRequest, StructuredOutputSpec.from_type(AgentRecoveryRequest).decode(record))
