"""The rows of `questions_and_answers.md` that depend on the store, on SQLite and PostgreSQL.

Answers are signals, questions are rows of the journal, and the drive that an answer begins claims the run: each test
reads back what another process, with connections of its own, has written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from tests.adapters.sqlalchemy.databases import BACKENDS
from tests.behaviour.bureau import COMPLETED, WAITING, hired, started, triple
from tests.behaviour.office import Desk, Program, Worker, World

from pilotage import Application, ApprovalDecision, RunResult
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentEvent, RunFinishedEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AnswerConflictError, RunConflictError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import ScriptedModel
from pilotage.testing.sealer import MemorySealer

AGENT = hired()
APPROVE, REJECT, DEFER = ApprovalDecision.APPROVE, ApprovalDecision.REJECT, ApprovalDecision.DEFER

pytestmark = pytest.mark.parametrize("database_settings", BACKENDS, indirect=True)


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def refunds_twice(worker: Worker) -> object:
    both = (worker.desk.refund(Decimal(1)), worker.desk.refund(Decimal(2)))
    return sorted([receipt.amount for receipt in await asyncio.gather(*both)])


class Company:
    """Processes over one database; the outside world outlives them."""

    def __init__(self, program: Callable[[Worker], Awaitable[object]]) -> None:
        self.world, self._program, self._sealer = World(), program, MemorySealer()

    @asynccontextmanager
    async def process(self, store: SqlAlchemyStore) -> AsyncGenerator[AgentRuns, None]:
        app = Application("company").add(AGENT, Desk, self.world, Program(self._program), ScriptedModel([]))
        initialize(app.add(self._sealer, *store.ports))
        async with app:
            yield app.get(AgentRuns)


async def asked(runs: AgentRuns) -> tuple[str, list[str], str]:
    """A run that waits: its id, the ids of its questions, and the cursor of a reader that has seen the pause."""
    waiting = await started(runs, AGENT)
    assert triple(waiting.state) == WAITING
    seen = runs.events(waiting.state.id, follow=False)
    assert [event async for event in seen]
    questions = await runs.questions(waiting.state.id)
    return waiting.state.id, [str(each.id) for each in questions], seen.cursor


async def followed(runs: AgentRuns, run_id: str, cursor: str) -> RunResult:
    """How the run stands when the attempt that an answer began is over; nobody resumes it."""
    events = await asyncio.wait_for(_read(runs, run_id, cursor), 120)
    assert isinstance(events[-1], RunFinishedEvent)
    return await runs.result(run_id)


async def _read(runs: AgentRuns, run_id: str, cursor: str) -> list[AgentEvent]:
    return [event async for event in runs.events(run_id, after=cursor)]


async def attempts(store: SqlAlchemyStore, run_id: str) -> int:
    """How often the run was claimed."""
    head = await store.journal.head(RunKey("default", run_id))
    assert head is not None
    return head.epoch


async def test_an_answer_drives_the_run_and_a_different_one_is_refused(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    company = Company(refunds)
    async with company.process(store) as runs, company.process(second_store) as elsewhere:
        run_id, (question,), cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        ended = await followed(runs, run_id, cursor)
        for late in (runs, elsewhere):
            with pytest.raises(AnswerConflictError, match="was answered 'approve' by 'local' at "):
                await late.answer(run_id, question, REJECT)
        assert await elsewhere.questions(run_id) == ()
        assert await elsewhere.verify(run_id) > 0
    assert (triple(ended.state), ended.output) == (COMPLETED, 1)
    assert (company.world.done, await attempts(store, run_id)) == (["refund 1"], 2)


async def test_a_stored_answer_is_used_by_the_process_that_resumes_the_run(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    company = Company(refunds)
    async with company.process(store) as runs:
        run_id, (question,), _ = await asked(runs)
        await runs.answer(run_id, question, APPROVE, resume=False)
        assert triple(await runs.get(run_id)) == WAITING
    async with company.process(second_store) as elsewhere:
        assert triple((await (await elsewhere.resume(run_id)).result()).state) == COMPLETED
    assert (company.world.done, await attempts(store, run_id)) == (["refund 1"], 2)


async def test_a_deferred_question_stays_open_until_it_is_answered(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    company = Company(refunds)
    async with company.process(store) as runs, company.process(second_store) as elsewhere:
        run_id, (question,), cursor = await asked(runs)
        await elsewhere.answer(run_id, question, DEFER)
        assert [each.id for each in await runs.questions(run_id)] == [question]
        assert await attempts(store, run_id) == 1
        await runs.answer(run_id, question, APPROVE)
        assert triple((await followed(runs, run_id, cursor)).state) == COMPLETED
    assert (company.world.done, await attempts(store, run_id)) == (["refund 1"], 2)


@pytest.mark.parametrize("is_at_once", [True, False], ids=["at once", "in reverse order"])
async def test_answers_to_several_questions_drive_the_run_once(
    store: SqlAlchemyStore, is_at_once: bool
) -> None:
    company = Company(refunds_twice)
    async with company.process(store) as runs:
        run_id, (first, second), cursor = await asked(runs)
        if is_at_once:
            await asyncio.gather(*(runs.answer(run_id, each, APPROVE) for each in (first, second)))
        else:
            await runs.answer(run_id, second, APPROVE)
            assert triple(await runs.get(run_id)) == WAITING
            await runs.answer(run_id, first, APPROVE)
        ended = await followed(runs, run_id, cursor)
    assert (triple(ended.state), ended.output) == (COMPLETED, ["1", "2"])
    assert (sorted(company.world.done), await attempts(store, run_id)) == (["refund 1", "refund 2"], 2)


async def test_answers_of_two_processes_to_two_questions_drive_the_run_once(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    """Each process may see both answers and claim the run; the lease lets one of them drive it."""
    company = Company(refunds_twice)
    async with company.process(store) as runs, company.process(second_store) as elsewhere:
        run_id, (first, second), _ = await asked(runs)
        await asyncio.gather(runs.answer(run_id, first, APPROVE), elsewhere.answer(run_id, second, APPROVE))
        try:
            ended = await (await runs.resume(run_id)).result()
        except RunConflictError:
            ended = await (await elsewhere.resume(run_id)).result()
    assert (triple(ended.state), sorted(company.world.done)) == (COMPLETED, ["refund 1", "refund 2"])
    assert await attempts(store, run_id) == 2


async def test_resuming_a_run_that_has_ended_gives_its_result(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    company = Company(refunds)
    async with company.process(store) as runs, company.process(second_store) as elsewhere:
        run_id, (question,), cursor = await asked(runs)
        await runs.answer(run_id, question, APPROVE)
        await followed(runs, run_id, cursor)
        results = [await (await each.resume(run_id)).result() for each in (runs, elsewhere)]
    assert [(triple(each.state), each.output) for each in results] == [(COMPLETED, 1)] * 2
    assert (company.world.done, await attempts(store, run_id)) == (["refund 1"], 2)
