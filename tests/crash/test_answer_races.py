"""Races between the drive that an answer begins and an explicit resume: one of them drives, and effects happen once."""

from __future__ import annotations

import asyncio

import pytest

from pilotage import AgentStatus, ApprovalDecision
from pilotage.agent import AgentApprovalRequest
from pilotage.agent.run_values import RunResult
from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRuns
from tests.behaviour.newsdesk import let_run
from tests.crash.machine import Strict, Town, receipt

APPROVE = ApprovalDecision.APPROVE
TURNS = range(36)
LEASED_AND_NOT = [(True, turns) for turns in TURNS] + [(False, turns) for turns in TURNS[::3]]
RECEIPTS = [receipt("pay", 7), receipt("refund", 7)]


async def waiting(town: Town) -> tuple[str, str]:
    """A run that waits for an approval, and its question."""
    async with town.process() as runs:
        handle = await runs.start(Strict, "A-17")
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(handle.id)
    return handle.id, question.id


async def resumed(runs: AgentRuns, run_id: str) -> RunResult:
    return await (await runs.resume(run_id)).result()


def assert_completed(result: RunResult) -> None:
    assert (result.status, result.output) == (AgentStatus.COMPLETED, RECEIPTS)


async def assert_driven_once(town: Town, run_id: str, attempts: int | None = None) -> None:
    """The run is completed and consistent, each payment was made once, by so many attempts in all."""
    async with town.process() as runs:
        assert_completed(await runs.result(run_id))
        assert await runs.verify(run_id) > 0
    assert [len(town.world.made(run_id, tool)) for tool in ("pay", "refund")] == [1, 1]
    if attempts is not None:
        assert (await town.rows(run_id))[-1].epoch == attempts


@pytest.mark.parametrize(("has_leases", "turns"), LEASED_AND_NOT)
async def test_a_resume_after_an_answer_gets_the_result_of_the_one_attempt(
    has_leases: bool, turns: int
) -> None:
    town = Town(has_leases=has_leases)
    run_id, question = await waiting(town)
    async with town.process() as runs:
        await runs.answer(run_id, question, APPROVE)
        await let_run(turns)
        first, second = await asyncio.gather(resumed(runs, run_id), resumed(runs, run_id))
        assert_completed(first)
        assert_completed(second)
    await assert_driven_once(town, run_id, attempts=2)


@pytest.mark.parametrize(("has_leases", "turns"), LEASED_AND_NOT)
async def test_an_answer_while_a_resume_is_under_way_is_used_once(has_leases: bool, turns: int) -> None:
    """The resumed attempt takes the answer, or pauses again and the answer drives the run."""
    town = Town(has_leases=has_leases)
    run_id, question = await waiting(town)
    async with town.process() as runs:
        resuming = asyncio.ensure_future(resumed(runs, run_id))
        await let_run(turns)
        await runs.answer(run_id, question, APPROVE)
        first = await resuming
        if first.status is AgentStatus.COMPLETED:
            assert_completed(first)
        else:
            assert first.status is AgentStatus.INTERRUPTED
            assert_completed(await resumed(runs, run_id))
        attempts = 2 if first.status is AgentStatus.COMPLETED else 3
        await let_run(100)
    await assert_driven_once(town, run_id, attempts)


@pytest.mark.parametrize("answers_first", [True, False], ids=["answer first", "resume first"])
async def test_answer_and_resume_in_the_same_moment_drive_once(answers_first: bool) -> None:
    town = Town()
    run_id, question = await waiting(town)
    async with town.process() as runs:
        answering, resuming = runs.answer(run_id, question, APPROVE), resumed(runs, run_id)
        if answers_first:
            await asyncio.gather(answering, resuming)
        else:
            await asyncio.gather(resuming, answering)
        assert_completed(await resumed(runs, run_id))
        await let_run(100)
    await assert_driven_once(town, run_id)


@pytest.mark.parametrize("turns", TURNS)
async def test_of_an_answer_here_and_a_resume_elsewhere_one_drives(turns: int) -> None:
    town = Town(has_leases=True)
    run_id, question = await waiting(town)
    async with town.process() as here, town.process() as elsewhere:
        await here.answer(run_id, question, APPROVE)
        await let_run(turns)
        try:
            reached = await resumed(elsewhere, run_id)
        except RunConflictError:
            reached = await resumed(here, run_id)
        assert_completed(reached)
        await let_run(100)
    await assert_driven_once(town, run_id, attempts=2)


@pytest.mark.parametrize("turns", TURNS)
async def test_of_a_resume_elsewhere_and_an_answer_here_one_drives(turns: int) -> None:
    """The other process may have begun before there was an answer: its attempt pauses, and the answer goes on."""
    town = Town(has_leases=True)
    run_id, question = await waiting(town)
    async with town.process() as here, town.process() as elsewhere:
        resuming = asyncio.ensure_future(resumed(elsewhere, run_id))
        await let_run(turns)
        await here.answer(run_id, question, APPROVE)
        (reached,) = await asyncio.gather(resuming, return_exceptions=True)
        assert isinstance(reached, RunResult | RunConflictError)
        await let_run(200)
        assert_completed(await resumed(here, run_id))
    await assert_driven_once(town, run_id)


@pytest.mark.parametrize("turns", TURNS)
async def test_without_leases_a_take_over_repeats_no_effect(turns: int) -> None:
    town = Town()
    run_id, question = await waiting(town)
    async with town.process() as here, town.process() as elsewhere:
        await here.answer(run_id, question, APPROVE)
        await let_run(turns)
        await asyncio.gather(resumed(elsewhere, run_id), return_exceptions=True)
        await let_run(200)
        state = await here.get(run_id)
        questions = await here.questions(run_id)
        # Whoever takes a run over in the middle of a payment cannot know what became of it, and asks.
        assert state.status is AgentStatus.COMPLETED or questions
        assert not any(isinstance(each, AgentApprovalRequest) for each in questions)
        assert await here.verify(run_id) > 0
    assert len(town.world.made(run_id, "pay")) == 1
    assert len(town.world.made(run_id, "refund")) <= 1


@pytest.mark.parametrize(("has_leases", "turns"), LEASED_AND_NOT)
async def test_an_answer_while_the_attempt_that_asked_is_ending_drives_once(
    has_leases: bool, turns: int
) -> None:
    town = Town(has_leases=has_leases)
    async with town.process() as runs:
        handle = await runs.start(Strict, "A-17")
        while not (questions := await runs.questions(handle.id)):
            await let_run(1)
        await let_run(turns)
        await runs.answer(handle.id, questions[0].id, APPROVE)
        assert_completed(await resumed(runs, handle.id))
        await let_run(100)
    await assert_driven_once(town, handle.id)
