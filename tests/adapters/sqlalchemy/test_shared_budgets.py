"""What a tenant may spend holds for all processes on one database, whoever of them is faster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from threading import Barrier

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.sqlalchemy.entry_counts import all_counts, count_all
from pilotage.adapters.sqlalchemy.limits import settle_together
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes
from pilotage.agent import BudgetAmount, BudgetPeriod, BudgetReservation, BudgetSettlement, BudgetWindow
from pilotage.runtime import AgentRuns, TenantBudget
from pilotage.testing import MemorySealer, ScriptedModel, says
from tests.adapters.sqlalchemy.databases import opened

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


def test_two_commits_that_settle_for_new_tenants_do_not_wait_for_each_other(
    postgresql_database: DatabaseSettings,
) -> None:
    codes = RowCodes([b"k" * 32])
    with opened(postgresql_database) as store, ThreadPoolExecutor(2) as processes:
        with store.database.engines.writing.begin() as connection:
            count_all(codes, connection)
        for number in range(10):
            together = Barrier(2)
            settling = [
                processes.submit(settle, store, codes, together, [f"{name}-{number}" for name in names])
                for names in (("ada", "bob"), ("bob",))
            ]
            for each in settling:
                each.result()
        with store.database.engines.reading.connect() as connection:
            counted = [each for each in all_counts(codes, connection) if each.entries == "spending"]
    assert [each.changes for each in counted if each.scope] == [1] * 20


def settle(store: SqlAlchemyStore, codes: RowCodes, together: Barrier, tenants: Sequence[str]) -> None:
    """Settle the spending of tenants in one transaction, at the same moment as another process."""
    one = BudgetAmount(steps=1)
    settled = [(tenant, BudgetSettlement(BudgetReservation(tenant, one), one)) for tenant in tenants]
    with store.database.engines.writing.begin() as connection:
        together.wait()
        settle_together(codes, connection, settled)
