"""`sleep()` and `timeout()` of the runtime: recorded timers, which go on while a run is paused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.behaviour.bureau import Bureau, hired, resumed, started
from tests.behaviour.office import Worker

from pilotage import AgentStatus, ApprovalDecision
from pilotage.errors import AgentDefinitionError
from pilotage.runtime import sleep, timeout

AGENT = hired()


async def sleeps(worker: Worker) -> object:
    await worker.desk.pay(Decimal(5))
    await sleep(3600)
    await worker.desk.note("awake")
    return "slept"


async def test_a_long_sleep_pauses_the_run_until_its_time_and_goes_on_behind_it() -> None:
    bureau = Bureau()
    began = bureau.clock.now()
    async with bureau.process(AGENT, sleeps) as runs:
        paused = await started(runs, AGENT)
        assert paused.status is AgentStatus.INTERRUPTED
        assert paused.state.wake_at == began + timedelta(hours=1)
    bureau.clock.advance(1800)
    async with bureau.process(AGENT, sleeps) as runs:
        early = await resumed(runs, paused.state.id)
        assert early.state.wake_at == began + timedelta(hours=1)
    bureau.clock.advance(1801)
    async with bureau.process(AGENT, sleeps) as runs:
        result = await resumed(runs, paused.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "slept")
    assert bureau.world.done == ["pay 5", "note awake"]


async def impatient(worker: Worker) -> object:
    try:
        async with timeout(60):
            await worker.desk.refund(Decimal(1))
            return "refunded"
    except TimeoutError:
        await worker.desk.note("gave up")
        return "gave up"


async def test_a_time_limit_around_an_approval_goes_on_while_the_run_waits() -> None:
    bureau = Bureau()
    began = bureau.clock.now()
    async with bureau.process(AGENT, impatient) as runs:
        paused = await started(runs, AGENT)
        assert paused.state.wake_at == began + timedelta(seconds=60)
        assert len(await runs.questions(paused.state.id)) == 1
    bureau.clock.advance(61)
    async with bureau.process(AGENT, impatient) as runs:
        result = await resumed(runs, paused.state.id)
        assert not await runs.questions(paused.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "gave up")
    assert bureau.world.done == ["note gave up"]


async def test_an_answer_in_time_is_in_time() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, impatient) as runs:
        paused = await started(runs, AGENT)
        (question,) = await runs.questions(paused.state.id)
        await runs.answer(paused.state.id, question.id, ApprovalDecision.APPROVE, resume=False)
    bureau.clock.advance(30)
    async with bureau.process(AGENT, impatient) as runs:
        result = await resumed(runs, paused.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "refunded")
    assert bureau.world.done == ["refund 1"]


async def pays_in_time(worker: Worker) -> object:
    async with timeout(60):
        paid = await worker.desk.pay(Decimal(5))
    await worker.desk.refund(Decimal(1))
    return paid.number


async def test_a_time_limit_that_is_not_reached_is_replayed_so() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, pays_in_time) as runs:
        paused = await started(runs, AGENT)
        (question,) = await runs.questions(paused.state.id)
        await runs.answer(paused.state.id, question.id, ApprovalDecision.APPROVE, resume=False)
    bureau.clock.advance(600)
    async with bureau.process(AGENT, pays_in_time) as runs:
        result = await resumed(runs, paused.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 1)
    assert bureau.world.done == ["pay 5", "refund 1"]


async def test_outside_a_run_they_are_plain_timers() -> None:
    await sleep(0)
    with pytest.raises(TimeoutError):
        async with timeout(0):
            await asyncio.Event().wait()


async def test_a_timer_is_not_negative() -> None:
    with pytest.raises(AgentDefinitionError, match="seconds"):
        timeout(-1)
