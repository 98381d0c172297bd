"""Permission, budget, hook and telemetry ports: pure parts, built-in no-ops, rules of permissions."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent import PermissionRule, PermissionRules, StrictestOf
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount, BudgetGranted, NoBudget
from pilotage.agent.ports.handlers import IAgentHooks, Proceed, Veto
from pilotage.agent.ports.observability import NoTelemetry
from pilotage.agent.ports.permissions import (
    AllowAll,
    IAgentPermissions,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    RequireHeld,
    strictest,
)
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.tools.metadata import ToolPermission, ToolRisk, ToolRiskAxis
from pilotage.errors import AgentDefinitionError

ALLOWED = PermissionDecision(PermissionVerdict.ALLOW)
ASKED = PermissionDecision(PermissionVerdict.ASK)
DENIED = PermissionDecision(PermissionVerdict.DENY, "no")


@pytest.mark.parametrize(
    ("decisions", "verdict"),
    [
        ([ALLOWED], "allow"),
        ([ALLOWED, ASKED], "ask"),
        ([ASKED, DENIED, ALLOWED], "deny"),
        ([], "deny"),
    ],
)
def test_deny_wins_and_silence_denies(decisions: list[PermissionDecision], verdict: str) -> None:
    assert strictest(decisions).verdict == verdict


async def test_allow_all_allows() -> None:
    request = PermissionRequest(Principal("ada"), RunContext(), AgentActionKind.TOOL_CALL, "pay")
    assert await AllowAll().check(request) == ALLOWED


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


ALLOW, ASK, DENY = PermissionVerdict
ADA = Principal("ada", "acme", frozenset({"payments.pay"}))
PAY = PermissionRequest(
    ADA,
    RunContext("acme", "ada"),
    AgentActionKind.TOOL_CALL,
    "pay_invoice",
    (ToolPermission("payments.pay"),),
    ToolRisk((ToolRiskAxis.WRITE, ToolRiskAxis.NETWORK)),
)


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (PermissionRule(ALLOW), True),
        (PermissionRule(ALLOW, "pay_invoice"), True),
        (PermissionRule(ALLOW, "pay_*"), True),
        (PermissionRule(ALLOW, "pay"), False),
        (PermissionRule(ALLOW, "PAY_*"), False),
        (PermissionRule(ALLOW, principal="ad?"), True),
        (PermissionRule(ALLOW, principal="bob"), False),
        (PermissionRule(ALLOW, tenant="acme"), True),
        (PermissionRule(ALLOW, tenant="globex"), False),
        (PermissionRule(ALLOW, holding="payments.*"), True),
        (PermissionRule(ALLOW, holding="admin"), False),
        (PermissionRule(ALLOW, permission="payments.*"), True),
        (PermissionRule(ALLOW, permission="mails.*"), False),
        (PermissionRule(ALLOW, risk=ToolRiskAxis.NETWORK), True),
        (PermissionRule(ALLOW, risk=ToolRiskAxis.DESTRUCTIVE), False),
        (PermissionRule(ALLOW, action=AgentActionKind.TOOL_CALL), True),
        (PermissionRule(ALLOW, action=AgentActionKind.DELEGATION), False),
        (PermissionRule(ALLOW, "pay_*", principal="ada", tenant="globex"), False),
    ],
)
def test_a_rule_fits_what_fits_everything_it_names(rule: PermissionRule, fits: bool) -> None:
    assert rule.fits(PAY) is fits


@pytest.mark.parametrize(
    ("verdicts", "wins"),
    [
        ([ALLOW], ALLOW),
        ([ASK], ASK),
        ([DENY], DENY),
        ([ALLOW, ASK], ASK),
        ([ALLOW, DENY], DENY),
        ([ASK, DENY], DENY),
        ([ALLOW, ASK, DENY], DENY),
    ],
)
async def test_deny_wins_over_ask_and_ask_over_allow_in_any_order(
    verdicts: list[PermissionVerdict], wins: PermissionVerdict
) -> None:
    for order in permutations(verdicts):
        rules = PermissionRules(PermissionRule(verdict) for verdict in order)
        assert (await rules.check(PAY)).verdict is wins


@given(st.lists(st.sampled_from([ALLOW, ASK]), max_size=8), st.integers(0, 8))
async def test_whatever_else_is_said_a_deny_that_fits_denies(
    others: list[PermissionVerdict], place: int
) -> None:
    rules = [PermissionRule(verdict) for verdict in others]
    rules.insert(min(place, len(rules)), PermissionRule(DENY, "pay_*", reason="not on Sundays"))
    assert await PermissionRules(rules).check(PAY) == PermissionDecision(DENY, "not on Sundays")


@pytest.mark.parametrize("otherwise", list(PermissionVerdict))
async def test_where_no_rule_speaks_the_list_says_what_happens(otherwise: PermissionVerdict) -> None:
    rules = PermissionRules([PermissionRule(ALLOW, "read_*")], otherwise=otherwise)
    decision = await rules.check(PAY)
    assert decision == PermissionDecision(otherwise, "no rule covers 'pay_invoice' for 'ada'")


async def test_without_a_word_about_it_what_no_rule_speaks_of_is_denied() -> None:
    assert (await PermissionRules([]).check(PAY)).verdict is DENY


async def test_reading_the_clock_is_nobodys_to_forbid() -> None:
    clock = PermissionRequest(ADA, RunContext(), AgentActionKind.VALUE, "now")
    assert (await PermissionRules([PermissionRule(DENY)]).check(clock)).verdict is ALLOW


async def test_a_decision_says_why() -> None:
    decision = await PermissionRules([PermissionRule(ASK, "pay_*")]).check(PAY)
    assert decision.reason == "a rule says ask to 'pay_invoice' for 'ada'"


async def test_a_bracket_in_a_pattern_is_a_bracket() -> None:
    user = PermissionRequest(Principal("user[1]"), PAY.context, PAY.action, PAY.name)
    rules = PermissionRules([PermissionRule(ALLOW), PermissionRule(DENY, principal="user[1]")])
    assert (await rules.check(user)).verdict is DENY
    assert not PermissionRule(DENY, principal="[a]da").fits(PAY)


def test_a_blank_pattern_is_a_mistake() -> None:
    with pytest.raises(AgentDefinitionError, match=r"PermissionRule\.tenant"):
        PermissionRule(ALLOW, tenant=" ")


class Failing(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        raise LookupError


async def test_of_several_policies_the_strictest_counts_and_one_that_fails_lets_nothing_pass() -> None:
    asks = PermissionRules([PermissionRule(ASK)])
    assert (await StrictestOf(AllowAll(), asks, RequireHeld()).check(PAY)).verdict is ASK
    nobody = PermissionRequest(Principal("eve"), PAY.context, PAY.action, PAY.name, PAY.permissions)
    assert (await StrictestOf(asks, RequireHeld()).check(nobody)).verdict is DENY
    assert (await StrictestOf().check(PAY)).verdict is DENY
    with pytest.raises(LookupError):
        await StrictestOf(AllowAll(), Failing()).check(PAY)
