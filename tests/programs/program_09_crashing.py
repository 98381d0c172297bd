"""Testing, and crashing on purpose, word for word as users write it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
    run,
)
from pilotage.testing import ScriptedModel, always, calls, crash_matrix, says


class Ledger:
    def __init__(self) -> None:
        self._payments: Counter[str] = Counter()

    def book(self, key: str) -> None:
        self._payments[key] += 1

    def payments_per_key(self) -> dict[str, int]:
        return dict(self._payments)


@Pod
class Payments:
    def __init__(self, bank: Ledger) -> None:
        self.bank = bank

    @agent_tool(
        schema_name="payments.pay",
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
    )
    async def pay(self, to: str, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay an amount to an account; a person has to allow it."""
        self.bank.book(runtime_context.idempotency_key)
        return f"paid {amount} to {to}"


@dataclass(frozen=True)
class RefundRequest:
    order: str


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Refunds:
    """Give people their money back."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


@Agent
class Greeter:
    """Greet people by name, warmly and briefly."""

    @agent_tool(effects=ToolEffects.read_only())
    def nickname(self, name: str) -> str:
        """Look up how a person likes to be called."""
        return {"Ada": "Countess"}.get(name, name)


async def test_the_refund_is_paid_once_whatever_happens() -> None:
    bank = Ledger()
    model = ScriptedModel([calls("payments.pay", to="DE-1", amount="12.50"), says("Done.")])
    report = await crash_matrix(Refunds, RefundRequest(order="A-17"), model=model, add=[bank], approve=always)
    assert report.points > 20
    assert bank.payments_per_key() == {report.key("payments.pay"): 1}
    report.assert_no_repeated_effects()


async def test_the_greeting() -> None:
    model = ScriptedModel([calls("nickname", name="Ada"), says("Good day, Countess.")])
    result = await run(Greeter, "greet Ada", model=model)
    assert result.output == "Good day, Countess."
    model.assert_complete()
