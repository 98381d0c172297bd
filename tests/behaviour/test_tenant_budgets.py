"""Budgets of tenants: for all runs and processes together, counted once, with a warning before the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, Metered, asked, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.behaviour.test_handlers import MODEL, AsksAt

from pilotage import Agent, AgentEvent, AgentExecutionLimits, AgentExecutionSpec, Principal, run
from pilotage.agent import (
    AgentApprovalRequest,
    AgentTeammate,
    ArtifactEvent,
    BudgetAmount,
    BudgetPeriod,
    BudgetWindow,
    HookVerdict,
    IAgentHooks,
    ModelUsage,
    Veto,
)
from pilotage.agent.principal import RunContext
from pilotage.runtime import TenantBudget
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

DAY, MONTH = BudgetPeriod.DAY, BudgetPeriod.MONTH
TENANT = "default"


async def three_words_and_a_note(worker: Worker) -> object:
    said = [(await asked(worker)).content for _ in range(3)]
    return await worker.desk.note(" ".join(said))


def budget(bureau: Bureau, **bounds: int) -> TenantBudget:
    return TenantBudget(bureau.store.spending, [BudgetWindow(MONTH, **bounds)])


async def test_all_runs_of_a_tenant_spend_from_one_budget() -> None:
    bureau, agent, model = Bureau(), hired(), Metered()
    async with bureau.process(
        agent, three_words_and_a_note, budget(bureau, max_steps=5), model=model
    ) as runs:
        first = await started(runs, agent)
        second = await started(runs, agent)
        assert (triple(first.state), second.interruption_reason) == (COMPLETED, "agent_budget_exhausted")
        assert second.error is not None
        assert "may spend max_steps=5 in this month, and 5 are spent or held" in str(second.error["message"])
        foreign = await (
            await runs.start(agent, "A-17", principal=Principal("ada", tenant="globex"))
        ).result()
        assert triple(foreign.state) == COMPLETED
    assert model.asked == 8
    spent = await bureau.store.spending.spent(TENANT, MONTH)
    assert spent == BudgetAmount(steps=5, tool_calls=1, tokens=50)


async def test_a_tenant_may_have_windows_of_its_own() -> None:
    bureau, agent = Bureau(), hired()
    purse = TenantBudget(
        bureau.store.spending,
        [BudgetWindow(DAY, max_steps=1)],
        tenants={"default": [BudgetWindow(DAY, max_steps=9)], "vip": ()},
    )
    async with bureau.process(agent, three_words_and_a_note, purse, model=Metered()) as runs:
        assert triple((await started(runs, agent)).state) == COMPLETED
        for tenant, reason in (("vip", None), ("other", "agent_budget_exhausted")):
            principal = Principal("ada", tenant=tenant)
            result = await (await runs.start(agent, "A-17", principal=principal)).result()
            assert result.interruption_reason == reason
    assert (await bureau.store.spending.spent("vip", DAY)).steps == 3


async def test_calls_side_by_side_do_not_take_the_same_tokens() -> None:
    class Slow(Metered):
        under_way = widest = 0

        async def stream(self, request):  # type: ignore[no-untyped-def]
            self.under_way += 1
            self.widest = max(self.widest, self.under_way)
            await asyncio.sleep(0)
            said = [event async for event in super().stream(request)]
            self.under_way -= 1
            for event in said:
                yield event

    async def both(worker: Worker) -> object:
        return len(await asyncio.gather(asked(worker, "x" * 400), asked(worker, "y" * 400)))

    bureau, agent, model = Bureau(), hired(), Slow()
    async with bureau.process(agent, both, budget(bureau, max_tokens=100), model=model) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), model.asked, model.widest) == (COMPLETED, 2, 1)


async def test_what_waits_for_a_person_holds_nothing() -> None:
    bureau, agent = Bureau(), hired()
    purse = budget(bureau, max_steps=1)

    async def one_word(worker: Worker) -> object:
        return (await asked(worker)).content

    async with bureau.process(agent, one_word, purse, AsksAt(MODEL), model=Metered()) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        assert bureau.store.tables.spending.holds == {}
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        await runs.approve(question.id)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
    assert (await bureau.store.spending.spent(TENANT, MONTH)).steps == 1


class Refusing(IAgentHooks):
    async def pre_model(self, context: RunContext, request: object) -> HookVerdict:
        return Veto("not today")


async def test_what_a_hook_refuses_is_given_back() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(
        agent, three_words_and_a_note, budget(bureau, max_steps=9), Refusing(), model=Metered()
    ) as runs:
        assert (await started(runs, agent)).error is not None
    assert bureau.store.tables.spending.holds == {}
    assert await bureau.store.spending.spent(TENANT, MONTH) == BudgetAmount()


@Agent(spec=AgentExecutionSpec(name="helper"))
class Helper:
    """Help."""


async def test_runs_that_nobody_keeps_are_counted_too() -> None:
    store = MemoryStore()
    purse = TenantBudget(store.spending, [BudgetWindow(MONTH, max_steps=1)])
    result = await run(Helper, "help", model=ScriptedModel([says("Sure.")]), add=[purse])
    assert result.output == "Sure."
    second = await run(Helper, "help", model=ScriptedModel([says("Sure.")]), add=[purse])
    assert second.interruption_reason == "agent_budget_exhausted"
    assert store.tables.spending.holds == {}
    assert (await store.spending.spent(TENANT, MONTH)).steps == 1


@Agent(
    spec=AgentExecutionSpec(name="boss", delegation_allowed=True, teammates=[AgentTeammate("helper", Helper)])
)
class Boss:
    """Let others work."""


async def test_what_a_child_spends_is_counted_once() -> None:
    store = MemoryStore()
    purse = TenantBudget(store.spending, [BudgetWindow(MONTH, max_steps=10)])
    model = ScriptedModel([calls("ask_helper", task="help"), says("Sure."), says("Done.")])
    result = await run(Boss, "help", model=model, add=[purse, Helper])
    assert result.output == "Done."
    assert (await store.spending.spent(TENANT, MONTH)).steps == 3


def warnings(events: Sequence[AgentEvent]) -> list[object]:
    return [e.content for e in events if isinstance(e, ArtifactEvent) and e.name == "budget_warning"]


async def test_whoever_reads_a_run_is_warned_once_before_the_end() -> None:
    bureau = Bureau()
    agent = hired(limits=AgentExecutionLimits(max_tokens=70, max_tool_calls=1))
    async with bureau.process(
        agent, three_words_and_a_note, budget(bureau, max_steps=3), model=Metered(ModelUsage(6, 14, 20))
    ) as runs:
        handle = await runs.start(agent, "A-17")
        events = [event async for event in handle.events()]
        assert triple((await handle.result()).state) == COMPLETED
        again = [event async for event in runs.events(handle.id)]
    assert warnings(events) == [
        "tenant 'default' has used 80 % or more of max_steps=3 of this month",
        "the run has used 80 % or more of max_tool_calls=1",
        "the run has used 80 % or more of max_tokens=70",
    ]
    assert warnings(again) == warnings(events)


async def test_a_run_that_comes_back_is_not_warned_of_the_same_again() -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_steps=4))
    purse = budget(bureau, max_steps=5)

    async def asks_then_speaks(worker: Worker) -> object:
        await three_words_and_a_note(worker)
        await worker.desk.note((await asked(worker)).content)
        await worker.desk.refund(Decimal(1))
        return "done"

    async with bureau.process(agent, asks_then_speaks, purse, model=Metered(ModelUsage(1, 1, 2))) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        handle = await runs.resume(waiting.state.id)
        await handle.result()
        told = [event async for event in runs.events(waiting.state.id)]
    assert warnings(told) == [
        "the run has used 80 % or more of max_steps=4",
        "tenant 'default' has used 80 % or more of max_steps=5 of this month",
    ]
