"""A person is asked once, answers once, and exactly what was allowed happens."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.office import (
    Clerk,
    Office,
    PatientClerk,
    Worker,
    answer,
    only_question,
    resume,
    start,
)

from pilotage import AgentStatus, ApprovalDecision, RunPausedEvent
from pilotage.agent import AgentApprovalRequest, AgentSignal, AgentSignalKind, RecoveryDecision
from pilotage.agent.state import AgentStateReason
from pilotage.errors import CallerError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.testing import ProcessStopped, StopAfter, StopBefore

APPROVE, REJECT, MODIFY = ApprovalDecision.APPROVE, ApprovalDecision.REJECT, ApprovalDecision.MODIFY
DEFER, CANCEL = ApprovalDecision.DEFER, ApprovalDecision.CANCEL


async def refund(worker: Worker) -> object:
    """One gated call between two notes."""
    await worker.desk.note("before")
    receipt = await worker.desk.refund(Decimal(5))
    await worker.desk.note("after")
    return str(receipt.amount)


async def persistent(worker: Worker) -> object:
    """Hears a no, and asks for something smaller."""
    try:
        await worker.desk.refund(Decimal(5))
    except ToolError as error:
        await worker.desk.note(str(error))
    return str((await worker.desk.refund(Decimal(1))).amount)


async def test_a_gated_call_waits_and_says_what_for() -> None:
    office = Office()
    async with office.process(refund) as runs:
        handle = await runs.start(Clerk, "A-17")
        paused = await handle.result()
        question = await only_question(runs, handle.id)
        (told,) = [event async for event in handle.events() if isinstance(event, RunPausedEvent)]
    assert isinstance(question, AgentApprovalRequest)
    assert paused.state.reason is AgentStateReason.APPROVAL_REQUIRED
    assert paused.state.current_activity == question.prompt == "Approve the call of tool 'refund'?"
    assert question.arguments == {"amount": "5"}
    assert (question.agent_state_id, question.call_id) == (handle.id, "run/tool:refund#1")
    assert (told.approval_id, told.reason) == (question.id, AgentStateReason.APPROVAL_REQUIRED)
    assert told.allowed_decisions == tuple(ApprovalDecision)
    assert office.world.done == ["note before"]


async def test_an_approved_call_happens_as_it_was_asked_for() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
    async with office.process(refund) as runs:
        result = await answer(runs, paused.state.id, APPROVE, comment="go on")
        assert await runs.questions(paused.state.id) == ()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "5")
    assert office.world.done == ["note before", "refund 5", "note after"]


async def test_a_modified_call_happens_with_the_other_arguments() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        result = await answer(runs, paused.state.id, MODIFY, modified_payload={"amount": "3"})
        rows = await office.rows(paused.state.id)
    before = next(row for row in rows if row.action_id == "run/tool:refund#1")
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "3")
    assert office.world.done == ["note before", "refund 3", "note after"]
    assert before.record == {"asked": {"amount": "5"}, "executed": {"amount": "3"}}


async def test_the_program_goes_on_asking_for_what_it_asked_before_somebody_modified_it() -> None:
    office = Office()

    async def twice(worker: Worker) -> object:
        first = await worker.desk.refund(Decimal(5))
        second = await worker.desk.refund(first.amount)
        return [str(first.amount), str(second.amount)]

    async with office.process(twice) as runs:
        paused = await start(runs)
        await answer(runs, paused.state.id, MODIFY, modified_payload={"amount": "3"})
    async with office.process(twice) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["3", "3"])
    assert office.world.done == ["refund 3", "refund 3"]


async def test_a_retry_after_a_crash_keeps_the_modified_arguments() -> None:
    office = Office()
    office.world.failures["refund 3"] = ProcessStopped("while refunding")
    async with office.process(refund) as runs:
        paused = await start(runs)
        with pytest.raises(ProcessStopped):
            await answer(runs, paused.state.id, MODIFY, modified_payload={"amount": "3"})
    async with office.process(refund) as runs:
        await resume(runs, paused.state.id)
        result = await answer(runs, paused.state.id, RecoveryDecision.RETRY)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "3")
    assert [knock[2] for knock in office.world.knocks if knock[0] == "refund 3"] == [1, 2]
    assert office.world.done.count("refund 3") == 1


async def test_a_rejection_ends_the_run() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        result = await answer(runs, paused.state.id, REJECT, comment="too much")
    assert result.status is AgentStatus.FAILED
    assert result.state.reason is AgentStateReason.APPROVAL_REJECTED
    assert (result.error or {})["message"] == "a person rejected the call: too much"
    assert office.world.done == ["note before"]


async def test_an_agent_that_wants_to_hear_of_a_rejection_goes_on_with_something_else() -> None:
    office = Office()
    async with office.process(persistent) as runs:
        paused = await start(runs, PatientClerk)
        waiting = await answer(runs, paused.state.id, REJECT, comment="too much")
        assert waiting.status is AgentStatus.INTERRUPTED
    async with office.process(persistent) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "1")
    assert office.world.done == ["note a person rejected this call: too much", "refund 1"]


async def test_an_agent_that_does_not_catch_a_told_rejection_fails_with_its_words() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs, PatientClerk)
        result = await answer(runs, paused.state.id, REJECT)
    assert result.status is AgentStatus.FAILED
    assert (result.error or {})["message"] == "ToolError: a person rejected this call: no reason given"


async def test_a_deferred_question_stays_open_and_is_answered_later() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        deferred = await answer(runs, paused.state.id, DEFER)
        assert deferred.state.reason is AgentStateReason.APPROVAL_DEFERRED
        assert (await only_question(runs, paused.state.id)).id == question.id
    async with office.process(refund) as runs:
        again = await resume(runs, paused.state.id)
        assert again.state.reason is AgentStateReason.APPROVAL_DEFERRED
        result = await answer(runs, paused.state.id, APPROVE)
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done.count("refund 5") == 1


async def test_a_cancelled_question_cancels_the_run() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        result = await answer(runs, paused.state.id, CANCEL)
    assert result.status is AgentStatus.CANCELLED
    assert office.world.done == ["note before"]


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_cancelling_answer_survives_a_crash(fault: type[StopBefore | StopAfter], number: int) -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        await runs.answer(paused.state.id, question.id, CANCEL)
    async with office.process(refund, fault=fault(number)) as runs:
        with pytest.raises(ProcessStopped):
            await resume(runs, paused.state.id)
    async with office.process(refund) as runs:
        if not (await runs.get(paused.state.id)).is_terminal:
            await resume(runs, paused.state.id)
        assert (await runs.get(paused.state.id)).status is AgentStatus.CANCELLED
    assert office.world.done == ["note before"]


async def test_a_question_has_the_same_id_after_every_restart() -> None:
    office = Office()
    asked: set[str] = set()
    async with office.process(refund) as runs:
        paused = await start(runs)
        asked.add((await only_question(runs, paused.state.id)).id)
    for _ in range(3):
        async with office.process(refund) as runs:
            await resume(runs, paused.state.id)
            asked.add((await only_question(runs, paused.state.id)).id)
    assert len(asked) == 1


async def test_an_answer_is_used_for_one_call_only() -> None:
    office = Office()

    async def twice(worker: Worker) -> object:
        return [(await worker.desk.refund(Decimal(5))).number, (await worker.desk.refund(Decimal(5))).number]

    async with office.process(twice) as runs:
        paused = await start(runs)
        first = await only_question(runs, paused.state.id)
        await answer(runs, paused.state.id, APPROVE)
        second = await only_question(runs, paused.state.id)
        assert first.id != second.id
        assert office.world.done == ["refund 5"]
        await runs.answer(paused.state.id, first.id, APPROVE)  # confirmed, and of no use for the second call
        assert (await resume(runs, paused.state.id)).status is AgentStatus.INTERRUPTED
        assert office.world.done == ["refund 5"]


BAD_ANSWERS: list[tuple[str, ApprovalDecision | RecoveryDecision, JsonObject, str]] = [
    ("a decision of another kind of question", RecoveryDecision.RETRY, {}, "has the decision 'retry'"),
    ("modify without arguments", MODIFY, {}, "without a modified_payload"),
    ("modify with something that is no object", MODIFY, {"modified_payload": "3"}, "of type str"),
    ("modify with an unknown argument", MODIFY, {"modified_payload": {"sum": "3"}}, "'amount' is missing"),
    (
        "modify with an argument of another type",
        MODIFY,
        {"modified_payload": {"amount": "much"}},
        "'amount' should be a valid decimal",
    ),
    ("approve with other arguments", APPROVE, {"modified_payload": {"amount": "3"}}, "Decide 'modify'"),
    ("a blank comment", APPROVE, {"comment": " "}, "has the comment ' '"),
]


@pytest.mark.parametrize(
    ("decision", "details", "words"), [row[1:] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS]
)
async def test_a_bad_answer_is_told_to_its_sender_and_leaves_the_question_open(
    decision: ApprovalDecision | RecoveryDecision, details: dict[str, JsonValue], words: str
) -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        rows = await office.rows(paused.state.id)
        with pytest.raises(CallerError) as error:
            await runs.answer(paused.state.id, question.id, decision, **details)
        assert words in str(error.value)
        assert str(error.value).endswith("The request stays open.")
        assert await office.store.signals.list_pending(paused.state.id) == []
        assert await office.rows(paused.state.id) == rows
        assert (await only_question(runs, paused.state.id)).id == question.id
        assert office.world.done == ["note before"]
        result = await answer(runs, paused.state.id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "5")


@pytest.mark.parametrize(
    ("decision", "details"),
    [(row[1].value, row[2]) for row in BAD_ANSWERS] + [("maybe", {})],
    ids=[row[0] for row in BAD_ANSWERS] + ["a decision that does not exist"],
)
async def test_a_bad_answer_that_was_sent_past_the_check_leaves_the_question_open(
    decision: str, details: JsonObject
) -> None:
    office = Office()
    async with office.process(refund) as runs:
        run_id = (await start(runs)).state.id
        question = await only_question(runs, run_id)
        payload: JsonObject = {"request_id": question.id, "decision": decision, **details}
        await office.store.signals.append(
            AgentSignal("s-1", run_id, AgentSignalKind.APPROVAL_DECISION, payload)
        )
        assert (await resume(runs, run_id)).state.reason is AgentStateReason.APPROVAL_REQUIRED
        assert (await only_question(runs, run_id)).id == question.id
        assert await office.store.signals.list_pending(run_id) == []
        assert office.world.done == ["note before"]
        result = await answer(runs, run_id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "5")


async def test_an_answer_to_something_that_was_not_asked_is_refused() -> None:
    office = Office()
    async with office.process(refund) as runs:
        mine, other = await start(runs), await start(runs)
        others_question = await only_question(runs, other.state.id)
        for request_id in ("nobody-asked", others_question.id):
            with pytest.raises(CallerError) as error:
                await runs.answer(mine.state.id, request_id, APPROVE)
            assert str(error.value) == (
                f"run {mine.state.id!r} waits for no answer to request {request_id!r}."
            )
        assert await office.store.signals.list_pending(mine.state.id) == []
        assert (await resume(runs, mine.state.id)).status is AgentStatus.INTERRUPTED


@pytest.mark.parametrize(
    ("decision", "status"),
    [("approve", AgentStatus.COMPLETED), ("reject", AgentStatus.FAILED), ("defer", AgentStatus.INTERRUPTED)],
)
async def test_a_request_finds_its_run(decision: str, status: AgentStatus) -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        await getattr(runs, decision)(question.id, comment="by id")
        assert (await resume(runs, paused.state.id)).status is status


async def test_a_modified_request_finds_its_run() -> None:
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        await runs.modify(question.id, {"amount": "2"})
        assert (await resume(runs, paused.state.id)).output == "2"


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 5))
async def test_an_approved_call_happens_once_wherever_the_process_dies(
    fault: type[StopBefore | StopAfter], number: int
) -> None:
    """The answer is used up and the call begun in one commit: a crash never asks twice, nor acts unasked."""
    office = Office()
    async with office.process(refund) as runs:
        paused = await start(runs)
        question = await only_question(runs, paused.state.id)
        await runs.answer(paused.state.id, question.id, APPROVE)
    async with office.process(refund, fault=fault(number)) as runs:
        with pytest.raises(ProcessStopped):
            await resume(runs, paused.state.id)
    async with office.process(refund) as runs:
        if not (await runs.get(paused.state.id)).is_terminal:
            result = await resume(runs, paused.state.id)
            if result.status is AgentStatus.INTERRUPTED:
                done = "refund 5" in office.world.done
                decision = RecoveryDecision.DONE if done else RecoveryDecision.RETRY
                details: JsonObject = {"result": {"number": 2, "amount": "5"}} if done else {}
                await answer(runs, paused.state.id, decision, **details)
        assert (await runs.get(paused.state.id)).status is AgentStatus.COMPLETED
    assert office.world.done.count("refund 5") == 1
