"""What runs cost: in the row of each call, once whatever crashes, and the same sum by every grouping."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Pod,
    Principal,
    Qualifier,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    CostField,
    IAgentPricing,
    ModelCapability,
    ModelCost,
    ModelFinishReason,
    ModelUsage,
    RunKey,
)
from pilotage.agent.context import ContextTokenBudget
from pilotage.context import SummariseOldTurns
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, as_object
from pilotage.models import FallbackCondition, FallbackModel, ModelPrice, OfflineModel, PriceList
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    calls,
    crash_matrix,
    fails,
    says,
)

A_CENT = ModelPrice(Decimal(10_000), Decimal(10_000))
"""A cent a token."""
PRICES = PriceList({"scripted": A_CENT}, version="2026-11")


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, version=3))
class Clerk:
    """Look things up."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, thing: str) -> str:
        """What something costs."""
        return (await self.model.complete(ModelRequest([ModelMessage.user(thing)]))).content


@Agent(durable=True)
class Asker:
    """Ask once."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> str:
        return (await self.model.complete(ModelRequest([ModelMessage.user(question)]))).content


@asynccontextmanager
async def office(store: MemoryStore, *pods: object, agent: type[object] = Clerk) -> AsyncGenerator[AgentRuns]:
    app = Application("office").add(agent, *pods, *store.ports)
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


def script() -> ScriptedModel:
    return ScriptedModel([calls("price", thing="tea"), says("seven"), says("It costs seven.")])


async def records(store: MemoryStore, run_id: str) -> dict[str, JsonObject]:
    rows = store.journal.read(RunKey("default", run_id))
    return {row.action_id: as_object(row.view) for row in [r async for r in rows] if row.costs}


async def amounts(runs: AgentRuns, *by: str, principal: Principal | None = None) -> Mapping[str, Decimal]:
    sums = await runs.costs(by=by, principal=principal)
    return {
        " ".join(str(name) for name in each.group.values()): each.amounts.get("USD", Decimal(0))
        for each in sums
    }


async def test_price_version_and_currency_are_in_the_row_of_the_call() -> None:
    store = MemoryStore()
    async with office(store, script(), PRICES) as runs:
        result = await (await runs.start(Clerk, "tea?")).result()
        found = await records(store, result.state.id)
        assert list(found) == ["run/model#1", "run/tool:price#1/model#1", "run/model#2"]
        tokens = [as_object(as_object(each["result"])["usage"])["total_tokens"] for each in found.values()]
        assert [each["costs"] for each in found.values()] == [
            [[str(Decimal(str(count)) * Decimal("0.01")), "USD", "2026-11"]] for count in tokens
        ]
        await runs.verify(result.state.id)
        (whole,) = await runs.costs()
        assert whole.amounts == {"USD": result.spent.cost} == {"USD": result.spent.tokens * Decimal("0.01")}
        assert (whole.charges, whole.unpriced, whole.total_tokens) == (3, 0, result.spent.tokens)
        by_tool = await amounts(runs, "tool", "version")
        assert set(by_tool) == {"None 3", "price 3"}


async def test_a_model_without_a_price_is_unknown_and_not_zero() -> None:
    store = MemoryStore()
    async with office(store, script(), PriceList({"another": A_CENT}, version="1")) as runs:
        run = await runs.start(Clerk, "tea?")
        await run.result()
        (whole,) = await runs.costs()
        assert (whole.charges, whole.unpriced, whole.amounts) == (3, 3, {})
        assert [each["costs"] for each in (await records(store, run.id)).values()] == [[None]] * 3
    async with office(MemoryStore(), script()) as runs:
        await (await runs.start(Clerk, "tea?")).result()
        (whole,) = await runs.costs()
        assert (whole.charges, whole.unpriced, whole.amounts) == (3, 3, {})


async def test_a_call_keeps_the_price_that_it_was_recorded_with() -> None:
    store = MemoryStore()
    _, *others = store.ports
    app = Application("office").add(
        Clerk, script(), PRICES, FaultyJournal(store.journal, StopAfter(3)), *others
    )
    initialize(app)
    async with app:
        run = await app.get(AgentRuns).start(Clerk, "tea?")
        with pytest.raises(ProcessStopped):
            await run.result()
    dearer = PriceList({"scripted": ModelPrice(Decimal(20_000), Decimal(20_000))}, version="2026-12")
    rest = ScriptedModel([says("It costs seven.")])
    async with office(store, rest, dearer) as runs:
        (state,) = (await runs.list()).runs
        result = await (await runs.resume(state.id)).result()
        found = {each.group["prices"]: each for each in await runs.costs(by=["prices"])}
    assert set(found) == {"2026-11", "2026-12"}
    assert sum(each.amounts["USD"] for each in found.values()) == result.spent.cost
    assert found["2026-11"].amounts["USD"] == found["2026-11"].total_tokens * Decimal("0.01")
    assert found["2026-12"].amounts["USD"] == found["2026-12"].total_tokens * Decimal("0.02")


class TwoCurrencies(IAgentPricing):
    """Euros for one model, dollars for the other."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(Decimal(1), {"here": "EUR", "there": "USD"}[model], "1")


@Agent(durable=True)
class Traveller:
    """Ask two models."""

    def __init__(
        self,
        here: Annotated[IAgentModel, Qualifier("here")],
        there: Annotated[IAgentModel, Qualifier("there")],
    ) -> None:
        self.models = (here, there)

    async def execute(self, question: str) -> int:
        return len([await each.complete(ModelRequest([ModelMessage.user(question)])) for each in self.models])


def in_two_places() -> tuple[object, object]:
    @Pod
    def here() -> IAgentModel:
        return ScriptedModel([says("yes")], capability=ModelCapability("here"))

    @Pod
    def there() -> IAgentModel:
        return ScriptedModel([says("no")], capability=ModelCapability("there"))

    return here, there


async def test_amounts_of_two_currencies_are_kept_apart() -> None:
    async with office(MemoryStore(), *in_two_places(), TwoCurrencies(), agent=Traveller) as runs:
        result = await (await runs.start(Traveller, "where?")).result()
        (whole,) = await runs.costs()
    assert whole.amounts == {"EUR": Decimal(1), "USD": Decimal(1)}
    assert result.spent.cost == Decimal(1)


async def test_a_limit_of_cost_refuses_a_second_currency() -> None:
    limits = AgentExecutionLimits(max_cost=Decimal(100))

    @Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, limits=limits))
    class Careful(Traveller):
        """Ask two models."""

    async with office(MemoryStore(), *in_two_places(), TwoCurrencies(), agent=Careful) as runs:
        result = await (await runs.start(Careful, "where?")).result()
    assert result.interruption_reason == "agent_cost_unavailable"
    assert "no price for 'there', or one in another currency than before" in str(result.error)


async def test_retries_fallbacks_and_summaries_are_named() -> None:
    lost = fails("the stream was lost", retryable=True, after="one tw")
    store = MemoryStore()
    async with office(store, ScriptedModel([lost, says("one two")]), PRICES) as runs:
        result = await (await runs.start(Clerk, "count")).result()
        by_role = await amounts(runs, "role")
    assert set(by_role) == {"reply", "retry"}
    assert sum(by_role.values()) == result.spent.cost

    declines = says("", finish_reason=ModelFinishReason.REFUSAL)
    unsure = FallbackModel(
        [
            ScriptedModel([declines], capability=ModelCapability("unsure")),
            OfflineModel(capability=ModelCapability("sure")),
        ],
        on=[FallbackCondition.REFUSED],
    )
    priced = PriceList({"unsure": A_CENT, "sure": ModelPrice(Decimal(1), Decimal(1))}, version="1")
    async with office(MemoryStore(), unsure, priced, agent=Asker) as runs:
        result = await (await runs.start(Asker, "count")).result()
        by_role = await amounts(runs, "role", "model")
    assert set(by_role) == {"reply sure", "fallback unsure"}
    assert sum(by_role.values()) == result.spent.cost


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


async def test_summaries_are_charged_as_compaction() -> None:
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says("Pages 1 and 2 are full of words."), says("Read.")])
    async with office(MemoryStore(), model, PRICES, agent=Reader) as runs:
        result = await (await runs.start(Reader, "read three pages")).result()
        by_role = await amounts(runs, "role")
    assert set(by_role) == {"reply", "compaction"}
    assert sum(by_role.values()) == result.spent.cost


def limited(**bounds: Any) -> AgentExecutionLimits:
    return AgentExecutionLimits(**bounds)


@pytest.mark.parametrize(
    "limits", [limited(), limited(max_tokens=100_000), limited(max_cost=Decimal(100_000))], ids=str
)
async def test_a_crash_at_every_commit_counts_nothing_twice(limits: AgentExecutionLimits) -> None:
    @Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, limits=limits))
    class Counted(Clerk):
        """Look things up."""

    stores: list[MemoryStore] = []

    def store() -> MemoryStore:
        stores.append(MemoryStore())
        return stores[-1]

    report = await crash_matrix(Counted, "tea?", model=script(), add=[PRICES], store=store, second_stops=(1,))
    assert report.points > 5
    for each in stores:
        async with office(each, script(), PRICES, agent=Counted) as runs:
            (state,) = (await runs.list()).runs
            result = await runs.result(state.id)
            (whole,) = await runs.costs()
            assert whole.amounts == {"USD": result.spent.cost}
            assert whole.total_tokens == result.spent.tokens
            replies = [one for one in await runs.costs(by=["role", "tool"]) if one.group["role"] == "reply"]
            assert sorted((one.group["tool"] or "", one.charges) for one in replies) == [
                ("", 2),
                ("price", 1),
            ]


async def test_children_belong_to_the_tree_and_tenants_are_apart() -> None:
    store = MemoryStore()
    acme = Principal("ada", tenant="acme")
    async with office(store, ScriptedModel([says("one"), says("two")]), PRICES) as runs:
        await (await runs.start(Clerk, "a", principal=acme)).result()
        mine = await (await runs.start(Clerk, "b")).result()
        assert set(await amounts(runs, "tenant", principal=acme)) == {"acme"}
        assert set(await amounts(runs, "tree")) == {mine.state.id}


async def test_a_stretch_of_time_and_wrong_questions() -> None:
    async with office(MemoryStore(), script(), PRICES) as runs:
        await (await runs.start(Clerk, "tea?")).result()
        now = datetime.now(UTC)
        assert await runs.costs(since=now + timedelta(hours=1)) == ()
        assert await runs.costs(until=now - timedelta(hours=1)) == ()
        assert len(await runs.costs(since=now - timedelta(hours=1), until=now + timedelta(hours=1))) == 1
        with pytest.raises(CallerError, match="costs are not grouped by 'colour'. Use tenant, agent"):
            await runs.costs(by=["colour"])
        with pytest.raises(CallerError, match="since is 2026-11-01T00:00:00, without a time zone"):
            await runs.costs(since=datetime(2026, 11, 1))  # noqa: DTZ001 - the mistake
        for field in CostField:
            (whole,) = await runs.costs()
            sums = await runs.costs(by=[field])
            assert sum(each.amounts.get("USD", Decimal(0)) for each in sums) == whole.amounts["USD"]
