"""A program that swallows what ended its run does not come through: `gather(return_exceptions=True)` does it unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from decimal import Decimal

import pytest
from tests.behaviour.bureau import Bureau, hired, started
from tests.behaviour.office import Office, Worker, answer, resume, start

from pilotage import AgentExecutionLimits, AgentStatus, ApprovalDecision
from pilotage.agent import AgentStateReason


async def swallowed(*deeds: Awaitable[object]) -> object:
    await asyncio.gather(*deeds, return_exceptions=True)
    return "as if nothing had been"


async def test_a_limit_that_is_swallowed_ends_the_run() -> None:
    async def program(worker: Worker) -> object:
        return await swallowed(*(worker.desk.look(name) for name in ("a", "b", "c")))

    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tool_calls=2))
    async with bureau.process(agent, program) as runs:
        result = await started(runs, agent)
    assert result.status is AgentStatus.INTERRUPTED
    assert (result.error or {})["code"] == "agent_max_tool_calls_exceeded"


async def test_a_rejection_that_is_swallowed_ends_the_run() -> None:
    async def program(worker: Worker) -> object:
        return await swallowed(worker.desk.refund(Decimal(1)))

    office = Office()
    async with office.process(program) as runs:
        paused = await start(runs)
        assert paused.status is AgentStatus.INTERRUPTED
        result = await answer(runs, paused.state.id, ApprovalDecision.REJECT)
    assert (result.status, result.state.reason) == (AgentStatus.FAILED, AgentStateReason.APPROVAL_REJECTED)


@pytest.mark.parametrize("other", [2, 3])
async def test_a_divergence_that_is_swallowed_is_not_silent(other: int) -> None:
    async def program(worker: Worker) -> object:
        return await swallowed(worker.desk.refund(Decimal(1)))

    async def changed(worker: Worker) -> object:
        return await swallowed(worker.desk.refund(Decimal(other)))

    office = Office()
    async with office.process(program) as runs:
        paused = await start(runs)
    async with office.process(changed) as runs:
        result = await resume(runs, paused.state.id)
    assert (result.status, result.state.reason) == (
        AgentStatus.INTERRUPTED,
        AgentStateReason.DIVERGED,
    )
