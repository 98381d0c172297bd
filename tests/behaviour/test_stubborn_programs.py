"""Programs that swallow what ends them: their runs pause and end all the same, in finite time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal

import pytest
from tests.behaviour.office import Office, Worker, answer, start

from pilotage import AgentStatus, ApprovalDecision


async def tries_again(worker: Worker) -> object:
    """Swallow cancellations around a call, as loops that must not stop do."""
    while True:
        try:
            return (await worker.desk.refund(Decimal(1))).number
        except asyncio.CancelledError:
            continue


async def helper_that_does_not_stop(worker: Worker) -> object:
    """Leave a task that makes no calls and swallows its first cancellation."""

    async def helper() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    task = asyncio.create_task(helper())
    number = (await worker.desk.refund(Decimal(1))).number
    task.cancel()
    await task
    return number


async def caller_that_does_not_stop(worker: Worker) -> object:
    """Swallow cancellations in a task that makes calls beside one that waits for a person."""

    async def look_for_ever() -> None:
        for number in range(1000):
            with suppress(asyncio.CancelledError):
                await worker.desk.look(str(number))
                await asyncio.sleep(3600)

    task = asyncio.create_task(look_for_ever())
    number = (await worker.desk.refund(Decimal(1))).number
    task.cancel()
    await asyncio.wait([task], timeout=0.01)
    return number


@pytest.mark.parametrize("program", [tries_again, helper_that_does_not_stop, caller_that_does_not_stop])
async def test_a_program_that_swallows_cancellations_pauses_and_completes(program: object) -> None:
    office = Office()
    async with asyncio.timeout(120):
        async with office.process(program) as runs:  # type: ignore[arg-type]
            paused = await start(runs)
        assert paused.status is AgentStatus.INTERRUPTED
        async with office.process(program) as runs:  # type: ignore[arg-type]
            result = await answer(runs, paused.state.id, ApprovalDecision.APPROVE)
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done.count("refund 1") == 1


async def test_a_call_that_is_tried_again_behind_the_end_of_its_attempt_does_nothing() -> None:
    ends: list[str] = []

    async def stubborn(worker: Worker) -> object:
        for _ in range(50):
            try:
                await worker.desk.refund(Decimal(1))
            except BaseException as end:  # noqa: BLE001 - what stubborn programs do
                ends.append(type(end).__name__)
        return await worker.desk.pay(Decimal(1))

    office = Office()
    async with asyncio.timeout(120), office.process(stubborn) as runs:
        paused = await start(runs)
    assert paused.status is AgentStatus.INTERRUPTED
    assert ends == ["Paused"] * 50
    assert office.world.done == []
