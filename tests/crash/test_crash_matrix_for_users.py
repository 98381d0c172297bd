"""`crash_matrix`, pointed at an agent in a few lines; and agents with a bug, which it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Annotated

import pytest

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentToolRuntimeContext,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.testing import ScriptedModel, always, crash_matrix, says

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


class Ledger:
    """An outside bank that counts payments by their key."""

    def __init__(self) -> None:
        self.payments: Counter[str] = Counter()

    def payments_per_key(self) -> dict[str, int]:
        return dict(self.payments)


@Pod
class Payments:
    def __init__(self, bank: Ledger) -> None:
        self.bank = bank

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        schema_name="payments.pay",
        reads_untrusted=False,
    )
    async def pay(self, to: str, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay an amount."""
        self.bank.payments[runtime_context.idempotency_key] += 1
        return f"paid {amount} to {to}"


@Agent(spec=DURABLE)
class Refunds:
    def __init__(self, model: IAgentModel, payments: Payments) -> None:
        self.model, self.payments = model, payments

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        reply = await self.model.complete(ModelRequest([ModelMessage.user(f"refund {order}?")]))
        receipt = await self.payments.pay(reply.content, Decimal("12.50"))
        yield Final(receipt)


@Agent(spec=DURABLE)
class Forgetful:
    """Does its work beside the runtime, where nobody writes it down."""

    def __init__(self, bank: Ledger) -> None:
        self.bank = bank

    async def execute(self) -> str:
        self.bank.payments["untracked"] += 1
        return f"paid {self.bank.payments['untracked']} times"


async def test_the_refund_is_paid_once_whatever_happens() -> None:
    bank = Ledger()
    model = ScriptedModel([says("DE-1")])
    report = await crash_matrix(Refunds, "A-17", model=model, add=[bank, Payments], approve=always)
    assert report.points > 20
    assert report.reference.status is AgentStatus.COMPLETED
    assert bank.payments_per_key() == {report.key("payments.pay"): 1}
    report.assert_same_result()
    report.assert_no_repeated_effects()


@Pod
class Vault:
    """Its answers are for the run alone: everybody else sees a mask."""

    def __init__(self, bank: Ledger) -> None:
        self.bank = bank

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def open(
        self, owner: str, runtime_context: AgentToolRuntimeContext
    ) -> Annotated[str, SensitiveField(PII.ACCOUNT_ID)]:
        """Open an account."""
        self.bank.payments[runtime_context.idempotency_key] += 1
        return f"account {self.bank.payments.total()} of {owner}"


@Agent(spec=DURABLE)
class Accounts:
    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    async def execute(self, owner: str) -> bool:
        return await self.vault.open(owner) == f"account 1 of {owner}"


async def test_what_is_sealed_is_told_truthfully_too() -> None:
    bank = Ledger()
    report = await crash_matrix(Accounts, "Ada", add=[bank, Vault])
    assert report.reference.output is True
    report.assert_same_result()
    report.assert_no_repeated_effects()


async def test_an_effect_beside_the_runtime_is_found_out() -> None:
    report = await crash_matrix(Forgetful, add=[Ledger()])
    with pytest.raises(AssertionError, match="some crashes change the result"):
        report.assert_same_result()


async def test_a_tool_that_is_not_called_has_no_key() -> None:
    report = await crash_matrix(Forgetful, add=[Ledger()])
    with pytest.raises(AssertionError, match=r"does not call 'payments\.pay'\. It calls nothing"):
        report.key("payments.pay")
