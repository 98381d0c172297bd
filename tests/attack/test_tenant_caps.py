"""Caps of tenants: one that cannot be kept is never ignored, and no fan-out goes past it by more than one call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from pilotage import AgentExecutionLimits, ModelMessage, ModelRequest, Principal
from pilotage.agent import BudgetPeriod, BudgetWindow, IAgentPricing, ModelCost, ModelUsage
from pilotage.agent.model_request import SamplingOptions
from pilotage.agent.ports.budget import BudgetAmount, BudgetVerdict
from pilotage.agent.principal import RunContext
from pilotage.errors import AgentModelConfigurationError
from pilotage.models import FallbackModel
from pilotage.runtime import TenantBudget
from tests.attack.fanning import CentPerToken, Server
from tests.behaviour.bureau import COMPLETED, Bureau, Metered, asked, hired, started, triple
from tests.behaviour.office import Worker

pytestmark = pytest.mark.attack("limits")

DAY, CAP, TENANT = BudgetPeriod.DAY, 5_000, "default"
TOKENS = BudgetWindow(DAY, max_tokens=CAP)
MONEY = BudgetWindow(DAY, max_cost=Decimal(CAP) / 100)


def purse(
    bureau: Bureau, *windows: BudgetWindow, tenants: Mapping[str, Sequence[BudgetWindow]] | None = None
) -> TenantBudget:
    return TenantBudget(bureau.store.spending, windows, tenants=tenants or {})


async def thirty(worker: Worker) -> object:
    return [(await asked(worker)).content for _ in range(30)]


class Foreign(IAgentPricing):
    """Prices in a currency for each model."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(Decimal(1) / 100, "EUR" if model == "one" else "USD", "1")


class Unlucky(IAgentPricing):
    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        raise ConnectionError("the table is not there")


@pytest.mark.parametrize(
    ("window", "usage", "prices", "reason", "calls"),
    [
        (TOKENS, ModelUsage(), None, "agent_usage_unavailable", 1),
        (TOKENS, ModelUsage(-5, -5, -10), None, "agent_usage_unavailable", 1),
        (TOKENS, ModelUsage(input_tokens=5), None, "agent_usage_unavailable", 1),
        (MONEY, ModelUsage(), CentPerToken(), "agent_usage_unavailable", 1),
        (MONEY, ModelUsage(6, 4, 10), CentPerToken("metered"), "agent_cost_unavailable", 0),
        (MONEY, ModelUsage(6, 4, 10), Unlucky(), "agent_cost_unavailable", 0),
    ],
)
@pytest.mark.parametrize("own", [False, True], ids=["for all", "of its own"])
async def test_a_cap_that_cannot_be_kept_ends_the_run(
    window: BudgetWindow, usage: ModelUsage, prices: IAgentPricing | None, reason: str, calls: int, own: bool
) -> None:
    bureau, agent, model = Bureau(), hired(), Metered(usage)
    budget = purse(bureau, tenants={TENANT: [window]}) if own else purse(bureau, window)
    pods = (budget, prices) if prices is not None else (budget,)
    async with bureau.process(agent, thirty, *pods, model=model) as runs:
        result = await started(runs, agent)
    assert (result.interruption_reason, model.asked) == (reason, calls)
    # What could not be counted is settled as the worst case, so that further runs find it.
    spent = await bureau.store.spending.spent(TENANT, DAY)
    assert (spent.steps, spent.tokens > 4_000) == (calls, calls == 1)


async def test_a_second_currency_ends_the_run() -> None:
    async def both(worker: Worker) -> object:
        return [(await asked(worker)).content for _ in range(3)]

    class Changing(Metered):
        @property
        def capability(self) -> Any:
            return super().capability

    bureau, agent = Bureau(), hired()
    one, two = Metered(name="one"), Metered(name="two")

    class Switching(Metered):
        async def stream(self, request: ModelRequest) -> Any:
            self.asked += 1
            inner = one if self.asked == 1 else two
            async for event in FallbackModel([inner]).stream(request):
                yield event

    model = Switching(name="one")
    async with bureau.process(agent, both, purse(bureau, MONEY), Foreign(), model=model) as runs:
        result = await started(runs, agent)
    assert (result.interruption_reason, model.asked) == ("agent_cost_unavailable", 2)


@pytest.mark.parametrize("own", [False, True], ids=["for all", "of one tenant"])
async def test_a_cap_on_cost_without_prices_is_refused_at_start_up(own: bool) -> None:
    bureau, agent = Bureau(), hired()
    budget = purse(bureau, tenants={"acme": [MONEY]}) if own else purse(bureau, MONEY)
    with pytest.raises(
        AgentModelConfigurationError, match="TenantBudget bounds cost, which cannot be enforced"
    ):
        async with bureau.process(agent, thirty, budget):
            pass


async def test_a_tenant_without_such_a_cap_may_use_a_model_that_does_not_count() -> None:
    bureau, agent, model = Bureau(), hired(), Metered(ModelUsage())
    budget = purse(bureau, BudgetWindow(DAY, max_steps=99), tenants={"acme": [TOKENS]})
    async with bureau.process(agent, thirty, budget, model=model) as runs:
        assert triple((await started(runs, agent)).state) == COMPLETED
        acme = await (await runs.start(agent, "A-17", principal=Principal("ada", tenant="acme"))).result()
    assert acme.interruption_reason == "agent_usage_unavailable"


class Forgetful(TenantBudget):
    """A budget whose own bounds cannot be read."""

    def bounded_amounts(self, tenant_id: str | None = None) -> frozenset[str]:
        if tenant_id is None:
            return frozenset()
        raise ConnectionError("no table")


async def test_a_budget_that_cannot_say_what_it_bounds_denies() -> None:
    bureau, agent, model = Bureau(), hired(), Metered()
    async with bureau.process(agent, thirty, Forgetful(bureau.store.spending, [TOKENS]), model=model) as runs:
        result = await started(runs, agent)
    assert (result.interruption_reason, model.asked) == ("agent_budget_exhausted", 0)


def fan(width: int, bound: int | None) -> Any:
    request = ModelRequest([ModelMessage.user("Well?")], sampling=SamplingOptions(max_tokens=bound))

    async def ask(worker: Worker) -> object:
        return len(await asyncio.gather(*(worker.model.complete(request) for _ in range(width))))

    return ask


@pytest.mark.parametrize("runs_at_once", [1, 3])
@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize("bound", [400, None], ids=lambda bound: f"reply {bound}")
@pytest.mark.parametrize("window", [TOKENS, MONEY], ids=["tokens", "money"])
async def test_no_fan_out_goes_past_a_tenants_cap_by_more_than_one_call(
    window: BudgetWindow, bound: int | None, width: int, runs_at_once: int
) -> None:
    bureau, agent, server = Bureau(), hired(), Server(900)
    async with bureau.process(
        agent, fan(width, bound), purse(bureau, window), CentPerToken(), model=server
    ) as runs:
        await asyncio.gather(*(started(runs, agent) for _ in range(runs_at_once)))
    assert server.spent <= CAP + max(server.wrote)
    assert all(sent is not None for sent in server.bounds)


async def test_calls_wait_for_room_that_others_of_the_tenant_hold() -> None:
    """The worst case of two calls fills the cap; the replies are short, so all of them fit one after the other."""
    bureau, agent, server = Bureau(), hired(), Server(10)
    async with bureau.process(agent, fan(40, None), purse(bureau, TOKENS), model=server) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), server.calls) == (COMPLETED, 40), result.error
    assert server.widest <= 2
    assert (await bureau.store.spending.spent(TENANT, DAY)).tokens == server.spent


@pytest.mark.parametrize("obeys", [True, False], ids=["honest", "lying"])
async def test_limits_of_a_run_and_of_its_tenant_hold_together(obeys: bool) -> None:
    bureau, server = Bureau(), Server(900, obeys=obeys)
    agent = hired(limits=AgentExecutionLimits(max_tokens=3_000))
    async with bureau.process(agent, fan(20, 500), purse(bureau, TOKENS), model=server) as runs:
        for _ in range(3):
            await started(runs, agent)
    assert server.spent <= CAP + max(server.wrote)


async def test_a_budget_of_another_kind_is_asked_as_before() -> None:
    """Bounds are declared: a budget that declares none neither sends a bound nor needs numbers."""

    class Own(TenantBudget):
        needs: list[BudgetAmount] = []

        def bounded_amounts(self, tenant_id: str | None = None) -> frozenset[str]:
            return frozenset()

        async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
            self.needs.append(need)
            return await super().allows_step(context, need)

    bureau, agent, server = Bureau(), hired(), Server(10)
    async with bureau.process(agent, fan(2, None), Own(bureau.store.spending, ()), model=server) as runs:
        assert triple((await started(runs, agent)).state) == COMPLETED
    assert server.bounds == [None, None]
    assert [need.tokens for need in Own.needs] == [6, 6]
