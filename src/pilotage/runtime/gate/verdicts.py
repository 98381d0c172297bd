"""What a stage of the gate says about something that is about to begin."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.values import value


@value
class Pass:
    """Nothing against it."""


@value
class Ask:
    """Somebody must be asked first; the handler that says so may word the question."""

    reason: str | None = None
    question: AgentApprovalRequest | None = None


@value
class Deny:
    """It must not happen."""

    reason: str


GateVerdict: TypeAlias = Pass | Ask | Deny

PASS = Pass()
