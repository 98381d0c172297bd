"""While a person is asked about the answer of a run, its end is part of the record: nothing new begins before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.behaviour.bureau import COMPLETED, DIVERGED, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.behaviour.postbox import EVENT, Parrot, Postbox
from tests.behaviour.test_signal_handlers import Listener, program

from pilotage import ApprovalDecision, RunContext
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    IAgentApprovalHandler,
)
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.runtime import changed

APPROVE = ApprovalDecision.APPROVE


class AsksAboutAnswers(IAgentApprovalHandler):
    """Wants a person to read every answer."""

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not AgentApprovalBoundaryKind.FINAL_PUBLICATION:
            return None
        return AgentApprovalRequest("any", "any", subject.boundary, "May it leave?", ToolRisk(), "any")


async def noted(worker: Worker) -> object:
    return f"noted {await worker.desk.note('first')}"


async def noted_twice(worker: Worker) -> object:
    answer = await noted(worker)
    await worker.desk.note("second")
    return answer


async def noted_again_behind_a_gate(worker: Worker) -> object:
    answer = await noted(worker)
    if await changed("second note"):
        await worker.desk.note("second")
    return answer


async def with_a_bug(worker: Worker) -> object:
    await noted(worker)
    raise KeyError("second")


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("later", [noted_twice, with_a_bug])
async def test_a_release_that_goes_on_where_the_program_had_ended_diverges_before_it_acts(
    later: Callable[[Worker], Awaitable[object]], is_answered: bool
) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, noted, AsksAboutAnswers()) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        if is_answered:
            (question,) = await runs.questions(waiting.state.id)
            await runs.answer(waiting.state.id, question.id, APPROVE, resume=False)
    async with bureau.process(agent, later, AsksAboutAnswers()) as runs:
        result = await resumed(runs, waiting.state.id)
        assert triple(result.state) == DIVERGED
        assert bureau.world.done == ["note first"]
        divergence = result.state.metadata["divergence"]
        assert isinstance(divergence, dict)
        assert divergence["action"] == "run/result#1"
        assert str(divergence["difference"]).startswith(
            "a question about 'result' is recorded, and the program "
        )
    async with bureau.process(agent, noted, AsksAboutAnswers()) as runs:
        mended = await resumed(runs, waiting.state.id)
        if not is_answered:
            (question,) = await runs.questions(waiting.state.id)
            await runs.answer(waiting.state.id, question.id, APPROVE, resume=False)
            mended = await resumed(runs, waiting.state.id)
        assert triple(mended.state) == COMPLETED


async def test_a_gate_in_front_of_an_answer_that_waits_is_shut() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, noted, AsksAboutAnswers()) as runs:
        waiting = await started(runs, agent)
    async with bureau.process(agent, noted_again_behind_a_gate, AsksAboutAnswers()) as runs:
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, APPROVE, resume=False)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
    assert bureau.world.done == ["note first"]


async def test_what_comes_while_an_answer_waits_is_handled_before_the_answer_leaves() -> None:
    bureau, body = Bureau(), program("stamp first")
    async with bureau.process(Listener, body, Postbox, AsksAboutAnswers(), model=Parrot()) as runs:
        run_id = (await started(runs, Listener)).state.id
        await runs.signal(run_id, EVENT, {"text": "fire"})
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, APPROVE, resume=False)
    async with bureau.process(Listener, body, Postbox, AsksAboutAnswers(), model=Parrot()) as runs:
        result = await resumed(runs, run_id)
        await runs.verify(run_id)
    assert triple(result.state) == COMPLETED
    assert bureau.world.done == ["stamp first", "stamp fire"]
