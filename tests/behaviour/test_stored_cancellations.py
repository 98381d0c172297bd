"""A cancellation that is stored when no process drives the run: the next driver begins or continues it.

The program is not entered again and nothing new is done, whoever takes the run up and wherever it stood.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from tests.behaviour.bureau import CANCELLED, Bureau, Counter, hired, resumed, started, triple
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker
from tests.soak.work import work_over

from pilotage import ApprovalDecision
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.agent import AgentSignal, AgentSignalKind, AgentState, AgentStatus, JsonObject
from pilotage.runtime import WorkerSettings
from pilotage.testing import ProcessStopped, StopAfter, StopBefore

AGENT = hired()


async def notes_and_refunds(worker: Worker) -> object:
    """Something that is done, then something that a person must allow."""
    await worker.desk.note("a")
    return (await worker.desk.refund(Decimal(1))).number


async def died_in_a_call(bureau: Bureau) -> str:
    """The process died behind the row that says that the first call begins."""
    return await bureau.dead_process(AGENT, notes_and_refunds, fault=StopAfter(2))


async def died_between_calls(bureau: Bureau) -> str:
    """The process died before it could write that the second call is asked about."""
    return await bureau.dead_process(AGENT, notes_and_refunds, fault=StopBefore(3))


async def waits_for_a_person(bureau: Bureau) -> str:
    """The run waits for an answer."""
    async with bureau.process(AGENT, notes_and_refunds) as runs:
        return (await started(runs, AGENT)).state.id


async def was_answered(bureau: Bureau) -> str:
    """The run waits, and a person has allowed the call."""
    async with bureau.process(AGENT, notes_and_refunds) as runs:
        run_id = (await started(runs, AGENT)).state.id
        (question,) = await runs.questions(run_id)
    payload: JsonObject = {"request_id": question.id, "decision": ApprovalDecision.APPROVE.value}
    answer = AgentSignal("yes", run_id, AgentSignalKind.APPROVAL_DECISION, payload)
    await bureau.store.signals.append(answer)
    return run_id


async def was_paused_and_is_wanted_back(bureau: Bureau) -> str:
    """Somebody has paused the run, and asks that it goes on."""
    counter = Counter(bureau.world)

    async def writes_and_notes(worker: Worker) -> object:
        await counter.write("a")
        return await worker.desk.note("b")

    async with bureau.process(AGENT, writes_and_notes, counter) as runs:
        handle = await runs.start(AGENT, "A-17")
        await counter.begun["write a"].wait()
        await runs.signal(handle.id, AgentSignalKind.PAUSE)
        counter.may_end["write a"].set()
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
    await bureau.store.signals.append(AgentSignal("go-on", handle.id, AgentSignalKind.RESUME))
    return handle.id


Standing = Callable[[Bureau], Awaitable[str]]
STANDINGS: tuple[Standing, ...] = (
    died_in_a_call,
    died_between_calls,
    waits_for_a_person,
    was_answered,
    was_paused_and_is_wanted_back,
)


async def resume_it(
    bureau: Bureau, program: Callable[[Worker], Awaitable[object]], run_id: str
) -> AgentState:
    """Take the run up by resuming it."""
    async with bureau.process(AGENT, program) as runs:
        state = (await resumed(runs, run_id)).state
        assert await runs.verify(run_id) > 0
    return state


async def let_a_worker_find_it(
    bureau: Bureau, program: Callable[[Worker], Awaitable[object]], run_id: str
) -> AgentState:
    """Take the run up by a worker."""
    settings = WorkerSettings(poll_seconds=2.0)
    async with bureau.process(AGENT, program, settings, bureau.store.backlog) as runs:
        await let_run(200)
        await pass_time(bureau.clock, 4)
        assert await runs.verify(run_id) > 0
    return await bureau.store.states.get(run_id)


class Entered:
    """A program that must not be entered."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, worker: Worker) -> object:
        self.times += 1
        return await notes_and_refunds(worker)


@pytest.mark.parametrize("standing", STANDINGS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("take_up", [resume_it, let_a_worker_find_it], ids=lambda each: each.__name__)
async def test_a_stored_cancellation_is_begun_by_the_next_driver(
    standing: Standing,
    take_up: Callable[[Bureau, Callable[[Worker], Awaitable[object]], str], Awaitable[AgentState]],
) -> None:
    bureau = Bureau()
    run_id = await standing(bureau)
    bureau.clock.advance(60)
    done = list(bureau.world.done)
    cancel = AgentSignal("enough", run_id, AgentSignalKind.CANCEL, {"reason": "enough of it"})
    await bureau.store.signals.append(cancel)
    program = Entered()
    state = await take_up(bureau, program, run_id)
    assert triple(state) == CANCELLED
    assert state.metadata["cancellation_reason"] == "enough of it"
    assert (program.times, bureau.world.done) == (0, done)
    assert "enough" not in [signal.id for signal in await bureau.store.signals.list_pending(run_id)]


@pytest.mark.parametrize("take_up", [resume_it, let_a_worker_find_it], ids=lambda each: each.__name__)
async def test_a_cancellation_that_was_begun_is_continued_by_the_next_driver(
    take_up: Callable[[Bureau, Callable[[Worker], Awaitable[object]], str], Awaitable[AgentState]],
) -> None:
    bureau, program = Bureau(), Entered()
    counter = Counter(bureau.world)

    async def sends(worker: Worker) -> object:
        return await counter.send("a")

    async with bureau.process(AGENT, sends, counter, fault=StopAfter(3)) as runs:
        handle = await runs.start(AGENT, "A-17")
        await counter.begun["send a"].wait()
        with suppress(ProcessStopped):
            await runs.cancel(handle.id, reason="enough of it")
    assert (await bureau.store.states.get(handle.id)).status is AgentStatus.CANCELLING
    bureau.clock.advance(60)
    state = await take_up(bureau, program, handle.id)
    assert triple(state) == CANCELLED
    assert state.metadata["cancellation_reason"] == "enough of it"
    assert (program.times, bureau.world.done) == (0, ["send a"])


async def test_a_stopped_run_is_cancelled_by_its_caller_while_a_worker_of_the_same_process_takes_it_up(
    tmp_path: Path,
) -> None:
    async with work_over(DatabaseSettings(f"sqlite:///{tmp_path / 'runs.db'}")) as work:
        # The signal wakes the worker, which finds the run in one of five cases before the caller has ended it.
        for _ in range(30):
            await work.cancel_a_stopped_run()
