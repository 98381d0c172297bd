"""Who must be asked and does not answer in time counts as the strictest answer; who only watches is left behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.behaviour.bureau import COMPLETED, FAILED, LIMITED, Bureau, Metered, asked, hired, started, triple
from tests.behaviour.office import Worker

from pilotage import ModelRequest, ModelResponse, RunContext
from pilotage.agent import (
    AgentState,
    BudgetAmount,
    BudgetReservation,
    BudgetVerdict,
    HookVerdict,
    IAgentBudget,
    IAgentHooks,
    IAgentPermissions,
    ModelToolCall,
    PermissionDecision,
    PermissionRequest,
    Proceed,
)
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import GateSettings

IMPATIENT = GateSettings(patience_seconds=0.01)


async def for_ever() -> None:
    await asyncio.Event().wait()


class Sleepy(IAgentHooks):
    """Falls asleep at one point, and says nothing against anything else."""

    def __init__(self, at: str) -> None:
        self.at = at

    async def _pass(self, point: str) -> HookVerdict:
        if point == self.at:
            await for_ever()
        return Proceed()

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        return await self._pass("pre_run")

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        await self._pass("post_run")

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return await self._pass("pre_model")

    async def post_model(self, context: RunContext, response: ModelResponse) -> None:
        await self._pass("post_model")

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return await self._pass("pre_tool")

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        await self._pass("post_tool")


class SleepyPolicy(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        await for_ever()
        raise AssertionError


class SleepyBudget(IAgentBudget):
    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        await for_ever()
        raise AssertionError

    async def consume(
        self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount
    ) -> None: ...


async def speaks_and_notes(worker: Worker) -> object:
    return await worker.desk.note((await asked(worker)).content)


@pytest.mark.parametrize(
    "sleepy",
    [Sleepy("pre_run"), Sleepy("pre_model"), Sleepy("pre_tool"), SleepyPolicy(), SleepyBudget()],
    ids=["pre_run", "pre_model", "pre_tool", "permissions", "budget"],
)
async def test_who_does_not_answer_in_time_denies(sleepy: object) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, speaks_and_notes, sleepy, IMPATIENT, model=Metered()) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == (LIMITED if isinstance(sleepy, SleepyBudget) else FAILED)
    assert "TimeoutError" in str(result.error)
    assert bureau.world.done == []


@pytest.mark.parametrize("point", ["post_run", "post_model", "post_tool"])
async def test_who_only_watches_is_left_behind(point: str) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, speaks_and_notes, Sleepy(point), IMPATIENT, model=Metered()) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["note word 1"])


def test_patience_is_positive() -> None:
    with pytest.raises(AgentDefinitionError, match="patience_seconds"):
        GateSettings(0)
