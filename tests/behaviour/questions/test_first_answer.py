"""The first valid answer other than DEFER closes its question for everybody; a later, different one is a conflict."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker

from pilotage import AgentStatus, ApprovalDecision, Principal, RunContext
from pilotage.agent import AgentApprovalBoundaryKind as Boundary
from pilotage.agent import AgentApprovalRequest, AgentEvidence, ApprovalSubject, IAgentApprovalHandler
from pilotage.agent.approval import ANY_PRINCIPAL, BUILT_IN_POLICY
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.errors import AnswerConflictError, CallerError
from pilotage.runtime import AgentRuns
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import StopAfter

AGENT = hired()
ADA, BOB = Principal("ada"), Principal("bob")
ANSWER = AgentSignalKind.APPROVAL_DECISION


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def waiting(runs: AgentRuns, agent: type[Worker] = AGENT) -> tuple[str, str]:
    """A run that waits for an approval, and its question."""
    result = await started(runs, agent)
    (question,) = await runs.questions(result.state.id)
    return result.state.id, question.id


async def refused_in(runs: AgentRuns, run_id: str) -> list[AgentEvidence]:
    return [each for each in await runs.evidence(run_id) if each.payload.get("end") == "refused"]


@pytest.mark.parametrize("is_taken", [False, True], ids=["stored", "taken"])
async def test_a_different_answer_is_a_conflict_that_says_who_and_when(is_taken: bool) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        at = bureau.clock.now()
        await runs.approve(question, resume=False, principal=ADA)
        assert await runs.questions(run_id) == ()
        if is_taken:
            assert triple((await resumed(runs, run_id)).state) == COMPLETED
        bureau.clock.advance(60)
        with pytest.raises(AnswerConflictError) as caught:
            await runs.reject(question, comment="too dear", principal=BOB)
        assert (caught.value.decision, caught.value.decided_by, caught.value.decided_at) == (
            "approve",
            "ada",
            at,
        )
        assert f"was answered 'approve' by 'ada' at {at.isoformat()}" in str(caught.value)
        (evidence,) = await refused_in(runs, run_id)
        assert evidence.payload == {
            "request_id": question,
            "decision": "reject",
            "decided_by": "bob",
            "comment": "too dear",
            "reason": "answer_conflict",
            "end": "refused",
        }
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await runs.verify(run_id) > 0
    assert bureau.world.done == ["refund 1"]


async def test_the_same_answer_again_is_confirmed_before_and_after_the_run_took_it() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        for by in (ADA, BOB):
            await runs.approve(question, comment=by.id, resume=False, principal=by)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        await runs.approve(question, principal=BOB)
        assert await refused_in(runs, run_id) == []
    assert bureau.world.done == ["refund 1"]


async def test_a_confirmed_answer_lets_a_run_go_on_whose_first_sender_died() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        await runs.approve(question, resume=False)
    async with bureau.process(AGENT, refunds) as runs:
        await runs.approve(question)
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED


async def test_a_late_cancel_names_the_way_to_cancel_which_always_works() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        await runs.approve(question, resume=False, principal=ADA)
        with pytest.raises(AnswerConflictError, match=f"`pilotage runs cancel {run_id}`"):
            await runs.answer(run_id, question, ApprovalDecision.CANCEL, principal=BOB)
        assert await runs.cancel(run_id, principal=BOB)
        assert (await runs.get(run_id)).status is AgentStatus.CANCELLED
    assert bureau.world.done == []


async def test_a_deferral_leaves_the_question_open_and_comes_too_late_after_an_answer() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        await runs.defer(question, principal=ADA)
        assert [each.id for each in await runs.questions(run_id)] == [question]
        await runs.approve(question, resume=False, principal=BOB)
        with pytest.raises(AnswerConflictError, match="by 'bob'"):
            await runs.defer(question, principal=ADA)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED


async def test_other_arguments_are_another_answer() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        _, question = await waiting(runs)
        await runs.modify(question, {"amount": "3"}, resume=False)
        await runs.modify(question, {"amount": "3"}, resume=False)
        with pytest.raises(AnswerConflictError):
            await runs.modify(question, {"amount": "4"})


async def test_an_answer_as_a_signal_is_checked_and_counted_like_any_other() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        yes, no = ({"request_id": question, "decision": each} for each in ("approve", "reject"))
        with pytest.raises(CallerError, match="'modify' without"):
            await runs.signal(run_id, ANSWER, {**yes, "decision": "modify"})
        first = await runs.signal(run_id, ANSWER, yes, id="mine", principal=ADA)
        again = await runs.signal(run_id, ANSWER, yes, id="mine", principal=ADA)
        assert (first.id, again.id, again.payload) == ("mine", "mine", first.payload)
        with pytest.raises(AnswerConflictError, match="by 'ada'"):
            await runs.signal(run_id, ANSWER, no, principal=BOB)
        assert len(await refused_in(runs, run_id)) == 1


async def test_no_sender_can_take_the_key_of_a_question() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=(AgentSignalKind.USER_MESSAGE,))
    async with bureau.process(agent, refunds) as runs:
        run_id, question = await waiting(runs, agent)
        for prefix in ("answer:", "refused:"):
            with pytest.raises(CallerError, match="begins like one of an answer"):
                await runs.signal(
                    run_id, AgentSignalKind.USER_MESSAGE, {"text": "x"}, id=f"{prefix}{question}"
                )
        await runs.approve(question)


async def test_an_answer_that_the_run_cannot_use_does_not_close_the_question() -> None:
    """Code that writes to the repository is not checked: its answer is refused by the run, and the next one counts."""
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id, question = await waiting(runs)
        wrong = {"request_id": question, "decision": "modify", "modified_payload": {"amount": "much"}}
        await bureau.store.signals.append(AgentSignal(f"answer:{question}", run_id, ANSWER, wrong))
        assert triple((await resumed(runs, run_id)).state) == WAITING
        (kept,) = await bureau.store.signals.list_answers(run_id)
        assert kept.end is AgentSignalEnd.REFUSED
        await runs.approve(question, principal=ADA)
        with pytest.raises(AnswerConflictError, match="by 'ada'"):
            await runs.reject(question, principal=BOB)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED


async def test_the_comment_of_a_refused_answer_is_redacted() -> None:
    card = StreamingSensitivePattern("card", r"4111-\d{4}", replacement="[card]")
    agent, bureau = hired(redaction=StreamingRedactionPolicy((card,))), Bureau()
    async with bureau.process(agent, refunds) as runs:
        run_id, question = await waiting(runs, agent)
        await runs.approve(question, resume=False)
        with pytest.raises(AnswerConflictError):
            await runs.reject(question, comment="from 4111-0815?")
        (evidence,) = await refused_in(runs, run_id)
    assert evidence.payload["comment"] == "from [card]?"


async def test_an_answer_about_an_unknown_outcome_closes_its_question_too() -> None:
    async def pays(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    bureau = Bureau()
    run_id = await bureau.dead_process(AGENT, pays, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(AGENT, pays) as runs:
        assert (await resumed(runs, run_id)).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(run_id)
        retry, fail = RecoveryDecision.RETRY, RecoveryDecision.FAIL
        await runs.answer(run_id, question.id, retry, resume=False, principal=ADA)
        await runs.answer(run_id, question.id, retry, resume=False, principal=BOB)
        with pytest.raises(AnswerConflictError, match="was answered 'retry' by 'ada'"):
            await runs.answer(run_id, question.id, fail, principal=BOB)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        with pytest.raises(AnswerConflictError, match="was answered 'retry' by 'ada'"):
            await runs.answer(run_id, question.id, fail, principal=BOB)
        assert len(await refused_in(runs, run_id)) == 1


class Asks(IAgentApprovalHandler):
    """Asks about every tool call, by a policy of a version."""

    def __init__(self, version: str | None) -> None:
        self.policy_version = version

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not Boundary.TOOL_INVOCATION:
            return None
        prompt = f"May it, by policy {self.policy_version}?"
        return AgentApprovalRequest("id", "run", subject.boundary, prompt, ToolRisk(), "action")


async def test_a_question_is_bound_to_who_caused_it_who_may_answer_and_the_policy() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        handle = await runs.start(AGENT, "A-17", principal=ADA)
        await handle.result()
        (question,) = await runs.questions(handle.id)
        assert isinstance(question, AgentApprovalRequest)
        bound = (question.requested_by, question.approver_scope, question.policy_version)
        assert bound == ("ada", ANY_PRINCIPAL, BUILT_IN_POLICY)
        asked = next(each for each in await runs.evidence(handle.id) if each.payload.get("id") == question.id)
        named = ("requested_by", "approver_scope", "policy_version", "binding")
        assert tuple(asked.payload[name] for name in named) == (*bound, question.binding)


@pytest.mark.parametrize("is_answered", [True, False], ids=["approved", "open"])
async def test_a_question_under_another_policy_is_asked_anew(is_answered: bool) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds, Asks("1")) as runs:
        run_id, first = await waiting(runs)
        if is_answered:
            await runs.approve(first, resume=False)
    async with bureau.process(AGENT, refunds, Asks("2")) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
        (second,) = await runs.questions(run_id)
        assert isinstance(second, AgentApprovalRequest)
        assert (second.id != first, second.policy_version) == (True, "2")
        assert second.prompt == "May it, by policy 2?"
        assert bureau.world.done == []
        assert len(await refused_in(runs, run_id)) == is_answered
        outdated = [
            each.payload["outdated"] for each in await runs.evidence(run_id) if "outdated" in each.payload
        ]
        assert outdated == ["the version of the policy was '1' and is '2'"]
        with pytest.raises(CallerError, match="waits for no answer"):
            await runs.approve(first)
        await runs.approve(second.id)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await runs.verify(run_id) > 0
    assert bureau.world.done == ["refund 1"]


async def test_an_approval_under_the_same_policy_counts_in_another_process() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds, Asks("1")) as runs:
        run_id, question = await waiting(runs)
        await runs.approve(question, resume=False)
    async with bureau.process(AGENT, refunds, Asks("1")) as runs:
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
