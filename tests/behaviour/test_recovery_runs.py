"""What a tool that fails, or a process that dies in one, leads to: recorded, repeated, or left to a person."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.behaviour.office import Clerk, Office, Receipt, Worker, answer, only_question, resume, start
from tests.failing import without_ids

from pilotage import AgentStatus, RunPausedEvent
from pilotage.agent import AgentRecoveryRequest, AgentSignal, AgentSignalKind, RecoveryDecision
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentStateReason
from pilotage.errors import CallerError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object
from pilotage.testing import ProcessStopped, StopAfter, StopBefore

RETRY, DONE = RecoveryDecision.RETRY, RecoveryDecision.DONE
FAIL, CANCEL = RecoveryDecision.FAIL, RecoveryDecision.CANCEL
DIED = ProcessStopped("while it was paying")
BROKE = ConnectionError("the line broke")


async def pay(worker: Worker) -> object:
    """One call that nobody can repeat, between two notes."""
    await worker.desk.note("before")
    receipt = await worker.desk.pay(Decimal(5))
    assert isinstance(receipt, Receipt)
    await worker.desk.note("after")
    return receipt.number


async def unknown_payment(office: Office, failure: BaseException) -> str:
    """A run that waits for a person to say what became of its payment."""
    office.world.failures["pay 5"] = failure
    async with office.process(pay) as runs:
        handle = await runs.start(Clerk, "A-17")
        if isinstance(failure, ProcessStopped):
            with pytest.raises(ProcessStopped):
                await handle.result()
        else:
            await handle.result()
    async with office.process(pay) as runs:
        paused = await resume(runs, handle.id)
    assert paused.state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
    assert office.world.done == ["note before"]
    return handle.id


UNKNOWN = pytest.mark.parametrize("failure", [DIED, BROKE], ids=["death", "exception"])


@UNKNOWN
async def test_an_unknown_outcome_is_a_question_about_one_attempt(failure: BaseException) -> None:
    office = Office()
    run_id = await unknown_payment(office, failure)
    async with office.process(pay) as runs:
        question = await only_question(runs, run_id)
    assert isinstance(question, AgentRecoveryRequest)
    assert (question.action_id, question.attempt) == ("run/tool:pay#1", 1)
    assert (question.action_kind, question.action_name) == (AgentActionKind.TOOL_CALL, "pay")
    assert question.reason == "It is not known whether attempt 1 of 'pay' took effect."
    assert question.arguments == {"view": {"amount": "5"}}
    assert question.allowed_decisions == tuple(RecoveryDecision)


async def test_a_live_subscriber_hears_of_the_question() -> None:
    office = Office()
    office.world.failures["pay 5"] = BROKE
    async with office.process(pay) as runs:
        handle = await runs.start(Clerk, "A-17")
        await handle.result()
        (told,) = [event async for event in handle.events() if isinstance(event, RunPausedEvent)]
        assert told.approval_id == (await only_question(runs, handle.id)).id
    assert told.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
    assert told.prompt == "It is not known whether attempt 1 of 'pay' took effect."


@UNKNOWN
async def test_a_retry_is_a_new_attempt_with_the_same_key(failure: BaseException) -> None:
    office = Office()
    run_id = await unknown_payment(office, failure)
    async with office.process(pay) as runs:
        result = await answer(runs, run_id, RETRY)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 2)
    assert office.world.done == ["note before", "pay 5", "note after"]
    first, second = [knock for knock in office.world.knocks if knock[0] == "pay 5"]
    assert (first[1], first[2], second[2]) == (second[1], 1, 2)


@UNKNOWN
async def test_what_is_done_comes_back_in_its_type_and_does_not_happen_again(failure: BaseException) -> None:
    office = Office()
    run_id = await unknown_payment(office, failure)
    async with office.process(pay) as runs:
        result = await answer(runs, run_id, DONE, result={"number": 17, "amount": "5"})
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 17)
    assert office.world.done == ["note before", "note after"]


async def test_what_a_person_said_was_done_is_replayed_like_any_result() -> None:
    office = Office()
    numbers: list[int] = []

    async def program(worker: Worker) -> object:
        receipt = await worker.desk.pay(Decimal(5))
        numbers.append(receipt.number)
        await worker.desk.refund(receipt.amount)

    office.world.failures["pay 5"] = BROKE
    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        await answer(runs, run_id, DONE, result={"number": 17, "amount": "5"})
    async with office.process(program) as runs:
        await resume(runs, run_id)
    assert numbers == [17, 17]
    assert office.world.done == []


@UNKNOWN
@pytest.mark.parametrize(
    ("comment", "words"),
    [("the bank says no", "the bank says no"), (None, "a person decided that the run failed")],
)
async def test_a_person_may_let_the_run_fail(failure: BaseException, comment: str | None, words: str) -> None:
    office = Office()
    run_id = await unknown_payment(office, failure)
    async with office.process(pay) as runs:
        result = await answer(runs, run_id, FAIL, comment=comment)
    assert (result.status, (result.error or {})["message"]) == (AgentStatus.FAILED, words)
    assert office.world.done == ["note before"]


@UNKNOWN
async def test_a_person_may_cancel_the_run(failure: BaseException) -> None:
    office = Office()
    run_id = await unknown_payment(office, failure)
    async with office.process(pay) as runs:
        result = await answer(runs, run_id, CANCEL)
    assert result.status is AgentStatus.CANCELLED
    assert office.world.done == ["note before"]


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_cancelling_answer_survives_a_death(fault: type[StopBefore | StopAfter], number: int) -> None:
    office = Office()
    run_id = await unknown_payment(office, BROKE)
    async with office.process(pay) as runs:
        question = await only_question(runs, run_id)
        await runs.answer(run_id, question.id, CANCEL)
    async with office.process(pay, fault=fault(number)) as runs:
        with pytest.raises(ProcessStopped):
            await resume(runs, run_id)
    async with office.process(pay) as runs:
        if not (await runs.get(run_id)).is_terminal:
            await resume(runs, run_id)
        assert (await runs.get(run_id)).status is AgentStatus.CANCELLED
    assert office.world.done == ["note before"]


async def test_a_retry_that_fails_again_is_asked_about_again() -> None:
    office = Office()
    run_id = await unknown_payment(office, DIED)
    async with office.process(pay) as runs:
        first = await only_question(runs, run_id)
        office.world.failures["pay 5"] = ConnectionError("again")
        await answer(runs, run_id, RETRY)
        second = await only_question(runs, run_id)
        assert isinstance(second, AgentRecoveryRequest)
        assert (second.attempt, second.id == first.id) == (2, False)
        result = await answer(runs, run_id, RETRY)
    assert result.status is AgentStatus.COMPLETED
    assert [knock[2] for knock in office.world.knocks if knock[0] == "pay 5"] == [1, 2, 3]
    assert office.world.done.count("pay 5") == 1


async def test_a_death_during_a_retry_is_asked_about_again() -> None:
    office = Office()
    run_id = await unknown_payment(office, BROKE)
    async with office.process(pay) as runs:
        office.world.failures["pay 5"] = DIED
        with pytest.raises(ProcessStopped):
            await answer(runs, run_id, RETRY)
    async with office.process(pay) as runs:
        await resume(runs, run_id)
        question = await only_question(runs, run_id)
        assert isinstance(question, AgentRecoveryRequest)
        assert question.attempt == 2
    assert office.world.done == ["note before"]


async def test_a_question_about_an_outcome_has_the_same_id_after_every_restart() -> None:
    office = Office()
    run_id = await unknown_payment(office, DIED)
    asked: set[str] = set()
    for _ in range(3):
        async with office.process(pay) as runs:
            await resume(runs, run_id)
            asked.add((await only_question(runs, run_id)).id)
    assert len(asked) == 1
    assert office.world.done == ["note before"]


BAD_ANSWERS: list[tuple[str, RecoveryDecision, JsonObject, str]] = [
    ("done without a result", DONE, {}, "without a result"),
    ("a blank comment", RETRY, {"comment": ""}, "has the comment ''"),
    ("a comment that is no text", RETRY, {"comment": 7}, "has the comment 7"),
]


@pytest.mark.parametrize(
    ("decision", "details", "words"), [row[1:] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS]
)
async def test_a_bad_answer_is_told_to_its_sender_and_leaves_the_question_open(
    decision: RecoveryDecision, details: dict[str, JsonValue], words: str
) -> None:
    office = Office()
    run_id = await unknown_payment(office, DIED)
    async with office.process(pay) as runs:
        question = await only_question(runs, run_id)
        with pytest.raises(CallerError) as error:
            await runs.answer(run_id, question.id, decision, **details)
        assert words in str(error.value)
        assert str(error.value).endswith("The request stays open.")
        assert await office.store.signals.list_pending(run_id) == []
        assert (await only_question(runs, run_id)).id == question.id
        assert (await answer(runs, run_id, RETRY)).status is AgentStatus.COMPLETED


@pytest.mark.parametrize(
    ("decision", "details"), [row[1:3] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS]
)
async def test_a_bad_answer_that_was_sent_past_the_check_leaves_the_question_open(
    decision: RecoveryDecision, details: JsonObject
) -> None:
    office = Office()
    run_id = await unknown_payment(office, DIED)
    async with office.process(pay) as runs:
        question = await only_question(runs, run_id)
        payload: JsonObject = {"request_id": question.id, "decision": decision.value, **details}
        await office.store.signals.append(
            AgentSignal("s-1", run_id, AgentSignalKind.APPROVAL_DECISION, payload)
        )
        assert (await resume(runs, run_id)).state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert (await only_question(runs, run_id)).id == question.id
        assert await office.store.signals.list_pending(run_id) == []
        assert (await answer(runs, run_id, RETRY)).status is AgentStatus.COMPLETED


FAILURES: list[tuple[str, str, Exception, str]] = [
    ("an unrepeatable tool that says it failed", "pay", ToolError("no funds"), "no funds"),
    ("a repeatable tool that says it failed", "note", ToolError("no paper"), "no paper"),
    ("a reading tool that says it failed", "look", ToolError("no light"), "no light"),
    ("an exception of a repeatable tool", "note", OSError("torn"), "OSError (error ...)"),
    ("an exception of a reading tool", "look", KeyError("x"), "KeyError (error ...)"),
]


@pytest.mark.parametrize(
    ("tool", "failure", "words"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
async def test_a_definite_failure_is_recorded_and_raised_again_in_replay(
    tool: str, failure: Exception, words: str
) -> None:
    office = Office()
    heard: list[str] = []

    async def program(worker: Worker) -> object:
        desk = worker.desk
        call = {
            "pay": lambda: desk.pay(Decimal(1)),
            "note": lambda: desk.note("1"),
            "look": lambda: desk.look("1"),
        }
        with pytest.raises(ToolError) as error:
            await call[tool]()
        heard.append(without_ids(error.value))
        await worker.desk.refund(Decimal(1))

    office.world.failures[f"{tool} 1"] = failure
    async with office.process(program) as runs:
        paused = await start(runs)
        rows = [row for row in await office.rows(paused.state.id) if row.action_id == f"run/tool:{tool}#1"]
    async with office.process(program) as runs:
        again = await resume(runs, paused.state.id)
    assert paused.state.reason is again.state.reason is AgentStateReason.APPROVAL_REQUIRED
    assert heard == [words, words]
    assert without_ids(as_object(rows[-1].record)["error"]) == words
    assert office.world.done == []


async def test_a_failure_that_nobody_catches_ends_the_run() -> None:
    office = Office()
    office.world.failures["pay 5"] = ToolError("no funds")
    async with office.process(pay) as runs:
        result = await start(runs)
    assert (result.status, (result.error or {})["message"]) == (AgentStatus.FAILED, "ToolError: no funds")


@pytest.mark.parametrize("call", ["note", "look"])
async def test_a_repeatable_call_in_which_the_process_died_is_made_again(call: str) -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        if call == "note":
            return await worker.desk.note("1")
        return str(await worker.desk.look("1"))

    office.world.failures[f"{call} 1"] = ProcessStopped("in it")
    async with office.process(program) as runs:
        handle = await runs.start(Clerk, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    async with office.process(program) as runs:
        result = await resume(runs, handle.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "1")
    assert office.world.done == [f"{call} 1"]


async def test_a_paused_attempt_stays_dead_in_finally_blocks() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        try:
            return (await worker.desk.refund(Decimal(1))).number
        finally:
            await worker.desk.note("cleaning up")

    async with office.process(program) as runs:
        paused = await start(runs)
    assert paused.status is AgentStatus.INTERRUPTED
    assert office.world.done == []


async def test_a_pause_cannot_be_swallowed_by_except_exception() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        try:
            return (await worker.desk.refund(Decimal(1))).number
        except Exception:  # noqa: BLE001 - what careless programs do
            return "swallowed"

    async with office.process(program) as runs:
        paused = await start(runs)
    assert paused.status is AgentStatus.INTERRUPTED


async def test_the_journal_has_one_before_and_one_after_row_for_each_attempt() -> None:
    office = Office()
    run_id = await unknown_payment(office, DIED)
    async with office.process(pay) as runs:
        await answer(runs, run_id, RETRY)
    rows = [row for row in await office.rows(run_id) if row.action_id.startswith("run/tool:pay#1")]
    assert [(row.action_id.rpartition("/")[2], row.stage.value, row.attempt) for row in rows] == [
        ("tool:pay#1", "before", 1),
        ("recovery1", "before", 1),
        ("recovery1", "after", 1),
        ("tool:pay#1", "before", 2),
        ("tool:pay#1", "after", 2),
    ]
    assert rows[-1].record == {"result": {"number": 2, "amount": "5"}}


async def test_a_question_about_an_unknown_outcome_says_what_is_known_of_the_attempt() -> None:
    office = Office()
    leases = office.store.leases

    async def program(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    office.world.failures["pay 1"] = ConnectionError("gone")
    async with office.process(program, leases=leases) as runs:
        paused = await start(runs)
        (question,) = await runs.questions(paused.state.id)
        assert isinstance(question, AgentRecoveryRequest)
        begun = question.begun
        assert begun is not None
        assert (begun.epoch, begun.began_at, begun.may_be_alive) == (1, office.clock.now(), True)
        assert begun.idempotency_key == office.world.knocks[0][1]
        assert begun.process == runs.services.owner
        assert begun.result_schema is not None
        assert set(as_object(begun.result_schema["properties"])) == {"number", "amount"}
    async with office.process(program, leases=leases) as runs:
        (again,) = await runs.questions(paused.state.id)
        assert isinstance(again, AgentRecoveryRequest)
        assert again.begun is not None
        assert (again.begun.process, again.begun.may_be_alive) == (begun.process, False)
        run = RunKey("default", paused.state.id)
        await leases.acquire(run, str(begun.process), 30)
        (again,) = await runs.questions(paused.state.id)
        assert isinstance(again, AgentRecoveryRequest)
        assert again.begun is not None
        assert again.begun.may_be_alive
