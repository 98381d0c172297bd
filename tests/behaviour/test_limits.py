"""How far a run may go: steps, tool calls, tokens, money, and the budget of an application."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DURABLE,
    FAILED,
    LIMITED,
    Bureau,
    Metered,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Desk, Worker

from pilotage import Agent, AgentExecutionLimits, AgentExecutionSpec, AgentStatus, RunContext
from pilotage.agent import (
    AgentStateReason,
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    BudgetVerdict,
    IAgentBudget,
    IAgentPricing,
    ModelCost,
    ModelUsage,
    RunPausedEvent,
)
from pilotage.errors import AgentModelConfigurationError
from pilotage.runtime.budget.holds import DEFAULT_REPLY_TOKENS
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says, turn


async def three_looks(worker: Worker) -> object:
    for name in ("a", "b", "c"):
        await worker.desk.look(name)
    return "seen all"


async def three_words(worker: Worker) -> object:
    said = [(await asked(worker)).content for _ in range(3)]
    return ", ".join(said)


async def all_at_once(worker: Worker) -> object:
    return await asyncio.gather(*(worker.desk.look(name) for name in ("a", "b", "c")))


class Prices(IAgentPricing):
    """So much a token, for the models it knows."""

    def __init__(
        self, each: str = "0.01", currency: str = "EUR", models: Sequence[str] = ("metered",)
    ) -> None:
        self.each, self.currency, self.models = Decimal(each), currency, models

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        if model not in self.models:
            return None
        return ModelCost(self.each * (usage.total_tokens or 0), self.currency, "2030-01")


class BrokenPrices(IAgentPricing):
    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        raise ConnectionError("the table is not there")


@pytest.mark.parametrize(
    ("limits", "code", "steps", "looks"),
    [
        (AgentExecutionLimits(max_steps=2), "agent_max_steps_exceeded", 2, 0),
        # A call takes ten tokens; it needs room for its six and a reply of sixteen.
        (AgentExecutionLimits(max_tokens=41), "agent_max_tokens_exceeded", 2, 0),
        (AgentExecutionLimits(max_tokens=32), "agent_max_tokens_exceeded", 2, 0),
        (AgentExecutionLimits(max_tokens=21), "agent_max_tokens_exceeded", 0, 0),
        (AgentExecutionLimits(max_cost=Decimal("0.41")), "agent_max_cost_exceeded", 2, 0),
    ],
)
async def test_a_hand_written_agent_ends_at_its_limit(
    limits: AgentExecutionLimits, code: str, steps: int, looks: int
) -> None:
    bureau, agent, model = Bureau(), hired(limits=limits), Metered()
    async with bureau.process(agent, three_words, Prices(), model=model) as runs:
        result = await started(runs, agent)
        kept = await runs.result(result.state.id)
    assert triple(result.state) == LIMITED
    assert result.error is not None
    assert (result.error["code"], result.error["retryable"]) == (code, False)
    assert result.interruption_reason == code
    assert (result.spent.steps, result.spent.tool_calls) == (steps, looks)
    assert model.asked == steps
    assert (kept.error, kept.interruption_reason, kept.spent) == (result.error, code, result.spent)


@pytest.mark.parametrize(
    "limits", [AgentExecutionLimits(max_steps=3, max_tokens=42, max_cost=Decimal("0.42"))]
)
async def test_what_stays_within_its_limits_completes(limits: AgentExecutionLimits) -> None:
    bureau, agent = Bureau(), hired(limits=limits)
    async with bureau.process(agent, three_words, Prices(), model=Metered()) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == COMPLETED
    assert result.spent == BudgetAmount(steps=3, tokens=30, cost=Decimal("0.30"))
    assert result.usage == ModelUsage(18, 12, 30)


async def test_a_reply_that_takes_more_than_its_bound_is_the_last_and_its_words_count() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=22))
    model = Metered(ModelUsage(6, 94, 100))

    async def one_word(worker: Worker) -> object:
        return (await asked(worker)).content

    async with bureau.process(agent, one_word, model=model) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.output) == (COMPLETED, "word 1")


async def test_tool_calls_one_by_one_stop_at_the_bound() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tool_calls=2))
    async with bureau.process(agent, three_looks) as runs:
        result = await started(runs, agent)
    assert result.error is not None
    assert result.error["code"] == "agent_max_tool_calls_exceeded"
    assert "max_tool_calls=2 is reached: 2 tool calls were made, 1 more" in str(result.error["message"])
    assert bureau.world.done == ["look a", "look b"]


async def test_calls_side_by_side_cannot_both_take_the_last_one() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tool_calls=2))
    async with bureau.process(agent, all_at_once) as runs:
        result = await started(runs, agent)
    assert result.interruption_reason == "agent_max_tool_calls_exceeded"
    assert len(bureau.world.done) == 2


@Agent(
    spec=AgentExecutionSpec(
        name="reader", recovery=DURABLE, limits=AgentExecutionLimits(max_tool_calls=2, max_steps=4)
    )
)
class Reader:
    """Read what you are asked for."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


async def test_the_calls_of_one_reply_are_reserved_together_so_none_of_them_begins() -> None:
    bureau = Bureau()
    three = turn(says("Let me see."), *(calls("look", what=name) for name in ("a", "b", "c")))
    async with bureau.process(Reader, model=ScriptedModel([three, says("never")])) as runs:
        result = await started(runs, Reader)
    assert triple(result.state) == LIMITED
    assert result.interruption_reason == "agent_max_tool_calls_exceeded"
    assert bureau.world.done == []


async def test_a_declarative_agent_stops_at_its_steps_with_what_it_has() -> None:
    bureau = Bureau()

    @Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE, limits=AgentExecutionLimits(max_steps=2)))
    class Talker:
        """Talk."""

        def __init__(self, desk: Desk) -> None:
            self.desk = desk

    script = [turn(says(f"thought {n}"), calls("look", what=str(n))) for n in range(5)]
    async with bureau.process(Talker, model=ScriptedModel(script)) as runs:
        handle = await runs.start(Talker, "think")
        events = [event async for event in handle.events()]
        result = await handle.result()
        kept = await runs.result(handle.id)
    assert triple(result.state) == LIMITED
    assert (result.interruption_reason, result.output, result.turns) == (
        "agent_max_steps_exceeded",
        "thought 1",
        2,
    )
    assert (kept.interruption_reason, kept.output, kept.turns) == ("agent_max_steps_exceeded", "thought 1", 2)
    (end,) = [event for event in events if isinstance(event, RunPausedEvent)]
    assert end is events[-1]
    assert end.reason is AgentStateReason.LIMIT_REACHED
    assert (end.metadata["code"], end.metadata["output"]) == ("agent_max_steps_exceeded", "thought 1")


@pytest.mark.parametrize(
    ("usage", "limits", "prices", "code", "way_out"),
    [
        (
            ModelUsage(),
            AgentExecutionLimits(max_tokens=99),
            Prices(),
            "agent_usage_unavailable",
            "reports its usage",
        ),
        (
            ModelUsage(),
            AgentExecutionLimits(max_cost=Decimal(9)),
            Prices(),
            "agent_usage_unavailable",
            "reports",
        ),
        (
            ModelUsage(1, 1, 2),
            AgentExecutionLimits(max_cost=Decimal(9)),
            Prices(models=()),
            "agent_cost_unavailable",
            "IAgentPricing",
        ),
        (
            ModelUsage(1, 1, 2),
            AgentExecutionLimits(max_cost=Decimal(9)),
            BrokenPrices(),
            "agent_cost_unavailable",
            "IAgentPricing",
        ),
    ],
)
async def test_a_bound_that_nobody_can_count_against_ends_the_run(
    usage: ModelUsage, limits: AgentExecutionLimits, prices: IAgentPricing, code: str, way_out: str
) -> None:
    bureau, agent, model = Bureau(), hired(limits=limits), Metered(usage)
    async with bureau.process(agent, three_words, prices, model=model) as runs:
        result = await started(runs, agent)
        again = await runs.result(result.state.id)
    assert triple(result.state) == FAILED
    assert result.error is not None
    assert result.error["code"] == code
    assert way_out in str(result.error["message"])
    assert model.asked == (1 if code == "agent_usage_unavailable" else 0)
    assert again.error == result.error


async def test_a_price_list_that_fails_does_no_harm_where_nothing_is_bounded() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, three_words, BrokenPrices(), model=Metered()) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.spent.cost) == (COMPLETED, Decimal(0))


async def test_money_is_counted_exactly() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_cost=Decimal("0.51")))
    prices = Prices("0.01")

    async def thirty(worker: Worker) -> object:
        for _ in range(30):
            await asked(worker)
        return "done"

    async with bureau.process(agent, thirty, prices, model=Metered(ModelUsage(1, 0, 1))) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.spent.cost) == (COMPLETED, Decimal("0.30"))


async def test_an_agent_with_a_bound_on_money_needs_prices_at_start_up() -> None:
    agent = hired("dear", limits=AgentExecutionLimits(max_cost=Decimal("0.50")))
    with pytest.raises(AgentModelConfigurationError) as caught:
        async with Bureau().process(agent, three_words):
            pass
    assert str(caught.value) == (
        "1 problem in application 'bureau':\n"
        "  1. Hired: max_cost=0.50 cannot be kept: nothing provides IAgentPricing, which knows what tokens cost.\n"
        "     Bind one: app.bind(IAgentPricing, ...), or leave max_cost out of the limits."
    )


FAULTS = [StopBefore(2), StopAfter(2), StopBefore(3), StopAfter(3), StopBefore(4)]


async def mixed(worker: Worker) -> object:
    """Two steps and three tool calls, with commits in between."""
    await asked(worker)
    await worker.desk.note("one")
    await worker.desk.look("two")
    await asked(worker)
    await worker.desk.note("three")
    return "done"


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_crash_neither_resets_what_was_counted_nor_counts_it_twice(fault: Fault) -> None:
    limits = AgentExecutionLimits(max_steps=2, max_tool_calls=3, max_tokens=100_000)
    bureau, agent, first, second = Bureau(), hired(limits=limits), Metered(), Metered()
    run_id = await bureau.dead_process(agent, mixed, fault=fault, model=first)
    bureau.clock.advance(60)
    async with bureau.process(agent, mixed, model=second) as runs:
        result = await resumed(runs, run_id)
    assert triple(result.state) == COMPLETED, result.error
    # A call that was held and has no reply counts as the most it may have taken, also if it was never made.
    lost = first.asked + second.asked - 2
    most = 6 + DEFAULT_REPLY_TOKENS
    assert (result.spent.steps, result.spent.tool_calls) == (2, 3)
    assert result.spent.tokens in {20 + lost * most, 20 + max(lost, 1) * most}


@pytest.mark.parametrize("fault", [*FAULTS[:3], StopAfter(3)], ids=str)
async def test_a_crash_does_not_let_a_run_beyond_its_bound(fault: Fault) -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tool_calls=2))
    run_id = await bureau.dead_process(agent, mixed, fault=fault, model=Metered())
    bureau.clock.advance(60)
    async with bureau.process(agent, mixed, model=Metered()) as runs:
        states = await runs.list(statuses=[AgentStatus.ACTIVE])
        result = await resumed(runs, run_id) if states.runs else await runs.result(run_id)
    assert result.interruption_reason == "agent_max_tool_calls_exceeded"
    assert result.spent.tool_calls == 2
    assert "note three" not in bureau.world.done


async def test_a_limit_cannot_be_swallowed_by_the_agent() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_steps=1))

    async def stubborn(worker: Worker) -> object:
        while True:
            with suppress(Exception):
                await asked(worker)

    async with bureau.process(agent, stubborn, model=(model := Metered())) as runs:
        result = await started(runs, agent)
    assert (result.interruption_reason, model.asked) == ("agent_max_steps_exceeded", 1)


async def test_a_failed_model_call_has_taken_its_step() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_steps=1))

    async def tries(worker: Worker) -> object:
        try:
            await asked(worker)
        except Exception as error:  # noqa: BLE001 - it is told
            await worker.desk.note(type(error).__name__)
        return (await asked(worker)).content

    async with bureau.process(agent, tries, model=ScriptedModel([])) as runs:
        result = await started(runs, agent)
    assert result.interruption_reason == "agent_max_steps_exceeded"
    assert bureau.world.done == ["note ModelCallError"]


class Purse(IAgentBudget):
    """An application's own budget of steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.open: dict[str, BudgetAmount] = {}
        self.settled: list[BudgetAmount] = []

    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        if self.steps < need.steps:
            return BudgetExhausted("steps of this month", "the month's steps are used up")
        self.steps -= need.steps
        reservation = BudgetReservation(
            f"reservation {self.steps} {need.tool_calls} {len(self.settled)}", need
        )
        self.open[reservation.id] = need
        return BudgetGranted(reservation)

    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        if self.open.pop(reservation.id, None) is not None:
            self.settled.append(used)


class BrokenPurse(Purse):
    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        raise ConnectionError("the bank does not answer")


class DeafPurse(Purse):
    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        raise ConnectionError("the bank does not answer")


async def test_the_budget_of_an_application_ends_a_run() -> None:
    bureau, agent, purse, model = Bureau(), hired(), Purse(2), Metered()
    async with bureau.process(agent, three_words, purse, model=model) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == LIMITED
    assert result.error is not None
    assert (result.error["code"], result.error["message"]) == (
        "agent_budget_exhausted",
        "the month's steps are used up",
    )
    assert model.asked == 2


async def test_a_budget_is_told_what_was_really_used() -> None:
    bureau, agent, purse = Bureau(), hired(), Purse(9)
    async with bureau.process(agent, three_words, purse, Prices(), model=Metered()) as runs:
        await started(runs, agent)
    assert purse.settled == [BudgetAmount(steps=1, tokens=10, cost=Decimal("0.10"))] * 3
    assert purse.open == {}


async def test_a_budget_hears_of_usage_that_is_told_in_parts() -> None:
    bureau, agent, purse = Bureau(), hired(), Purse(9)
    async with bureau.process(agent, three_words, purse, model=Metered(ModelUsage(6, 4))) as runs:
        await started(runs, agent)
    assert [used.tokens for used in purse.settled] == [10, 10, 10]


async def test_what_was_set_aside_for_a_call_that_failed_is_given_back() -> None:
    bureau, agent, purse = Bureau(), hired(), Purse(9)

    async def fails(worker: Worker) -> object:
        try:
            return (await asked(worker)).content
        except Exception as error:  # noqa: BLE001 - it is told
            return type(error).__name__

    async with bureau.process(agent, fails, purse, model=ScriptedModel([])) as runs:
        assert (await started(runs, agent)).output == "ModelCallError"
    assert purse.open == {}
    assert purse.settled == [BudgetAmount(steps=1)]


async def test_a_budget_that_cannot_say_denies() -> None:
    bureau, agent, model = Bureau(), hired(), Metered()
    async with bureau.process(agent, three_words, BrokenPurse(9), model=model) as runs:
        result = await started(runs, agent)
    assert result.error is not None
    assert result.error["code"] == "agent_budget_exhausted"
    assert "the budget check failed (ConnectionError)" in str(result.error["message"])
    assert model.asked == 0


async def test_a_budget_that_does_not_listen_harms_nobody() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, three_words, DeafPurse(9), model=Metered()) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == COMPLETED


async def test_replay_asks_no_budget() -> None:
    bureau, agent, purse = Bureau(), hired(), Purse(9)

    async def gated(worker: Worker) -> object:
        await asked(worker)
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(agent, gated, purse, model=Metered()) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
    assert result.output == 1
    assert [used.steps for used in purse.settled].count(1) == 1
