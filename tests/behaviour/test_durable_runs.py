"""A run is written down as it goes: what it did is replayed, never repeated, and nobody else sees it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import cast

import pytest
from tests.behaviour.bureau import Bureau, hired
from tests.behaviour.office import Clerk, Office, Receipt, Worker, answer, resume, start
from tests.failing import without_ids

from pilotage import AgentDefinitionError, AgentSignalKind, AgentStatus, ApprovalDecision, Principal
from pilotage.agent import JournalStage
from pilotage.agent.principal import LOCAL
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FailWrite, LoseReply, ProcessStopped, StopAfter, StopBefore
from pilotage.testing.encoded import EncodedRow

APPROVE = ApprovalDecision.APPROVE
ELSEWHERE = Principal("eve", tenant="elsewhere")


async def every_kind(worker: Worker) -> object:
    """One call of each kind of tool, the gated one last."""
    price = await worker.desk.look("price")
    note = await worker.desk.note("begun")
    paid = await worker.desk.pay(price)
    refunded = await worker.desk.refund(paid.amount)
    return [str(price), note, paid.number, refunded.number]


async def nothing(worker: Worker) -> object:
    """A program without any action."""
    return "done"


async def test_a_run_gives_its_output_live_and_afterwards() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        live = await start(runs)
        kept = await runs.result(live.state.id)
    assert (live.status, live.output) == (AgentStatus.COMPLETED, "done")
    assert (kept.status, kept.output) == (AgentStatus.COMPLETED, "done")


async def test_a_started_run_is_durable_before_it_does_anything() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        handle = await runs.start(Clerk, "A-17")
        (first,) = await office.rows(handle.id)
        assert (first.stage, first.epoch) == (JournalStage.CLAIMED, 1)
        assert (await runs.get(handle.id)).status is AgentStatus.ACTIVE
        await handle.result()


async def test_a_resumed_run_repeats_none_of_what_it_did() -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        paused = await start(runs)
    before = ["look price", "note begun", "pay 1"]
    assert office.world.done == before
    async with office.process(every_kind) as runs:
        result = await answer(runs, paused.state.id, APPROVE)
    assert result.output == ["1", "begun", 3, 4]
    assert office.world.done == [*before, "refund 1"]


async def test_replaying_writes_a_claim_and_what_it_told_and_nothing_else() -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        paused = await start(runs)
        before = await office.rows(paused.state.id)
        again = await resume(runs, paused.state.id)
        after = await office.rows(paused.state.id)
    assert again.state.status is AgentStatus.INTERRUPTED
    assert after[: len(before)] == before
    claim, told = after[len(before) :]
    assert (claim.stage, told.stage) == (JournalStage.CLAIMED, JournalStage.TOLD)
    assert isinstance(told.view, dict)
    events = cast("list[dict[str, object]]", told.view["events"])
    assert [each["kind"] for each in events] == ["run_started", "run_paused"]


async def test_replayed_results_have_the_types_of_the_live_ones() -> None:
    office = Office()
    seen: list[list[object]] = []

    async def program(worker: Worker) -> object:
        seen.append([await worker.desk.look("price"), await worker.desk.pay(Decimal("2.50"))])
        await worker.desk.refund(Decimal(1))

    async with office.process(program) as runs:
        paused = await start(runs)
    async with office.process(program) as runs:
        await resume(runs, paused.state.id)
    live, replayed = seen
    assert live == replayed == [Decimal(1), Receipt(2, Decimal("2.50"))]


@pytest.mark.parametrize("decision", [APPROVE, ApprovalDecision.REJECT, ApprovalDecision.CANCEL])
async def test_resuming_an_ended_run_gives_its_result_and_does_nothing(decision: ApprovalDecision) -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        paused = await start(runs)
        ended = await answer(runs, paused.state.id, decision)
        rows, done = await office.rows(paused.state.id), list(office.world.done)
        again = await (await runs.resume(paused.state.id)).result()
        assert (again.state.status, again.output) == (ended.state.status, ended.output)
        assert (await office.rows(paused.state.id), office.world.done) == (rows, done)


async def test_an_exception_of_the_program_ends_the_run_with_its_type_and_an_id() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        raise ValueError("no such order")

    async with office.process(program) as runs:
        result = await start(runs)
    assert result.status is AgentStatus.FAILED
    assert without_ids((result.error or {})["message"]) == "ValueError (error ...)"
    assert str(result.cause) == "no such order"


async def test_an_output_without_a_json_form_ends_the_run() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return object()

    async with office.process(program) as runs:
        result = await start(runs)
    assert result.status is AgentStatus.FAILED
    assert without_ids((result.error or {})["message"]) == "TypeError (error ...)"
    assert str(result.cause) == "object has no JSON form"


async def test_a_tool_gets_the_same_key_in_every_process() -> None:
    office = Office()
    office.world.failures["note begun"] = ProcessStopped("while it was noting")

    async def program(worker: Worker) -> object:
        await worker.desk.note("begun")
        await worker.desk.note("ended")

    async with office.process(program) as runs:
        handle = await runs.start(Clerk, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    async with office.process(program) as runs:
        assert (await resume(runs, handle.id)).status is AgentStatus.COMPLETED
    first, again, other = office.world.knocks
    assert first == again == ("note begun", first[1], 1)
    assert other[1] != first[1]


@pytest.mark.parametrize("fault", [LoseReply(2), FailWrite(2)])
async def test_a_write_that_fails_once_is_made_again(fault: LoseReply | FailWrite) -> None:
    office = Office()
    async with office.process(every_kind, fault=fault) as runs:
        paused = await start(runs)
        assert paused.status is AgentStatus.INTERRUPTED
        assert await runs.verify(paused.state.id) == len(await office.rows(paused.state.id))
    assert office.world.done == ["look price", "note begun", "pay 1"]


@pytest.mark.parametrize("fault", [StopBefore(1), StopAfter(1)])
async def test_a_run_exists_when_its_first_commit_does(fault: StopBefore | StopAfter) -> None:
    office = Office()
    async with office.process(nothing, fault=fault) as runs:
        with pytest.raises(ProcessStopped):
            await runs.start(Clerk, "A-17")
    known = await office.store.states.list_resume_candidates()
    assert len(known) == isinstance(fault, StopAfter)


async def test_the_input_reaches_execute_and_is_checked_before_anything_is_written() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        with pytest.raises(AgentDefinitionError, match=r"^Clerk: input 'order' does not fit: Input "):
            await runs.start(Clerk, 17)
        with pytest.raises(AgentDefinitionError, match=r"^Clerk: the input cannot be stored: "):
            await runs.start(Clerk, object())
    assert await office.store.states.list_resume_candidates() == []
    assert office.journal.commits == 0


async def test_a_foreign_tenant_finds_nothing() -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        paused = await start(runs)
        run_id, rows = paused.state.id, await office.rows(paused.state.id)
        (question,) = await runs.questions(run_id)
        attempts = [
            runs.get(run_id, principal=ELSEWHERE),
            runs.result(run_id, principal=ELSEWHERE),
            runs.resume(run_id, principal=ELSEWHERE),
            runs.questions(run_id, principal=ELSEWHERE),
            runs.answer(run_id, question.id, APPROVE, principal=ELSEWHERE),
            runs.approve(question.id, principal=ELSEWHERE),
            runs.signal(run_id, AgentSignalKind.PAUSE, principal=ELSEWHERE),
            runs.cancel(run_id, principal=ELSEWHERE),
            runs.fork(run_id, principal=ELSEWHERE),
            runs.verify(run_id, principal=ELSEWHERE),
            anext(runs.events(run_id, principal=ELSEWHERE)),
        ]
        for attempt in attempts:
            with pytest.raises(RunNotFoundError) as error:
                await attempt
            assert str(error.value) == f"there is no run {run_id!r}."
        assert await office.store.signals.list_pending(run_id) == []
    assert await office.rows(run_id) == rows


async def test_a_run_belongs_to_the_tenant_of_its_principal() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        handle = await runs.start(Clerk, "A-17", principal=ELSEWHERE)
        assert (await handle.result()).state.tenant_id == "elsewhere"
        rows = await office.rows(handle.id, "elsewhere")
        assert [row.stage.value for row in rows] == ["claimed", "after"]
        assert await runs.verify(handle.id, principal=ELSEWHERE) == len(rows)
        with pytest.raises(RunNotFoundError):
            await runs.get(handle.id, principal=LOCAL)


async def test_whoever_asks_for_nobody_asks_for_the_application() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        handle = await runs.start(Clerk, "A-17", principal=ELSEWHERE)
        await handle.result()
        assert (await runs.get(handle.id)).tenant_id == "elsewhere"
        assert (await runs.result(handle.id)).output == "done"
        with pytest.raises(RunNotFoundError):
            await runs.get("nobody")


async def test_an_unknown_run_is_not_found() -> None:
    office = Office()
    async with office.process(nothing) as runs:
        with pytest.raises(RunNotFoundError, match=r"^there is no run 'nobody'\.$"):
            await runs.resume("nobody")


async def tampered_run(office: Office, runs: AgentRuns, seq: int, change: JsonObject) -> str:
    """A completed run whose row was changed behind the journal's back."""
    run_id = (await start(runs)).state.id
    await answer(runs, run_id, APPROVE)
    assert await runs.verify(run_id) == len(await office.rows(run_id))
    journal = office.store.tables.journals.find("default", run_id)
    assert journal is not None
    row = journal.rows[seq - 1].read()
    journal.rows[seq - 1] = EncodedRow.of(replace(row, **change))
    return run_id


@pytest.mark.parametrize(
    ("seq", "change", "named"),
    [
        (1, {"record": {"input": {"order": "B-1"}}}, "row 1 (run)"),
        (2, {"record": {"result": "9"}}, "row 2 (run/tool:look#1)"),
        (3, {"view": {"asked": "other"}}, "row 3 (run/tool:note#1)"),
        (3, {"events": ""}, "row 3 (run/tool:note#1)"),
        (4, {"events": "[1]"}, "row 4 (run/tool:note#1)"),
        (5, {"fingerprint": "other"}, "row 5 (run/tool:pay#1)"),
        (5, {"attempt": 7}, "row 5 (run/tool:pay#1)"),
        (5, {"epoch": 7}, "row 5 (run/tool:pay#1)"),
        (6, {"digest": "other"}, "row 6 (run/tool:pay#1)"),
    ],
)
async def test_verify_names_the_first_row_that_was_tampered_with(
    seq: int, change: JsonObject, named: str
) -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        run_id = await tampered_run(office, runs, seq, change)
        with pytest.raises(CallerError) as error:
            await runs.verify(run_id)
    words = "it was changed, or does not follow from the row before it"
    assert str(error.value) == f"run {run_id!r}: {named}: {words}."


async def test_verify_notices_a_row_that_was_taken_out() -> None:
    office = Office()
    async with office.process(every_kind) as runs:
        run_id = (await start(runs)).state.id
        journal = office.store.tables.journals.find("default", run_id)
        assert journal is not None
        del journal.rows[2]
        with pytest.raises(CallerError, match="row 3: it is missing"):
            await runs.verify(run_id)


async def test_many_runs_at_once_are_committed_together() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await worker.desk.note("a")
        await worker.desk.note("b")

    async with office.process(program) as runs:
        results = await asyncio.gather(*(start(runs) for _ in range(100)))
    assert {result.status for result in results} == {AgentStatus.COMPLETED}
    assert len(office.world.done) == 200
    assert office.journal.commits <= 12


async def test_whoever_stops_waiting_for_a_result_leaves_the_run_alone() -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def program(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        return (await worker.desk.pay(Decimal(1))).number

    async with office.process(program) as runs:
        handle = await runs.start(Clerk, "A-17")
        waiter = asyncio.create_task(handle.result())
        await reached.wait()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        opened.set()
        assert (await handle.result()).output == 1


@pytest.mark.parametrize("turns", range(12))
async def test_an_effect_that_has_ended_is_recorded_whenever_its_process_stops(turns: int) -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    async with bureau.process(agent, program) as runs:
        handle = await runs.start(agent, "A-17")
        for _ in range(turns):
            await asyncio.sleep(0)
    ended = [row for row in await bureau.rows(handle.id) if row.stage is JournalStage.AFTER]
    assert bool(bureau.world.done) == any(row.action_id == "run/tool:pay#1" for row in ended)
