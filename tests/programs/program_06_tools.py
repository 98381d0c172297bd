"""Tools with meaning, word for word as users write them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pilotage import (
    PII,
    AgentToolRuntimeContext,
    EvidenceCapture,
    Idempotency,
    MaskingPolicy,
    Pod,
    SecretField,
    SensitiveField,
    TimeoutPolicy,
    ToolEffects,
    ToolPermission,
    agent_tool,
)


@dataclass(frozen=True)
class Receipt:
    number: str


class CanPay(ToolPermission): ...


class BankPort(ABC):
    @abstractmethod
    async def pay(self, to: str, amount: Decimal, *, key: str, idempotency_key: str) -> Receipt: ...


@Pod
class Payments:
    def __init__(self, bank: BankPort) -> None: ...

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT,
                permissions=[CanPay()], timeout=TimeoutPolicy(10), evidence=EvidenceCapture.structured(), reconcile="find_payment")
    async def pay(self, to: Annotated[str, SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)], amount: Decimal,
                  api_key: Annotated[str, SecretField()], runtime_context: AgentToolRuntimeContext) -> Receipt:
        """Pay an amount to an account."""
        return await self.bank.pay(to, amount, key=api_key, idempotency_key=runtime_context.idempotency_key)

    async def find_payment(self, idempotency_key: str) -> Receipt | None: ...
