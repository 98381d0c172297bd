"""Calls side by side: plain asyncio in `execute()`, with the same ids and results in every process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from itertools import permutations

import pytest
from tests.behaviour.office import Office, Worker, answer, resume, start

from pilotage import AgentStatus, ApprovalDecision
from pilotage.errors import ToolError

APPROVE = ApprovalDecision.APPROVE


async def rest() -> None:
    """Let everything that is still under way come to rest."""
    for _ in range(60):
        await asyncio.sleep(0)


async def gathered(worker: Worker) -> object:
    """Three calls made at once by the program itself, then a gated one."""
    receipts = await asyncio.gather(*(worker.desk.pay(Decimal(n)) for n in (1, 2, 3)))
    await worker.desk.refund(Decimal(9))
    return [str(receipt.amount) for receipt in receipts]


async def in_tasks(worker: Worker) -> object:
    """Three tasks of several calls each, then a gated one."""

    async def branch(n: int) -> str:
        await worker.desk.look(str(n))
        receipt = await worker.desk.pay(Decimal(n))
        await worker.desk.note(str(n))
        return str(receipt.amount)

    amounts = await asyncio.gather(*(branch(n) for n in (1, 2, 3)))
    await worker.desk.refund(Decimal(9))
    return amounts


async def gated_tasks(worker: Worker) -> object:
    """Three tasks with one gated call each."""

    async def branch(n: int) -> str:
        await worker.desk.note(f"before {n}")
        receipt = await worker.desk.refund(Decimal(n))
        await worker.desk.note(f"after {n}")
        return str(receipt.amount)

    return await asyncio.gather(*(branch(n) for n in (1, 2, 3)))


@pytest.mark.parametrize("program", [gathered, in_tasks])
async def test_calls_side_by_side_are_replayed_and_not_repeated(
    program: Callable[[Worker], Awaitable[object]],
) -> None:
    office = Office()
    async with office.process(program) as runs:
        paused = await start(runs)
    done = list(office.world.done)
    assert sorted(each for each in done if each.startswith("pay")) == ["pay 1", "pay 2", "pay 3"]
    async with office.process(program) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["1", "2", "3"])
    assert office.world.done == [*done, "refund 9"]


async def test_calls_made_by_the_program_itself_are_numbered_as_they_are_made() -> None:
    office = Office()

    async def backwards(worker: Worker) -> object:
        first, second = worker.desk.pay(Decimal(1)), worker.desk.pay(Decimal(2))
        return [(await second).number, (await first).number]

    async with office.process(backwards) as runs:
        result = await start(runs)
    asked = [row for row in await office.rows(result.state.id) if row.stage.value == "before"]
    assert {row.action_id: row.view for row in asked} == {
        "run/tool:pay#1": {"asked": {"amount": "1"}},
        "run/tool:pay#2": {"asked": {"amount": "2"}},
    }
    assert office.world.done == ["pay 2", "pay 1"]


async def test_each_task_is_a_branch_named_by_what_it_asks_for_first() -> None:
    office = Office()
    async with office.process(in_tasks) as runs:
        run_id = (await start(runs)).state.id
    branches = {
        row.action_id.rpartition("/")[0] for row in await office.rows(run_id) if "/task:" in row.action_id
    }
    assert len(branches) == 3
    assert all(re.fullmatch(r"run/task:tool:look:[0-9a-f]{8}#1", branch) for branch in branches)


async def test_a_waiting_task_lets_the_others_go_on_to_their_end() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def gated() -> None:
            await worker.desk.refund(Decimal(1))

        async def free() -> None:
            for n in range(5):
                await worker.desk.pay(Decimal(n))

        await asyncio.gather(gated(), free())

    async with office.process(program) as runs:
        paused = await start(runs)
        assert len(await runs.questions(paused.state.id)) == 1
    assert paused.status is AgentStatus.INTERRUPTED
    assert office.world.done == [f"pay {n}" for n in range(5)]


async def test_all_waiting_tasks_are_asked_about() -> None:
    office = Office()
    async with office.process(gated_tasks) as runs:
        paused = await start(runs)
        questions = await runs.questions(paused.state.id)
    assert [question.arguments for question in questions] == [
        {"amount": "1"},
        {"amount": "2"},
        {"amount": "3"},
    ]
    assert sorted(office.world.done) == ["note before 1", "note before 2", "note before 3"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_three_gated_tasks_are_answered_in_any_order_with_restarts_in_between(
    order: Sequence[int],
) -> None:
    office = Office()
    async with office.process(gated_tasks) as runs:
        run_id = (await start(runs)).state.id
        asked = [question.id for question in await runs.questions(run_id)]
        result = await runs.result(run_id)
    for position, chosen in enumerate(order, start=1):
        async with office.process(gated_tasks) as runs:
            await runs.answer(run_id, asked[chosen], APPROVE)
            await resume(runs, run_id)
            result = await runs.result(run_id)
            still_open = {question.id for question in await runs.questions(run_id)}
        assert still_open == set(asked) - {asked[each] for each in order[:position]}
        assert office.world.done.count(f"refund {chosen + 1}") == 1
        assert len([each for each in office.world.done if each.startswith("refund")]) == position
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["1", "2", "3"])
    assert len(office.world.done) == len(set(office.world.done)) == 9


async def test_a_failing_task_reaches_the_program_as_asyncio_says() -> None:
    office = Office()
    office.world.failures["pay 2"] = ToolError("no funds")

    async def program(worker: Worker) -> object:
        calls = [worker.desk.pay(Decimal(n)) for n in (1, 2, 3)]
        given = await asyncio.gather(*calls, return_exceptions=True)
        failed = [str(each) for each in given if isinstance(each, ToolError)]
        await worker.desk.refund(Decimal(9))
        return failed

    async with office.process(program) as runs:
        paused = await start(runs)
    async with office.process(program) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["no funds"])
    assert office.world.done == ["pay 1", "pay 3", "refund 9"]


async def test_a_task_group_over_calls_is_replayed() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker.desk.note(str(n))) for n in range(3)]
        await worker.desk.refund(Decimal(9))
        return [task.result() for task in tasks]

    async with office.process(program) as runs:
        paused = await start(runs)
    async with office.process(program) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["0", "1", "2"])
    assert len(office.world.done) == 4


async def test_nothing_acts_after_the_run_has_failed() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def bad() -> None:
            raise ValueError("no")

        async def busy() -> None:
            for n in range(5):
                await worker.desk.pay(Decimal(n))

        await asyncio.gather(bad(), busy())

    async with office.process(program) as runs:
        result = await start(runs)
        done = list(office.world.done)
        await rest()
    assert result.status is AgentStatus.FAILED
    assert office.world.done == done


async def test_nothing_acts_after_a_rejection_has_ended_the_run() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def gated() -> None:
            await worker.desk.refund(Decimal(1))

        async def busy() -> None:
            await worker.desk.refund(Decimal(7))
            for n in range(5):
                await worker.desk.pay(Decimal(n))

        await asyncio.gather(gated(), busy())

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        first, second = await runs.questions(run_id)
        await runs.reject(first.id)
        await runs.approve(second.id)
        await resume(runs, run_id)
        done = list(office.world.done)
        await rest()
    assert office.world.done == done


async def test_side_by_side_calls_share_their_commits() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await asyncio.gather(*(worker.desk.note(str(n)) for n in range(50)))

    async with office.process(program) as runs:
        assert (await start(runs)).status is AgentStatus.COMPLETED
    assert office.journal.commits <= 5
