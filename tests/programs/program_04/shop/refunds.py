"""The agent of the shop, and the one tool it has."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pilotage import Agent, AgentExecutionSpec, Idempotency, Pod, RecoveryStrategy, ToolEffects, agent_tool


@dataclass(frozen=True)
class RefundRequest:
    order: str
    amount: Decimal


@Pod
class Payments:
    def __init__(self) -> None:
        self.paid: list[tuple[str, Decimal]] = []

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def pay(self, to: str, amount: Decimal) -> str:
        """Pay an amount to an account."""
        self.paid.append((to, amount))
        return f"paid {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Refunds:
    """Give people their money back."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments
