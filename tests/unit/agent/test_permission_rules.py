"""Permissions by rules, as tables: what fits, who wins, what happens where nobody speaks."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent import PermissionRule, PermissionRules, StrictestOf
from pilotage.agent.ports.permissions import (
    AllowAll,
    IAgentPermissions,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    RequireHeld,
)
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import ToolPermission, ToolRisk, ToolRiskAxis
from pilotage.errors import AgentDefinitionError

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
    assert decision == PermissionDecision(otherwise, "no rule speaks of 'pay_invoice' for 'ada'")


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
