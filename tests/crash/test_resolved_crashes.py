"""A process may die at every commit of a decision about a diverged run, and of the attempt behind it.

The decision is one commit, so it is there as a whole or not at all; after a crash it is made again where it is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal

import pytest

from pilotage import AgentStatus, ApprovalDecision
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.errors import CallerError
from pilotage.runtime import ActionDone, ForkBefore, RunResolution, SkipAction
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.journal.resolution import resolution_in
from pilotage.testing import Fault, ProcessStopped
from pilotage.testing.faults import FAULTS
from tests.behaviour.office import Office, Worker, answer, resume, start

Program = Callable[[Worker], Awaitable[object]]
ANN = Principal("ann")


async def earlier(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(1))
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def without_payment(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def other_amount(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(2))
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


STORIES = [
    pytest.param(without_payment, SkipAction("run/tool:pay#1"), id="skip"),
    pytest.param(other_amount, ActionDone("run/tool:pay#1", {"number": 7, "amount": "2"}), id="done"),
]


async def diverged(office: Office, later: Program) -> str:
    async with office.process(earlier) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(later) as runs:
        assert (await resume(runs, run_id)).state.reason is AgentStateReason.DIVERGED
    return run_id


async def tried(office: Office, later: Program, run_id: str, resolution: RunResolution, fault: Fault) -> None:
    """Decide and resume in a process that dies, or whose store fails, at one of its commits."""
    with suppress(ProcessStopped, CallerError, RunInterruption, OSError, BaseExceptionGroup):
        async with office.process(later, fault=fault) as runs:
            await runs.resolve(run_id, resolution, reason="why", resume=False, principal=ANN)
            await asyncio.wait_for(resume(runs, run_id), 5)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize(("later", "resolution"), STORIES)
async def test_a_decision_is_there_once_wherever_the_process_dies(
    later: Program, resolution: RunResolution, at: int, kind: Callable[[int], Fault]
) -> None:
    office = Office()
    run_id = await diverged(office, later)
    await tried(office, later, run_id, resolution, kind(at))
    async with office.process(later) as runs:
        assert await runs.verify(run_id)
        if (await runs.get(run_id)).reason is AgentStateReason.DIVERGED:
            await runs.resolve(run_id, resolution, reason="why", resume=False, principal=ANN)
        await resume(runs, run_id)
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
        assert await runs.verify(run_id) == len(await office.rows(run_id))
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done == ["look price", "pay 1", "note paid", "refund 1"]
    decisions = [row for row in await office.rows(run_id) if resolution_in(row) is not None]
    assert len(decisions) == 1


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("at", range(1, 4))
async def test_a_fork_that_was_named_and_not_begun_is_completed(
    at: int, kind: Callable[[int], Fault]
) -> None:
    office = Office()
    run_id = await diverged(office, other_amount)
    before = next(row.seq for row in await office.rows(run_id) if row.action_id == "run/tool:pay#1")
    resolution = ForkBefore(before)
    with suppress(ProcessStopped, CallerError, RunInterruption, OSError, BaseExceptionGroup):
        async with office.process(other_amount, fault=kind(at)) as runs:
            await runs.resolve(run_id, resolution, reason="why", principal=ANN)
    named = [found for row in await office.rows(run_id) if (found := resolution_in(row)) is not None]
    async with office.process(other_amount) as runs:
        forks = [each for each in (await runs.list()).runs if each.id != run_id]
        fork = forks[0] if forks else await again(office, run_id, resolution)
        assert [fork.id] == [str(each["fork"]) for each in named] or not named
        assert await runs.verify(run_id)
        assert (await resume(runs, fork.id)).state.reason is AgentStateReason.APPROVAL_REQUIRED
        assert len((await runs.list()).runs) == 2
    rows = await office.rows(run_id)
    assert len([row for row in rows if resolution_in(row) is not None]) == 1


async def again(office: Office, run_id: str, resolution: RunResolution) -> AgentState:
    async with office.process(other_amount) as runs:
        return await runs.resolve(run_id, resolution, reason="why", principal=ANN)
