"""Events that are asked for right after an answer: the stream goes on with the attempt that the answer begins."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, Counter, hired, started, triple
from tests.behaviour.newsdesk import let_run
from tests.behaviour.office import Worker

from pilotage import ApprovalDecision, Principal
from pilotage.agent import AgentEvent, RunFinishedEvent, RunPausedEvent, RunStartedEvent
from pilotage.errors import RunNotFoundError
from pilotage.runtime import AgentRuns, Subscription

AGENT = hired()
APPROVE, DEFER = ApprovalDecision.APPROVE, ApprovalDecision.DEFER


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def refunds_twice(worker: Worker) -> object:
    return [(await worker.desk.refund(Decimal(amount))).number for amount in (1, 2)]


async def asked(runs: AgentRuns) -> tuple[str, str, str]:
    """A run that waits for a person: its id, its question, and the cursor of a reader that has seen the pause."""
    waiting = await started(runs, AGENT)
    assert triple(waiting.state) == WAITING
    run_id = waiting.state.id
    (question,) = await runs.questions(run_id)
    seen = runs.events(run_id, follow=False)
    assert isinstance((await read(seen))[-1], RunPausedEvent)
    return run_id, question.id, seen.cursor


async def read(events: Subscription) -> list[AgentEvent]:
    return await asyncio.wait_for(_all(events), 120)


async def _all(events: Subscription) -> list[AgentEvent]:
    return [event async for event in events]


async def test_events_asked_for_right_after_an_answer_go_on_to_the_end() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        rest = await read(runs.events(run_id, after=cursor))
        whole = await read(runs.events(run_id))
        assert triple(await runs.get(run_id)) == COMPLETED
    assert [type(event) for event in rest][:: len(rest) - 1] == [RunStartedEvent, RunFinishedEvent]
    assert whole[-len(rest) :] == rest


async def test_events_from_the_start_go_on_after_the_old_pause() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, _ = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        events = await read(runs.events(run_id))
        assert events == await read(runs.events(run_id))
    ends = [type(event) for event in events if isinstance(event, RunPausedEvent | RunFinishedEvent)]
    assert ends == [RunPausedEvent, RunFinishedEvent]


async def test_events_after_an_answer_end_at_the_next_pause() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, question, cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        rest = await read(runs.events(run_id, after=cursor))
        (second,) = await runs.questions(run_id)
        assert bureau.world.done == ["refund 1"]
    assert second.id != question
    assert isinstance(rest[-1], RunPausedEvent)
    assert rest[-1].approval_id == second.id


@pytest.mark.parametrize("turns", range(40))
async def test_an_answer_while_the_attempt_is_ending_does_not_end_the_events_at_its_pause(turns: int) -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)

    async def asks_and_writes(worker: Worker) -> object:
        return await asyncio.gather(worker.desk.refund(Decimal(1)), counter.write("a"))

    async with bureau.process(AGENT, asks_and_writes, counter) as runs:
        handle = await runs.start(AGENT, "A-17")
        await counter.begun["write a"].wait()
        (question,) = await runs.questions(handle.id)
        counter.may_end["write a"].set()
        await let_run(turns)
        await runs.answer(handle.id, question.id, APPROVE)
        events = await read(runs.events(handle.id))
        assert events == await read(runs.events(handle.id))
    assert isinstance(events[-1], RunFinishedEvent)
    assert sorted(bureau.world.done) == ["refund 1", "write a"]


async def test_without_follow_the_events_end_at_the_old_pause() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        assert await read(runs.events(run_id, after=cursor, follow=False)) == []


@pytest.mark.parametrize("decision", [APPROVE, DEFER])
async def test_an_answer_that_drives_nothing_leaves_the_end_of_the_events_where_it_is(
    decision: ApprovalDecision,
) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, cursor = await asked(runs)
        await runs.answer(run_id, question, decision, resume=False)
        assert await read(runs.events(run_id, after=cursor)) == []


async def test_a_reader_of_another_tenant_gets_nothing_of_the_answered_run() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, _ = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        with pytest.raises(RunNotFoundError):
            await read(runs.events(run_id, principal=Principal("eve", tenant="globex")))


async def test_a_reader_that_leaves_before_the_attempt_begins_does_not_touch_the_run() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question, cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        events = runs.events(run_id, after=cursor)
        reading = asyncio.ensure_future(read(events))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        await events.aclose()
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED
    assert bureau.world.done == ["refund 1"]
