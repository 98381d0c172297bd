"""Permission, budget, hook and telemetry ports: pure parts and built-in no-ops."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount, BudgetGranted, NoBudget
from pilotage.agent.ports.hooks import IAgentHooks, Proceed, Veto
from pilotage.agent.ports.permissions import (
    AllowAll,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    strictest,
)
from pilotage.agent.ports.telemetry import NoTelemetry
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError

ALLOW = PermissionDecision(PermissionVerdict.ALLOW)
ASK = PermissionDecision(PermissionVerdict.ASK)
DENY = PermissionDecision(PermissionVerdict.DENY, "no")


@pytest.mark.parametrize(
    ("decisions", "verdict"),
    [
        ([ALLOW], "allow"),
        ([ALLOW, ASK], "ask"),
        ([ASK, DENY, ALLOW], "deny"),
        ([], "deny"),
    ],
)
def test_deny_wins_and_silence_denies(decisions: list[PermissionDecision], verdict: str) -> None:
    assert strictest(decisions).verdict == verdict


async def test_allow_all_allows() -> None:
    request = PermissionRequest(Principal("ada"), RunContext(), AgentActionKind.TOOL_CALL, "pay")
    assert await AllowAll().check(request) == ALLOW


async def test_no_budget_grants_what_is_asked_and_counts_nothing() -> None:
    need = BudgetAmount(steps=1, cost=Decimal("0.1")) + BudgetAmount(tokens=5)
    assert need == BudgetAmount(1, 0, 5, Decimal("0.1"))
    verdict = await NoBudget().allows_step(RunContext(), need)
    assert isinstance(verdict, BudgetGranted)
    assert verdict.reservation.amount == need
    await NoBudget().consume(RunContext(), verdict.reservation, need)


def test_budgets_count_upwards() -> None:
    with pytest.raises(AgentDefinitionError, match="BudgetAmount.cost is Decimal"):
        BudgetAmount(cost=Decimal(-1))


async def test_hooks_proceed_unless_they_say_otherwise() -> None:
    hooks, context = IAgentHooks(), RunContext()
    state, call = AgentState("r", "A", AgentStatus.ACTIVE), ModelToolCall("t", {})
    assert await hooks.pre_run(context, state) == Proceed()
    assert await hooks.pre_model(context, ModelRequest([ModelMessage.user("x")])) == Proceed()
    assert await hooks.pre_tool(context, call) == Proceed()
    await hooks.post_run(context, state)
    await hooks.post_model(context, ModelResponse("x"))
    await hooks.post_tool(context, call, None)
    with pytest.raises(AgentDefinitionError, match=r"Veto\.reason is blank"):
        Veto("")


def test_no_telemetry_does_nothing() -> None:
    with NoTelemetry().trace("model", {"model": "m"}):
        NoTelemetry().emit_metric("tokens", 3)
