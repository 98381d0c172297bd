"""Models inside models, in runs: a call of the wrapper is one action, counted and priced by who answered."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import IAgentPricing, ModelCapability, ModelCost, ModelUsage
from pilotage.agent.run_values import RunResult
from pilotage.models import FallbackModel, OfflineModel, RateLimitedModel
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FaultyJournal, MemoryStore, ProcessStopped, ScriptedModel, StopAfter, fails

DEAR, CHEAP = "dear", "cheap"
QUESTION = "read a.txt and read b.txt"


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY, limits=AgentExecutionLimits(max_cost=Decimal(10_000))
    )
)
class Reader:
    """Read what is asked for."""

    @agent_tool(effects=ToolEffects.read_only())
    def read_file(self, path: str) -> str:
        """Read a file."""
        return f"text of {path}"


class Prices(IAgentPricing):
    """A dear model costs a thousand times as much as a cheap one."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        each = {DEAR: Decimal(1), CHEAP: Decimal("0.001")}[model]
        return ModelCost(each * (usage.total_tokens or 0), "EUR", "1")


def dear_and_down() -> ScriptedModel:
    return ScriptedModel([fails("busy", retryable=True)] * 9, capability=ModelCapability(DEAR))


def cheap() -> OfflineModel:
    return OfflineModel(capability=ModelCapability(CHEAP))


async def once(store: MemoryStore, model: object, faulty: FaultyJournal | None = None) -> RunResult:
    journal, *ports = store.ports
    app = Application("reading").add(Reader, Prices, model, faulty or journal, *ports).load_plugins()
    async with app:
        runs = app.get(AgentRuns)
        begun = (await runs.list()).runs
        run = await (runs.resume(begun[0].id) if begun else runs.start(Reader, QUESTION))
        result = await run.result()
        await runs.verify(run.id)
        return result


async def test_what_a_call_costs_is_priced_by_the_model_that_answered() -> None:
    result = await once(MemoryStore(), FallbackModel([dear_and_down(), cheap()]))
    assert result.status is AgentStatus.COMPLETED
    assert result.spent.cost == Decimal("0.001") * (result.usage.total_tokens or 0)


async def test_a_run_that_was_resumed_counts_the_same_price() -> None:
    whole = await once(MemoryStore(), FallbackModel([dear_and_down(), cheap()]))
    store = MemoryStore()
    with pytest.raises(ProcessStopped):
        await once(
            store, FallbackModel([dear_and_down(), cheap()]), FaultyJournal(store.journal, StopAfter(3))
        )
    resumed = await once(store, FallbackModel([dear_and_down(), cheap()]))
    assert (resumed.output, resumed.spent) == (whole.output, whole.spent)


async def test_models_of_the_application_inside_a_wrapper_are_counted_once() -> None:
    @Pod
    def backup() -> OfflineModel:
        return cheap()

    @Pod(primary=True)
    def model(backup: OfflineModel) -> IAgentModel:
        return RateLimitedModel(FallbackModel([dear_and_down(), backup]), max_concurrent=1)

    alone = await once(MemoryStore(), cheap())
    journal, *ports = MemoryStore().ports
    app = Application("reading").add(Reader, Prices, backup, model, journal, *ports).load_plugins()
    async with app:
        result = await (await app.get(AgentRuns).start(Reader, QUESTION)).result()
    assert (result.output, result.spent) == (alone.output, alone.spent)
