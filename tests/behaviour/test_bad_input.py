"""What callers get wrong: each mistake is a typed error or a recorded no-op, and the run is unharmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import cast

import pytest
from tests.behaviour.bureau import COMPLETED, RECOVERY, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker

from pilotage import AgentSignalKind, AgentStatus, ApprovalDecision, Principal
from pilotage.agent import AgentApprovalRequest, RecoveryDecision
from pilotage.errors import (
    AgentDefinitionError,
    AnswerConflictError,
    CallerError,
    RunConflictError,
    RunNotFoundError,
)
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import StopAfter

NOBODY = Principal("mallory", tenant="elsewhere")
Act = Callable[[AgentRuns, str, str], Awaitable[object]]


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def _events(runs: AgentRuns, run_id: str, principal: Principal | None = None) -> object:
    found = runs.events(run_id, principal=principal) if principal else runs.events(run_id)
    return [event async for event in found]


ON_A_RUN: dict[str, Act] = {
    "resume": lambda runs, run, _: runs.resume(run),
    "get": lambda runs, run, _: runs.get(run),
    "result": lambda runs, run, _: runs.result(run),
    "approvals": lambda runs, run, _: runs.questions(run),
    "cancel": lambda runs, run, _: runs.cancel(run),
    "verify": lambda runs, run, _: runs.verify(run),
    "fork": lambda runs, run, _: runs.fork(run),
    "signal": lambda runs, run, _: runs.signal(run, AgentSignalKind.CANCEL),
    "events": lambda runs, run, _: _events(runs, run),
    "decide": lambda runs, run, request: runs.answer(run, request, ApprovalDecision.APPROVE),
}
AS_A_STRANGER: dict[str, Act] = {
    "resume": lambda runs, run, _: runs.resume(run, principal=NOBODY),
    "get": lambda runs, run, _: runs.get(run, principal=NOBODY),
    "result": lambda runs, run, _: runs.result(run, principal=NOBODY),
    "approvals": lambda runs, run, _: runs.questions(run, principal=NOBODY),
    "cancel": lambda runs, run, _: runs.cancel(run, principal=NOBODY),
    "verify": lambda runs, run, _: runs.verify(run, principal=NOBODY),
    "fork": lambda runs, run, _: runs.fork(run, principal=NOBODY),
    "signal": lambda runs, run, _: runs.signal(run, AgentSignalKind.CANCEL, principal=NOBODY),
    "events": lambda runs, run, _: _events(runs, run, NOBODY),
    "decide": lambda runs, run, request: runs.answer(
        run, request, ApprovalDecision.APPROVE, principal=NOBODY
    ),
    "approve": lambda runs, _, request: runs.approve(request, principal=NOBODY),
}


class Waiting:
    """A run that waits for a person, and how it stands."""

    def __init__(self) -> None:
        self.bureau, self.agent = Bureau(), hired(accepted_signals=[AgentSignalKind.USER_MESSAGE])

    async def begin(self, runs: AgentRuns) -> tuple[str, AgentApprovalRequest]:
        waiting = await started(runs, self.agent)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        self.rows = await self.bureau.rows(waiting.state.id)
        return waiting.state.id, question

    async def is_unharmed(self, runs: AgentRuns, run_id: str) -> None:
        """The run stands where it stood, nothing was written, and it can still be answered."""
        assert await self.bureau.rows(run_id) == self.rows
        assert triple(await runs.get(run_id)) == WAITING
        assert await self.bureau.store.signals.list_pending(run_id) == []
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert self.bureau.world.done == ["refund 1"]


@pytest.mark.parametrize("act", ON_A_RUN.values(), ids=ON_A_RUN)
async def test_a_run_that_does_not_exist_is_not_found(act: Act) -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        with pytest.raises(RunNotFoundError, match="there is no run 'nothing'"):
            await act(runs, "nothing", "nothing:at-all")


@pytest.mark.parametrize("act", AS_A_STRANGER.values(), ids=AS_A_STRANGER)
async def test_a_run_of_another_tenant_is_not_found(act: Act) -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        with pytest.raises(RunNotFoundError, match=f"there is no run '{run_id}'"):
            await act(runs, run_id, question.id)
        await story.is_unharmed(runs, run_id)


async def test_an_answer_to_another_question_is_refused() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, _ = await story.begin(runs)
        _, other = await Waiting.begin(story, runs)
        story.rows = await story.bureau.rows(run_id)
        with pytest.raises(CallerError, match="waits for no answer to request"):
            await runs.answer(run_id, other.id, ApprovalDecision.APPROVE)
        with pytest.raises(CallerError, match="waits for no answer to request"):
            await runs.approve(f"{run_id}:guessed")
        await story.is_unharmed(runs, run_id)


MALFORMED: dict[str, dict[str, object]] = {
    "an argument too many": {"amount": "2", "to": "me"},
    "an argument missing": {},
    "of another type": {"amount": ["2"]},
    "no object": [1, 2],  # type: ignore[dict-item]
}


@pytest.mark.parametrize("arguments", MALFORMED.values(), ids=MALFORMED)
async def test_arguments_that_do_not_fit_are_refused_and_the_question_stays_open(arguments: object) -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        with pytest.raises(CallerError, match="The request stays open"):
            await runs.modify(question.id, arguments)  # type: ignore[arg-type]
        await story.is_unharmed(runs, run_id)


@pytest.mark.parametrize(
    "details",
    [
        {"comment": "   "},
        {"comment": 7},
        {"modified_payload": {"amount": "9"}},
    ],
)
async def test_an_answer_that_says_something_odd_is_refused(details: dict[str, object]) -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        with pytest.raises(CallerError, match="The request stays open"):
            await runs.answer(run_id, question.id, ApprovalDecision.APPROVE, **details)  # type: ignore[arg-type]
        await story.is_unharmed(runs, run_id)


async def test_a_decision_that_is_none_for_this_question_is_refused() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        with pytest.raises(CallerError, match="The request stays open"):
            await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
        await story.is_unharmed(runs, run_id)


async def test_a_decision_may_be_a_word_and_a_wrong_word_is_refused_with_those_that_there_are() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        for wrong in ("perhaps", None, True):
            with pytest.raises(CallerError, match="Use one of: approve, reject, modify"):
                await runs.answer(run_id, question.id, cast("ApprovalDecision", wrong))
        await runs.answer(run_id, question.id, cast("ApprovalDecision", "approve"), resume=False)
        with pytest.raises(AnswerConflictError, match="was answered 'approve'"):
            await runs.answer(run_id, question.id, cast("ApprovalDecision", "reject"))


async def test_a_decision_that_is_made_twice_counts_once() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        await runs.approve(question.id, resume=False)
        await runs.approve(question.id, resume=False)
        with pytest.raises(AnswerConflictError, match="was answered 'approve'"):
            await runs.reject(question.id)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await story.bureau.store.signals.list_pending(run_id) == []
        await runs.approve(question.id)  # confirmed
    assert story.bureau.world.done == ["refund 1"]


async def test_an_unknown_outcome_cannot_be_answered_with_a_result_the_tool_does_not_give() -> None:
    bureau, agent = Bureau(), hired()

    async def pays(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    run_id = await bureau.dead_process(agent, pays, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, pays) as runs:
        assert triple((await resumed(runs, run_id)).state) == RECOVERY
        (question,) = await runs.questions(run_id)
        wrong: list[dict[str, JsonValue]] = [{"result": {"no": "receipt"}}, {"result": None}, {}]
        for details in wrong:
            with pytest.raises(CallerError, match="The request stays open"):
                await runs.answer(run_id, question.id, RecoveryDecision.DONE, **details)  # type: ignore[arg-type]
        with pytest.raises(CallerError, match="The request stays open"):
            await runs.approve(question.id)
        receipt: JsonObject = {"number": 3, "amount": "1"}
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=receipt)
        result = await resumed(runs, run_id)
    assert (result.output, bureau.world.done) == (3, [])


async def test_a_signal_that_the_agent_does_not_accept_is_refused_with_what_it_accepts() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, _ = await story.begin(runs)
        with pytest.raises(
            CallerError, match=r"does not accept 'external_event' signals\. It accepts: user_message"
        ):
            await runs.signal(run_id, AgentSignalKind.EXTERNAL_EVENT, {"n": 1})
        await story.is_unharmed(runs, run_id)


async def test_a_run_that_has_ended_takes_nothing_more() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        await runs.approve(question.id)
        result = await resumed(runs, run_id)
        rows = await story.bureau.rows(run_id)
        assert (await resumed(runs, run_id)).output == result.output
        with pytest.raises(CallerError, match="takes no signals any more"):
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": "too late"})
        with pytest.raises(AnswerConflictError, match="was answered 'approve'"):
            await runs.reject(question.id)
        await runs.approve(question.id)  # confirmed
        assert await runs.cancel(run_id) is False
        assert (await runs.result(run_id)).output == result.output
    assert await story.bureau.rows(run_id) == rows


async def test_an_input_that_does_not_fit_starts_nothing() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        for given in (None, 7, {"order": "A", "more": 1}, {"other": "A"}):
            with pytest.raises(AgentDefinitionError):
                await runs.start(story.agent, given)
        assert (await runs.list()).runs == ()


async def test_an_agent_of_another_application_starts_nothing() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        with pytest.raises(AgentDefinitionError, match="is not part of application"):
            await runs.start(hired("a stranger"), "A-17")
        with pytest.raises(AgentDefinitionError):
            await runs.start(str, "A-17")


async def test_an_id_that_exists_is_a_conflict_for_another_start() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        handle = await runs.start(story.agent, "A-17", id="mine")
        await handle.result()
        story.rows = await story.bureau.rows(handle.id)
        with pytest.raises(RunConflictError):
            await runs.start(story.agent, "A-18", id="mine")
        await story.is_unharmed(runs, handle.id)


async def test_a_cursor_that_is_none_is_refused() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, _ = await story.begin(runs)
        with pytest.raises(CallerError):
            runs.events(run_id, after="nonsense")
        await story.is_unharmed(runs, run_id)


async def test_a_signal_with_an_id_that_was_used_is_taken_in_once() -> None:
    story = Waiting()
    async with story.bureau.process(story.agent, refunds) as runs:
        run_id, question = await story.begin(runs)
        for _ in range(3):
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": "hello"}, id="once")
        assert len(await story.bureau.store.signals.list_pending(run_id)) == 1
        await runs.approve(question.id)
        assert (await resumed(runs, run_id)).status is AgentStatus.COMPLETED
