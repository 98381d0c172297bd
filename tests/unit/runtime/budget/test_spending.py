"""What a run may still spend, and how it ends when there is nothing left."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount, BudgetExhausted, IAgentPricing, ModelCost
from pilotage.agent.spec import AgentExecutionLimits, LimitCode
from pilotage.agent.state import AgentSituation
from pilotage.jsonvalue import JsonObject, canonical_json
from pilotage.runtime.budget.holds import BudgetHold, CallEstimate, Conduct
from pilotage.runtime.budget.spending import Spending, budget_exhausted, child_limits
from pilotage.runtime.effect import ONE_STEP, ONE_TOOL_CALL
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.journal.records import decode_amount, encode_amount

TEN = ModelUsage(7, 3, 10)


class PerToken(IAgentPricing):
    """A tenth of a euro a token for 'small', of a dollar for 'foreign'; no other model is known."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        currency = {"small": "EUR", "foreign": "USD"}.get(model)
        if currency is None:
            return None
        return ModelCost(Decimal(usage.total_tokens or 0) / 10, currency, "1")


def limits(**bounds: Any) -> AgentExecutionLimits:
    return AgentExecutionLimits(**bounds)


def spending(parent: Spending | None = None, /, **bounds: object) -> Spending:
    return Spending(limits(**bounds), PerToken(), parent)


def proven() -> Conduct:
    conduct = Conduct()
    conduct.learn(7, TEN, TEN)
    return conduct


def estimate(
    model: str = "small", asked: int = 7, reply: int = 3, conduct: Conduct | None = None
) -> CallEstimate:
    return CallEstimate((model,), False, asked, reply, conduct or proven())


def hold(run: Spending, model: str = "small") -> BudgetHold:
    held = run.hold_model_call(estimate(model))
    assert held is not None
    return held


def call(run: Spending, usage: ModelUsage = TEN, model: str = "small") -> None:
    run.settle_model_call(model, usage, hold(run, model))


def refused(act: Callable[[], object]) -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        act()
    return caught.value


def test_everything_is_counted_without_a_limit() -> None:
    run = Spending()
    call(run)
    call(run, ModelUsage(1, 1, 2))
    run.reserve_tool_calls(3)
    assert run.spent == BudgetAmount(2, 3, 12, Decimal(0))
    assert run.usage == ModelUsage(8, 4, 12)
    assert run.currency is None


def test_cost_is_counted_exactly_where_there_is_a_price() -> None:
    run = spending()
    for _ in range(3):
        call(run, ModelUsage(total_tokens=1))
    assert run.spent.cost == Decimal("0.3")
    assert run.currency == "EUR"


@pytest.mark.parametrize(
    "usage", [ModelUsage(), ModelUsage(input_tokens=4), ModelUsage(output_tokens=4)], ids=repr
)
def test_a_model_that_does_not_count_is_fine_without_a_limit(usage: ModelUsage) -> None:
    run = spending(max_steps=9)
    call(run, usage, "unknown")
    assert (run.spent.tokens, run.spent.cost) == (0, Decimal(0))


def test_input_and_output_make_a_total_where_the_model_gives_none() -> None:
    run = spending()
    call(run, ModelUsage(4, 5))
    assert run.usage == ModelUsage(4, 5, 9)


def test_steps_never_exceed_their_bound() -> None:
    run = spending(max_steps=2)
    call(run)
    call(run)
    reached = refused(run.reserve_model_call)
    assert (reached.code, reached.limit) == ("agent_max_steps_exceeded", "max_steps")
    assert run.spent.steps == 2


def test_steps_are_taken_before_they_are_done() -> None:
    run = spending(max_steps=2)
    run.reserve_model_call()
    run.reserve_model_call()
    assert refused(run.reserve_model_call).code is LimitCode.MAX_STEPS


def test_a_call_that_failed_was_a_step() -> None:
    run = spending(max_steps=1)
    run.release(hold(run))
    assert refused(run.reserve_model_call).code is LimitCode.MAX_STEPS


def test_tool_calls_are_reserved_all_or_none() -> None:
    run = spending(max_tool_calls=3)
    run.reserve_tool_calls(2)
    reached = refused(lambda: run.reserve_tool_calls(2))
    assert (reached.code, reached.limit) == ("agent_max_tool_calls_exceeded", "max_tool_calls")
    run.reserve_tool_calls()
    assert run.spent.tool_calls == 3


def test_a_call_needs_room_for_its_worst_case() -> None:
    run = spending(max_tokens=19)
    call(run)
    assert refused(lambda: call(run)).code == "agent_max_tokens_exceeded"
    assert (run.spent.steps, run.spent.tokens) == (1, 10)


def test_a_reply_that_takes_more_than_was_held_is_the_last() -> None:
    run = spending(max_tokens=19)
    call(run, ModelUsage(7, 23, 30))
    assert run.spent.tokens == 30
    assert refused(run.reserve_model_call).code == "agent_max_tokens_exceeded"


def test_the_bound_of_a_reply_is_reduced_to_the_room() -> None:
    run = spending(max_tokens=100)
    held = run.hold_model_call(estimate(reply=4_000))
    assert held is not None
    assert (held.reply_tokens, held.amount.tokens) == (93, 100)


def test_the_bound_of_a_reply_is_reduced_to_the_money() -> None:
    run = spending(max_cost=Decimal("5.05"))
    held = run.hold_model_call(estimate(reply=4_000))
    assert held is not None
    assert (held.reply_tokens, held.amount.cost) == (43, Decimal(5))


def test_a_call_with_no_room_for_a_useful_reply_is_refused() -> None:
    reached = refused(lambda: spending(max_tokens=22).hold_model_call(estimate(reply=4_000)))
    assert "0 tokens were used, 0 are held, a call needs 23 or more" in reached.reason


def test_a_model_that_has_proven_nothing_is_asked_by_one_call_at_a_time() -> None:
    run, conduct = spending(max_tokens=1_000), Conduct()
    first = run.hold_model_call(estimate(conduct=conduct))
    assert run.hold_model_call(estimate(conduct=conduct)) is None
    assert run.hold_model_call(estimate(conduct=proven())) is not None
    run.settle_model_call("small", TEN, first)
    assert conduct.is_proven
    assert run.hold_model_call(estimate(conduct=conduct)) is not None
    assert run.hold_model_call(estimate(conduct=conduct)) is not None


def test_a_model_that_broke_its_bound_proves_itself_again() -> None:
    run, conduct = spending(max_tokens=10_000), proven()
    run.settle_model_call("small", ModelUsage(7, 50, 57), run.hold_model_call(estimate(conduct=conduct)))
    for _ in range(7):
        run.settle_model_call("small", TEN, run.hold_model_call(estimate(conduct=conduct)))
        assert not conduct.is_proven
    run.settle_model_call("small", TEN, run.hold_model_call(estimate(conduct=conduct)))
    assert conduct.is_proven


def test_estimates_grow_with_experience_and_within_reason() -> None:
    conduct = Conduct()
    conduct.learn(10, ModelUsage(10, 5, 15), ModelUsage(40, 5, 45))
    assert (conduct.request_tokens(10), conduct.is_proven) == (40, True)
    conduct.learn(1_000, ModelUsage(1_030, 5, 1_035), ModelUsage(2_000, 5, 2_005))
    assert (conduct.request_tokens(1_000), conduct.is_proven) == (2_030, True)
    conduct.learn(10, ModelUsage(50, 5, 55), ModelUsage(10**6, 5, 10**6 + 5))
    assert (conduct.request_tokens(10), conduct.is_proven) == (1_020, False)


def test_tokens_that_reach_the_bound_exactly_are_the_last() -> None:
    run = spending(max_tokens=10)
    call(run)
    assert refused(run.reserve_model_call).code is LimitCode.MAX_TOKENS


def test_the_same_holds_for_cost() -> None:
    run = spending(max_cost=Decimal("1.5"))
    call(run)
    assert refused(lambda: call(run)).code == "agent_max_cost_exceeded"
    assert run.spent.cost == Decimal(1)


@pytest.mark.parametrize("bounds", [{"max_tokens": 25}, {"max_cost": Decimal("2.5")}], ids=repr)
def test_calls_side_by_side_see_what_is_held_for_each_other(bounds: dict[str, object]) -> None:
    run = spending(**bounds)
    first, second = hold(run), hold(run)
    assert run.hold_model_call(estimate()) is None
    assert refused(lambda: run.hold_model_call(estimate(), may_wait=False)).code in {
        LimitCode.MAX_TOKENS,
        LimitCode.MAX_COST,
    }
    run.settle_model_call("small", ModelUsage(total_tokens=1), first)
    run.release(second)
    run.release(second)
    assert (run.spent.tokens, run.own.held_tokens, run.own.held_cost) == (1, 0, 0)
    assert run.hold_model_call(estimate()) is not None


def test_a_refused_call_takes_nothing() -> None:
    parent = spending(max_tokens=19)
    run = spending(parent)
    call(run)
    refused(lambda: call(run))
    assert run.spent.steps == parent.spent.steps == 1


@pytest.mark.parametrize("bounds", [{"max_tokens": 100}, {"max_cost": Decimal(9)}], ids=repr)
def test_a_limit_cannot_be_kept_for_a_model_that_does_not_count(bounds: dict[str, object]) -> None:
    reached = refused(lambda: call(spending(**bounds), ModelUsage(input_tokens=5)))
    assert reached.code == "agent_usage_unavailable"
    assert reached.limit == next(iter(bounds))


def test_a_cost_limit_without_prices_is_refused_before_anything_is_spent() -> None:
    run = Spending(limits(max_cost=Decimal(1)))
    assert refused(run.reserve_model_call).code == "agent_cost_unavailable"
    assert run.spent == BudgetAmount()


def test_a_cost_limit_cannot_be_kept_for_a_model_without_a_price() -> None:
    run = spending(max_cost=Decimal(1))
    assert refused(lambda: call(run, model="unknown")).code == "agent_cost_unavailable"
    assert run.spent.tokens == 0


def test_amounts_of_two_currencies_are_not_added() -> None:
    run = spending(max_cost=Decimal(9))
    call(run)
    assert refused(lambda: call(run, model="foreign")).code is LimitCode.COST_UNAVAILABLE
    assert (run.spent.cost, run.currency) == (Decimal(1), "EUR")


def test_what_a_child_spends_its_parents_spend() -> None:
    grandparent = spending()
    parent = spending(grandparent)
    child = Spending(parent=parent)
    call(child)
    child.reserve_tool_calls(2)
    call(parent)
    assert child.spent == BudgetAmount(1, 2, 10, Decimal(1))
    assert parent.spent == grandparent.spent == BudgetAmount(2, 2, 20, Decimal(2))
    assert parent.usage == ModelUsage(14, 6, 20)


@pytest.mark.parametrize(
    ("bounds", "act", "code"),
    [
        ({"max_steps": 1}, call, LimitCode.MAX_STEPS),
        ({"max_tool_calls": 1}, Spending.reserve_tool_calls, LimitCode.MAX_TOOL_CALLS),
        ({"max_tokens": 10}, call, LimitCode.MAX_TOKENS),
        ({"max_cost": Decimal(1)}, call, LimitCode.MAX_COST),
    ],
)
def test_the_bounds_of_a_parent_hold_for_all_its_children_together(
    bounds: dict[str, object], act: Callable[[Spending], object], code: LimitCode
) -> None:
    parent = spending(**bounds)
    act(parent.branch())
    assert refused(lambda: act(parent.branch())).code is code


def test_a_childs_own_bound_leaves_its_parent_going() -> None:
    parent = spending(max_steps=9)
    child = spending(parent, max_steps=1)
    call(child)
    assert refused(child.reserve_model_call).code is LimitCode.MAX_STEPS
    assert parent.limit_for_model_call() is None


def test_a_parent_that_counts_cannot_have_a_child_that_does_not() -> None:
    parent = spending(max_tokens=100)
    assert refused(lambda: call(parent.branch(), ModelUsage())).code is LimitCode.USAGE_UNAVAILABLE


def test_what_is_recorded_is_counted_without_asking() -> None:
    run = spending(max_steps=1, max_tool_calls=1)
    run.absorb(BudgetAmount(2, 2, 30, Decimal(3)), ModelUsage(20, 10, 30))
    assert run.spent == BudgetAmount(2, 2, 30, Decimal(3))
    assert run.usage == ModelUsage(20, 10, 30)
    assert refused(run.reserve_model_call).code is LimitCode.MAX_STEPS


def test_replay_counts_to_where_the_first_attempt_was() -> None:
    first, replayed = spending(max_tokens=20), spending(max_tokens=20)
    for _ in range(2):
        call(first)
        first.reserve_tool_calls()
        replayed.absorb(ONE_STEP)
        replayed.settle_model_call("small", TEN)
        replayed.absorb(ONE_TOOL_CALL)
    assert replayed.spent == first.spent
    assert refused(replayed.reserve_model_call).reason == refused(first.reserve_model_call).reason


def test_looking_ahead_takes_nothing() -> None:
    run = spending(max_steps=1, max_tool_calls=2)
    assert run.limit_for_model_call() is None
    assert run.limit_for_tool_calls(2) is None
    assert run.limit_for_tool_calls(3) is not None
    assert run.spent == BudgetAmount()


@pytest.mark.parametrize(
    ("run", "act", "reason"),
    [
        (
            spending(max_steps=1),
            call,
            "AgentExecutionLimits.max_steps=1 is reached: 1 model calls were made. "
            "Raise the limit, or give the agent a smaller task.",
        ),
        (
            spending(max_tool_calls=1),
            Spending.reserve_tool_calls,
            "AgentExecutionLimits.max_tool_calls=1 is reached: 1 tool calls were made, 1 more are wanted. "
            "Raise the limit, or give the agent a smaller task.",
        ),
        (
            spending(max_cost=Decimal(1)),
            call,
            "AgentExecutionLimits.max_cost=1 is reached: 1 was spent. "
            "Raise the limit, or give the agent a smaller task.",
        ),
    ],
)
def test_the_end_is_said_in_words(run: Spending, act: Callable[[Spending], object], reason: str) -> None:
    act(run)
    assert refused(lambda: act(run)).reason == reason


def test_what_cannot_be_counted_is_said_in_words() -> None:
    assert refused(lambda: call(spending(max_tokens=50), ModelUsage())).reason == (
        "AgentExecutionLimits.max_tokens=50 cannot be enforced: the reply of 'small' does not say how many tokens it "
        "took. Use a model that reports its usage, or leave the limit out."
    )
    assert refused(Spending(limits(max_cost=Decimal(1))).reserve_model_call).reason == (
        "AgentExecutionLimits.max_cost=1 cannot be enforced: nothing provides IAgentPricing. "
        "Provide an IAgentPricing with the price, or leave the limit out."
    )


def test_a_run_at_its_limit_is_interrupted_and_at_one_that_cannot_be_enforced_failed() -> None:
    run = spending(max_steps=1)
    call(run)
    assert refused(run.reserve_model_call).situation is AgentSituation.LIMIT_REACHED
    priceless = Spending(limits(max_cost=Decimal(1)))
    assert refused(priceless.reserve_model_call).situation is AgentSituation.FAILED


@pytest.mark.parametrize(
    ("own", "packet", "expected"),
    [
        (limits(), DelegationBudget(), limits()),
        (limits(max_steps=3), DelegationBudget(max_steps=5, max_tokens=9), limits(max_steps=3, max_tokens=9)),
        (
            limits(max_tokens=10, max_cost=Decimal(1), max_tool_calls=4),
            DelegationBudget(max_tokens=9),
            limits(max_tokens=9, max_cost=Decimal(1), max_tool_calls=4),
        ),
    ],
)
def test_a_packet_makes_the_limits_of_a_child_tighter_never_wider(
    own: AgentExecutionLimits, packet: DelegationBudget, expected: AgentExecutionLimits
) -> None:
    assert child_limits(own, packet) == expected


def test_the_applications_own_budget_ends_a_run_likewise() -> None:
    reached = budget_exhausted(BudgetExhausted("tenant_tokens", "the tenant has used its tokens of today"))
    assert (reached.code, reached.limit, reached.reason) == (
        "agent_budget_exhausted",
        "tenant_tokens",
        "the tenant has used its tokens of today",
    )


def test_an_amount_survives_its_record() -> None:
    amount = BudgetAmount(1, 2, 3, Decimal("0.10"))
    record: JsonObject = encode_amount(amount)
    assert canonical_json(record) == '{"cost":"0.10","steps":1,"tokens":3,"tool_calls":2}'
    assert decode_amount(record) == amount
