"""A wait that the program gives up is withdrawn by a row, also where the run pauses right behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest
from tests.behaviour.bureau import Bureau, Counter, hired, started
from tests.behaviour.office import Worker

from pilotage import AgentStatus, ApprovalDecision
from pilotage.agent.signals import AgentSignalKind
from pilotage.errors import CallerError
from pilotage.runtime import AgentRuns, next_signal

AGENT = hired(accepted_signals=(AgentSignalKind.EXTERNAL_EVENT,))


async def gives_up(worker: Worker) -> object:
    async def fails() -> None:
        await worker.desk.look("price")
        raise ValueError("no price")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.desk.refund(Decimal(1)))
            group.create_task(fails())
    except* ValueError:
        pass
    return await next_signal(AgentSignalKind.EXTERNAL_EVENT)


async def test_a_question_that_the_program_gave_up_is_not_open_in_the_pause_behind_it() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, gives_up) as runs:
        paused = await started(runs, AGENT)
        assert paused.status is AgentStatus.INTERRUPTED
        assert not await runs.questions(paused.state.id)
    rows = await bureau.rows(paused.state.id)
    assert any(row.record == {"cut_short": True} for row in rows if row.action_id.endswith("tool:refund#1"))


async def asked(runs: AgentRuns, run_id: str) -> str:
    """Return the question of a run that goes on meanwhile, once it is shown."""
    for _ in range(10_000):
        if questions := await runs.questions(run_id):
            return questions[0].id
        await asyncio.sleep(0)
    raise AssertionError("no question is shown")


def withdrawing(counter: Counter) -> Callable[[Worker], Awaitable[object]]:
    """Return a program that gives a wait up while a call is under way, and goes on."""

    async def program(worker: Worker) -> object:
        waiting = asyncio.create_task(worker.desk.refund(Decimal(1)))
        await counter.read("first")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await counter.read("second")
        await worker.desk.note("gave up")
        return await counter.read("third")

    return program


@pytest.mark.parametrize("moment", ["before it is withdrawn", "before the row that says so"])
async def test_an_answer_to_a_question_that_is_being_withdrawn_is_not_used(moment: str) -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)
    async with asyncio.timeout(120), bureau.process(AGENT, withdrawing(counter)) as runs:
        handle = await runs.start(AGENT, "A-17")
        question = await asked(runs, handle.id)
        if moment != "before it is withdrawn":
            counter.may_end["read first"].set()
            await counter.begun["read second"].wait()
        await runs.answer(handle.id, question, ApprovalDecision.APPROVE)
        for which in ("first", "second", "third"):
            counter.may_end[f"read {which}"].set()
        result = await handle.result()
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "read third")
        assert not await runs.questions(handle.id)
        await runs.verify(handle.id)
    assert "refund 1" not in bureau.world.done
    assert await bureau.store.signals.list_pending(handle.id) == []


async def test_an_answer_to_a_question_that_was_withdrawn_is_refused() -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)
    async with asyncio.timeout(120), bureau.process(AGENT, withdrawing(counter)) as runs:
        handle = await runs.start(AGENT, "A-17")
        question = await asked(runs, handle.id)
        counter.may_end["read first"].set()
        counter.may_end["read second"].set()
        await counter.begun["read third"].wait()
        assert not await runs.questions(handle.id)
        with pytest.raises(CallerError, match="waits for no answer"):
            await runs.answer(handle.id, question, ApprovalDecision.APPROVE)
        counter.may_end["read third"].set()
        assert (await handle.result()).output == "read third"
    assert "refund 1" not in bureau.world.done


async def test_a_question_is_shown_while_a_call_beside_it_is_under_way() -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        return await asyncio.gather(worker.desk.refund(Decimal(1)), counter.read("first"))

    async with asyncio.timeout(120), bureau.process(AGENT, program) as runs:
        handle = await runs.start(AGENT, "A-17")
        assert await asked(runs, handle.id)
        assert "read first" not in [row.record for row in await bureau.rows(handle.id)]
        counter.may_end["read first"].set()
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
