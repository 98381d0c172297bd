"""What a tenant may spend holds for all processes on one database, whoever of them is faster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import BudgetPeriod, BudgetWindow
from pilotage.runtime import AgentRuns, TenantBudget
from pilotage.testing import MemorySealer, ScriptedModel, says

MONTH = BudgetPeriod.MONTH


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Answer letters."""


async def test_two_processes_take_no_more_than_there_is(open_store: Callable[[], SqlAlchemyStore]) -> None:
    stores = [open_store(), open_store()]
    models = [ScriptedModel([says("Dear Ada")] * 6) for _ in stores]
    async with AsyncExitStack() as stack:
        processes: list[AgentRuns] = []
        for store, model in zip(stores, models, strict=True):
            budget = TenantBudget(store.spending, [BudgetWindow(MONTH, max_steps=7)])
            app = Application("office").add(Clerk, model, budget, MemorySealer(), *store.ports)
            await stack.enter_async_context(app.load_plugins())
            processes.append(app.get(AgentRuns))

        async def letter(runs: AgentRuns) -> str:
            result = await (await runs.start(Clerk, "answer it")).result()
            return result.interruption_reason or result.status

        ends = await asyncio.gather(*(letter(runs) for runs in processes for _ in range(6)))
    assert Counter(ends) == {"completed": 7, "agent_budget_exhausted": 5}
    assert sum(len(model.requests) for model in models) == 7
    assert [(await store.spending.spent("default", MONTH)).steps for store in stores] == [7, 7]
