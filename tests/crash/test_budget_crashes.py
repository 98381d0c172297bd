"""Budgets of tenants, crashed at every write: what is counted is what the journal says was done, no more, no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import (
    AgentStatus,
    BudgetAmount,
    BudgetPeriod,
    BudgetWindow,
    IAgentBudget,
    ToolApprovalRequirement,
)
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime import TenantBudget
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says
from pilotage.testing.crash_matrix import StorePorts
from tests.adapters.sqlalchemy.databases import empty, opened, sqlite_settings

MONTH = BudgetPeriod.MONTH
_stores: list[MemoryStore | SqlAlchemyStore] = []


@Pod
def budget() -> IAgentBudget:
    """The budget of a process: it counts in the store of the world that is tried out."""
    return TenantBudget(_stores[-1].spending, [BudgetWindow(MONTH, max_steps=1000)])


@Pod
class Shop:
    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, thing: str) -> int:
        """What something costs."""
        return 7

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def buy(self, thing: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Buy something."""
        return f"bought {thing}"

    @agent_tool(effects=ToolEffects.external_side_effect())
    async def give(self, thing: str) -> str:
        """Give something away."""
        return f"gave {thing}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Shopper:
    """Buy things."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop


def script() -> ScriptedModel:
    return ScriptedModel(
        [
            calls("price", thing="tea"),
            calls("buy", thing="tea"),
            calls("give", thing="tea"),
            says("Done."),
        ]
    )


def spent_by(rows: Sequence[JournalRow]) -> tuple[int, int]:
    """The model calls that have an outcome and the tool calls that were begun, by the rows."""
    kinds = {(row.action_id, row.kind) for row in rows}
    models = [each for each, kind in kinds if kind is AgentActionKind.MODEL_CALL]
    tools = [each for each, kind in kinds if kind is AgentActionKind.TOOL_CALL]
    return len(models), len(tools)


async def assert_counted_once(store: MemoryStore) -> None:
    ended = [state for status in AgentStatus for state in await store.states.list_by_status(status)]
    rows = [row for state in ended async for row in store.journal.read(RunKey("default", state.id))]
    spent = await store.spending.spent("default", MONTH)
    assert (spent.steps, spent.tool_calls) == spent_by(rows) == (4, 3)


@pytest.mark.slow
async def test_in_memory_what_is_counted_is_what_was_done() -> None:
    _stores.clear()

    def make() -> StorePorts:
        _stores.append(store := MemoryStore())
        return store

    report = await crash_matrix(Shopper, "shop", model=script(), add=[Shop, budget], store=make)
    report.assert_same_result()
    assert report.points > 100
    for store in _stores:
        assert isinstance(store, MemoryStore)
        await assert_counted_once(store)


@pytest.fixture
def one_database(tmp_path: Path) -> Iterator[Callable[[], SqlAlchemyStore]]:
    with ExitStack() as stack:
        store = stack.enter_context(opened(sqlite_settings(tmp_path)))
        yield lambda: store


@pytest.mark.slow
async def test_in_a_database_what_is_counted_is_what_was_done(
    one_database: Callable[[], SqlAlchemyStore], second_stops: tuple[int, ...]
) -> None:
    """One file for all crash points: it is emptied for each, and looked at before."""
    _stores.clear()
    counted: list[BudgetAmount] = []
    store = one_database()

    def make() -> StorePorts:
        if _stores:
            with store.database.engines.reading.connect() as connection:
                found = connection.execute(text("SELECT sum(steps), sum(tool_calls) FROM pilotage_spending"))
                counted.append(BudgetAmount(*found.one()))
        empty(store)
        _stores.append(store)
        return store

    report = await crash_matrix(
        Shopper, "shop", model=script(), add=[Shop, budget], store=make, second_stops=second_stops
    )
    report.assert_same_result()
    assert len(counted) == report.points
    assert set(counted) == {BudgetAmount(4, 3)}
