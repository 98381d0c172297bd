"""A rule that denies an agent holds whatever name a loop or a team gave it."""

from __future__ import annotations

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import PermissionRule, PermissionRules, ToolApprovalRequirement
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.permissions import PermissionVerdict
from pilotage.architectures import Router, Supervisor
from pilotage.architectures.router import Route
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from pilotage.testing.script import ScriptEntry

pytestmark = pytest.mark.attack("aliases")
ALLOW, _, DENY = PermissionVerdict


@Pod
class Bank:
    def __init__(self) -> None:
        self.paid: list[int] = []

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return "paid"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, instruction: str) -> str:
        return await self.bank.pay(5)


WAYS: dict[str, tuple[Architecture, list[ScriptEntry]]] = {
    "a worker": (
        Supervisor(workers={"helper": Payer}),
        [calls("delegate", worker="helper", instructions="pay"), says("Done.")],
    ),
    "a route": (Router(routes={"helper": Payer}), [says(output=Route("helper", 0.9, "money"))]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("denied", ["payer", "pay?r", "helper"])
async def test_a_denied_agent_pays_nothing_under_another_name(way: str, denied: str) -> None:
    assert await paid_with(PermissionRules([PermissionRule(ALLOW), PermissionRule(DENY, denied)]), way) == []


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_that_no_rule_denies_pays(way: str) -> None:
    assert await paid_with(PermissionRules([PermissionRule(ALLOW), PermissionRule(DENY, "other")]), way) == [
        5
    ]


async def paid_with(rules: PermissionRules, way: str) -> list[int]:
    architecture, script = WAYS[way]

    @Agent(
        spec=AgentExecutionSpec(
            name="chief", recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=architecture
        )
    )
    class Chief:
        """Let others pay."""

    bank = Bank()
    app = Application("office").add(Chief, Payer, bank, ScriptedModel(script), rules, *MemoryStore().ports)
    initialize(app)
    async with app:
        await (await app.get(AgentRuns).start(Chief, "Pay.")).result()
    return bank.paid
