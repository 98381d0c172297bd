"""Permissions by rules in runs: denied calls are told, asked ones wait for a person, per principal."""

from __future__ import annotations

import pytest
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, resumed, triple

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Idempotency,
    Pod,
    Principal,
    RecoveryStrategy,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import PermissionRule, PermissionRules, ToolApprovalRequirement
from pilotage.agent.ports.permissions import (
    IAgentPermissions,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
)
from pilotage.agent.tools.metadata import ToolRiskAxis
from pilotage.testing import ScriptedModel, calls, says

ALLOW, ASK, DENY = PermissionVerdict
ADA, EVE, ROOT = Principal("ada"), Principal("eve"), Principal("root")


@Pod
class Till:
    def __init__(self) -> None:
        self.paid: list[int] = []

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self) -> int:
        """How much is left."""
        return 100

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return f"paid {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Pay what people ask for."""

    def __init__(self, till: Till) -> None:
        self.till = till


RULES = PermissionRules(
    [
        PermissionRule(ALLOW),
        PermissionRule(ASK, risk=ToolRiskAxis.WRITE, reason="money leaves"),
        PermissionRule(DENY, "pay", principal="eve", reason="eve has paid enough"),
    ]
)


async def paid(bureau: Bureau, till: Till, principal: Principal, policy: IAgentPermissions) -> RunResult:
    model = ScriptedModel([calls("balance"), calls("pay", amount=10), says("Done.")])
    async with bureau.process(Clerk, None, till, policy, model=model) as runs:
        return await (await runs.start(Clerk, "pay 10", principal=principal)).result()


async def test_what_a_rule_wants_asked_waits_for_a_person() -> None:
    bureau, till = Bureau(), Till()
    paused = await paid(bureau, till, ADA, RULES)
    assert triple(paused.state) == WAITING
    assert till.paid == []
    model = ScriptedModel([calls("balance"), calls("pay", amount=10), says("Done.")])
    async with bureau.process(Clerk, None, till, RULES, model=model) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, paused.state.id)).state) == COMPLETED
    assert till.paid == [10]


async def test_what_a_rule_denies_is_told_to_the_model_and_never_done() -> None:
    bureau, till = Bureau(), Till()
    result = await paid(bureau, till, EVE, RULES)
    assert triple(result.state) == COMPLETED
    assert till.paid == []
    assert await bureau.outcome(result.state.id, "pay") == {
        "error": "'pay' is not allowed: eve has paid enough"
    }


async def test_an_approval_does_not_outlive_the_rule_that_allows_to_ask() -> None:
    """A call that has not begun is gated afresh: a rule that denies by now wins over a decision of before."""
    bureau, till = Bureau(), Till()
    paused = await paid(bureau, till, ADA, RULES)
    stricter = PermissionRules([PermissionRule(ALLOW), PermissionRule(DENY, "pay", reason="closed")])
    model = ScriptedModel([calls("balance"), calls("pay", amount=10), says("Done.")])
    async with bureau.process(Clerk, None, till, stricter, model=model) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        await resumed(runs, paused.state.id)
    assert till.paid == []


class Broken(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        raise LookupError


@pytest.mark.parametrize("policy", [Broken(), PermissionRules([])])
async def test_a_policy_that_fails_or_says_nothing_denies(policy: IAgentPermissions) -> None:
    till = Till()
    result = await paid(Bureau(), till, ROOT, policy)
    assert triple(result.state) == COMPLETED
    assert till.paid == []
