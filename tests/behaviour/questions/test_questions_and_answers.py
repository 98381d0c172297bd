"""Questions of runs and their answers: the acceptance table `questions_and_answers.md`, row by row."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    FAILED,
    RECOVERY,
    REJECTED,
    WAITING,
    Bureau,
    Counter,
    hired,
    started,
    triple,
)
from tests.behaviour.newsdesk import let_run
from tests.behaviour.office import Worker

from pilotage import Agent, AgentExecutionSpec, ApprovalDecision, Principal, RecoveryStrategy, RunResult
from pilotage.agent import JsonValue, RecoveryDecision
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.runtime import AgentRuns, WorkerSettings

AGENT = hired()
APPROVE, REJECT, MODIFY = ApprovalDecision.APPROVE, ApprovalDecision.REJECT, ApprovalDecision.MODIFY
DEFER, CANCEL = ApprovalDecision.DEFER, ApprovalDecision.CANCEL
OTHER_AMOUNT: dict[str, JsonValue] = {"modified_payload": {"amount": "7"}}

Program = Callable[[Worker], Awaitable[object]]
Triple = tuple[str, str | None, str | None]


class Refunding:
    """A program with one question; it counts how often it was entered."""

    def __init__(self) -> None:
        self.entered = 0

    async def __call__(self, worker: Worker) -> object:
        self.entered += 1
        return (await worker.desk.refund(Decimal(1))).number


class RefundingTwice(Refunding):
    """A program with two questions at once."""

    async def __call__(self, worker: Worker) -> object:
        self.entered += 1
        refunds = (worker.desk.refund(Decimal(1)), worker.desk.refund(Decimal(2)))
        return sorted([receipt.amount for receipt in await asyncio.gather(*refunds)])


async def wait_for(runs: AgentRuns) -> str:
    """A run that waits for a person."""
    waiting = await started(runs, AGENT)
    assert triple(waiting.state) == WAITING
    return waiting.state.id


async def come_to_rest(runs: AgentRuns, run_id: str) -> RunResult:
    """How the run stands when everything that was set going has ended; nobody resumes it."""
    await let_run(300)
    return await runs.result(run_id)


async def only_question(runs: AgentRuns, run_id: str) -> str:
    """The id of the one open question."""
    (question,) = await runs.questions(run_id)
    return str(question.id)


def test_every_row_of_the_table_has_a_test_and_every_test_a_row() -> None:
    table = Path(__file__).with_name("questions_and_answers.md").read_text()
    rows = set(re.findall(r"\| (test_\w+) \|", table))
    tests = {name for name, found in globals().items() if name.startswith("test_") and callable(found)}
    assert rows == tests - {test_every_row_of_the_table_has_a_test_and_every_test_a_row.__name__}


async def test_an_answer_lets_the_run_go_on_in_the_process_that_accepted_it() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        await runs.answer(run_id, await only_question(runs, run_id), APPROVE)
        ended = await come_to_rest(runs, run_id)
        assert await runs.questions(run_id) == ()
        assert await runs.verify(run_id) > 0
    assert (triple(ended.state), ended.output) == (COMPLETED, 1)
    assert (program.entered, bureau.world.done) == (2, ["refund 1"])


async def test_an_answer_returns_before_the_run_has_ended() -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)

    async def refunds_and_writes(worker: Worker) -> object:
        await worker.desk.refund(Decimal(1))
        return await counter.write("a")

    async with bureau.process(AGENT, refunds_and_writes, counter) as runs:
        run_id = await wait_for(runs)
        await runs.answer(run_id, await only_question(runs, run_id), APPROVE)
        await counter.begun["write a"].wait()
        assert not (await runs.get(run_id)).is_terminal
        counter.may_end["write a"].set()
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED


async def test_a_process_without_the_agent_wakes_a_worker() -> None:
    bureau, program, elsewhere = Bureau(), Refunding(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
    settings = WorkerSettings(poll_seconds=3600)
    other = hired("other")
    async with (
        bureau.process(AGENT, elsewhere, settings, bureau.store.backlog),
        bureau.process(other, Refunding()) as desk,
    ):
        await let_run(200)
        await desk.answer(run_id, await only_question(desk, run_id), APPROVE)
        ended = await come_to_rest(desk, run_id)
    assert triple(ended.state) == COMPLETED
    assert elsewhere.entered > 0
    assert bureau.world.done == ["refund 1"]


async def test_without_a_worker_the_answer_waits_for_whoever_resumes_the_run() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
    async with bureau.process(hired("other"), Refunding()) as desk:
        await desk.answer(run_id, await only_question(desk, run_id), APPROVE)
        assert triple((await come_to_rest(desk, run_id)).state) == WAITING
    async with bureau.process(AGENT, program) as runs:
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED
    assert bureau.world.done == ["refund 1"]


async def test_an_answer_that_is_only_stored_does_not_drive_the_run() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        await runs.answer(run_id, await only_question(runs, run_id), APPROVE, resume=False)
        assert triple((await come_to_rest(runs, run_id)).state) == WAITING
        assert (program.entered, bureau.world.done) == (1, [])
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED
    assert (program.entered, bureau.world.done) == (2, ["refund 1"])


DECISIONS: list[tuple[ApprovalDecision, Mapping[str, JsonValue], Triple, list[str]]] = [
    (APPROVE, {}, COMPLETED, ["refund 1"]),
    (MODIFY, OTHER_AMOUNT, COMPLETED, ["refund 7"]),
    (REJECT, {"comment": "better not"}, REJECTED, []),
    (CANCEL, {}, CANCELLED, []),
]


@pytest.mark.parametrize(("decision", "details", "state", "done"), DECISIONS)
async def test_every_decision_lets_the_run_go_on_to_its_end(
    decision: ApprovalDecision, details: Mapping[str, JsonValue], state: Triple, done: list[str]
) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, Refunding()) as runs:
        run_id = await wait_for(runs)
        await runs.answer(run_id, await only_question(runs, run_id), decision, **details)
        ended = await come_to_rest(runs, run_id)
    assert (triple(ended.state), bureau.world.done) == (state, done)


SHORT_NAMES: list[tuple[Callable[[AgentRuns, str], Awaitable[None]], Triple, list[str]]] = [
    (lambda runs, question: runs.approve(question), COMPLETED, ["refund 1"]),
    (lambda runs, question: runs.reject(question), REJECTED, []),
    (lambda runs, question: runs.modify(question, {"amount": "7"}), COMPLETED, ["refund 7"]),
]


@pytest.mark.parametrize(("answer", "state", "done"), SHORT_NAMES, ids=["approve", "reject", "modify"])
async def test_the_short_names_are_answers(
    answer: Callable[[AgentRuns, str], Awaitable[None]], state: Triple, done: list[str]
) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, Refunding()) as runs:
        run_id = await wait_for(runs)
        await answer(runs, await only_question(runs, run_id))
        ended = await come_to_rest(runs, run_id)
    assert (triple(ended.state), bureau.world.done) == (state, done)


RECOVERIES: list[tuple[RecoveryDecision, Mapping[str, JsonValue], Triple, list[str]]] = [
    (RecoveryDecision.RETRY, {}, COMPLETED, ["pay 5"]),
    (RecoveryDecision.DONE, {"result": {"number": 9, "amount": "5"}}, COMPLETED, []),
    (RecoveryDecision.FAIL, {}, FAILED, []),
    (RecoveryDecision.CANCEL, {}, CANCELLED, []),
]


@pytest.mark.parametrize(("decision", "details", "state", "done"), RECOVERIES)
async def test_an_answer_about_an_unknown_outcome_lets_the_run_go_on(
    decision: RecoveryDecision, details: Mapping[str, JsonValue], state: Triple, done: list[str]
) -> None:
    bureau = Bureau()
    bureau.world.failures["pay 5"] = ConnectionError("the line broke")

    async def pays(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(5))).number

    async with bureau.process(AGENT, pays) as runs:
        paused = await started(runs, AGENT)
        assert triple(paused.state) == RECOVERY
        run_id = paused.state.id
        await runs.answer(run_id, await only_question(runs, run_id), decision, **details)
        ended = await come_to_rest(runs, run_id)
    assert (triple(ended.state), bureau.world.done) == (state, done)


async def test_a_deferral_drives_nothing_and_leaves_the_question_open() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        question = await only_question(runs, run_id)
        await runs.answer(run_id, question, DEFER)
        waiting = await come_to_rest(runs, run_id)
        assert await only_question(runs, run_id) == question
    assert waiting.state.transition == "waiting_approval"
    assert (program.entered, bureau.world.done) == (1, [])


async def test_a_deferred_question_can_be_answered_later() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        question = await only_question(runs, run_id)
        await runs.answer(run_id, question, DEFER)
        await come_to_rest(runs, run_id)
        await runs.answer(run_id, question, APPROVE)
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert bureau.world.done == ["refund 1"]


async def two_questions(runs: AgentRuns) -> tuple[str, list[str]]:
    """A run that waits for two answers, and the ids of its questions."""
    run_id = await wait_for(runs)
    questions = [str(each.id) for each in await runs.questions(run_id)]
    assert len(questions) == 2
    return run_id, questions


async def test_a_run_goes_on_when_its_last_open_question_is_answered() -> None:
    bureau, program = Bureau(), RefundingTwice()
    async with bureau.process(AGENT, program) as runs:
        run_id, (first, second) = await two_questions(runs)
        await runs.answer(run_id, first, APPROVE)
        assert triple((await come_to_rest(runs, run_id)).state) == WAITING
        assert second in [each.id for each in await runs.questions(run_id)]
        assert (program.entered, bureau.world.done) == (1, [])
        await runs.answer(run_id, second, APPROVE)
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert (program.entered, sorted(bureau.world.done)) == (2, ["refund 1", "refund 2"])


@pytest.mark.parametrize("order", ["in turn", "in reverse", "at once"])
async def test_answers_to_several_questions_drive_the_run_once(order: str) -> None:
    bureau, program = Bureau(), RefundingTwice()
    async with bureau.process(AGENT, program) as runs:
        run_id, questions = await two_questions(runs)
        if order == "in reverse":
            questions.reverse()
        answers = [runs.answer(run_id, question, APPROVE) for question in questions]
        if order == "at once":
            await asyncio.gather(*answers)
        else:
            for answer in answers:
                await answer
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert (program.entered, sorted(bureau.world.done)) == (2, ["refund 1", "refund 2"])


async def test_a_deferred_question_keeps_the_run_waiting() -> None:
    bureau, program = Bureau(), RefundingTwice()
    async with bureau.process(AGENT, program) as runs:
        run_id, (first, second) = await two_questions(runs)
        await runs.answer(run_id, first, DEFER)
        await runs.answer(run_id, second, APPROVE)
        waiting = await come_to_rest(runs, run_id)
        assert waiting.state.transition == "waiting_approval"
        assert (program.entered, bureau.world.done) == (1, [])
        await runs.answer(run_id, first, APPROVE)
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert (program.entered, sorted(bureau.world.done)) == (2, ["refund 1", "refund 2"])


@Agent(spec=AgentExecutionSpec(name="parent", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Parent:
    """Leaves its task to another agent."""

    def __init__(self, child: AGENT) -> None:
        self.child = child

    async def execute(self, order: str) -> object:
        return await self.child.execute(order)


async def test_an_answer_to_a_child_lets_the_whole_family_go_on() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program, Parent) as runs:
        waiting = await started(runs, Parent)
        run_id = waiting.state.id
        (question,) = await runs.questions(run_id)
        assert question.agent_state_id != run_id
        await runs.answer(run_id, question.id, APPROVE)
        ended = await come_to_rest(runs, run_id)
        child = await runs.get(question.agent_state_id)
    assert (triple(ended.state), triple(child)) == (COMPLETED, COMPLETED)
    assert bureau.world.done == ["refund 1"]


async def test_an_answer_that_does_not_fit_drives_nothing() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        question = await only_question(runs, run_id)
        for wrong in (
            runs.answer(run_id, question, RecoveryDecision.RETRY),
            runs.answer(run_id, question, MODIFY, modified_payload={"amount": "much"}),
            runs.answer(run_id, f"{run_id}:guessed", APPROVE),
        ):
            with pytest.raises(CallerError):
                await wrong
        assert triple((await come_to_rest(runs, run_id)).state) == WAITING
        assert await only_question(runs, run_id) == question
    assert (program.entered, bureau.world.done) == (1, [])


async def test_a_second_answer_is_refused_and_nothing_happens_twice() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        question = await only_question(runs, run_id)
        await runs.answer(run_id, question, APPROVE)
        await come_to_rest(runs, run_id)
        with pytest.raises(CallerError):
            await runs.answer(run_id, question, REJECT)
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert (program.entered, bureau.world.done) == (2, ["refund 1"])


async def test_a_run_of_another_tenant_is_not_found() -> None:
    bureau, stranger = Bureau(), Principal("eve", tenant="globex")
    async with bureau.process(AGENT, Refunding()) as runs:
        run_id = await wait_for(runs)
        question = await only_question(runs, run_id)
        with pytest.raises(RunNotFoundError):
            await runs.questions(run_id, principal=stranger)
        with pytest.raises(RunNotFoundError):
            await runs.answer(run_id, question, APPROVE, principal=stranger)
        assert triple((await come_to_rest(runs, run_id)).state) == WAITING
    assert bureau.world.done == []


async def completes(worker: Worker) -> object:
    return await worker.desk.note("x")


async def fails(worker: Worker) -> object:
    await worker.desk.note("x")
    raise ValueError("no more")


ENDED: list[tuple[Program, Triple, object]] = [(completes, COMPLETED, "x"), (fails, FAILED, None)]


@pytest.mark.parametrize(("program", "state", "output"), ENDED, ids=["completed", "failed"])
async def test_resuming_a_run_that_has_ended_gives_its_result(
    program: Program, state: Triple, output: object
) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, program) as runs:
        run_id = (await started(runs, AGENT)).state.id
        rows = len(await bureau.rows(run_id))
        again = await (await runs.resume(run_id)).result()
    async with bureau.process(AGENT, program) as runs:
        elsewhere = await (await runs.resume(run_id)).result()
    for result in (again, elsewhere):
        assert (triple(result.state), result.output) == (state, output)
    assert bureau.world.done == ["note x"]
    assert len(await bureau.rows(run_id)) == rows


async def test_resuming_a_run_that_is_driven_here_gives_that_run() -> None:
    bureau = Bureau()
    counter = Counter(bureau.world)
    entered: list[str] = []

    async def writes(worker: Worker) -> object:
        entered.append("writes")
        return await counter.write("a")

    async with bureau.process(AGENT, writes, counter) as runs:
        handle = await runs.start(AGENT, "A-17")
        await counter.begun["write a"].wait()
        again = await runs.resume(handle.id)
        counter.may_end["write a"].set()
        assert (await handle.result()).state == (await again.result()).state
    assert (entered, bureau.world.done) == (["writes"], ["write a"])


async def test_resuming_behind_an_answer_gives_the_run_that_it_drives() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        await runs.answer(run_id, await only_question(runs, run_id), APPROVE)
        result = await (await runs.resume(run_id)).result()
    assert triple(result.state) == COMPLETED
    assert (program.entered, bureau.world.done) == (2, ["refund 1"])


async def test_the_old_names_do_the_same() -> None:
    bureau, program = Bureau(), Refunding()
    async with bureau.process(AGENT, program) as runs:
        run_id = await wait_for(runs)
        with pytest.warns(DeprecationWarning, match=r"Use AgentRuns\.questions\(\)"):
            (question,) = await runs.approvals(run_id)
        assert await runs.questions(run_id) == (question,)
        with pytest.warns(DeprecationWarning, match=r"Use AgentRuns\.answer\(\)"):
            await runs.decide(run_id, question.id, APPROVE)
        assert triple((await come_to_rest(runs, run_id)).state) == COMPLETED
    assert bureau.world.done == ["refund 1"]
