"""A person decides about a diverged run: skip a recorded call, give a call its result, or fork."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest
from tests.behaviour.newsdesk import let_run
from tests.behaviour.office import Office, Worker, answer, resume, start

from pilotage import AgentStatus, ApprovalDecision
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStateReason
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.jsonvalue import as_object
from pilotage.runtime import ActionDone, ForkBefore, RunResolution, SkipAction, changed, step
from pilotage.runtime.runs import AgentRuns

Program = Callable[[Worker], Awaitable[object]]
ANN = Principal("ann")
WHY = "the fee was dropped"


async def first_release(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.pay(Decimal(1))
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def without_payment(worker: Worker) -> object:
    await worker.desk.look("price")
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def other_amount(worker: Worker) -> object:
    await worker.desk.look("price")
    paid = await worker.desk.pay(Decimal(2))
    await worker.desk.note("paid")
    await worker.desk.refund(Decimal(1))
    return paid.number


async def diverged(office: Office, later: Program, earlier: Program = first_release) -> str:
    """The id of a run that an earlier release left waiting, and that a later one cannot go on with."""
    async with office.process(earlier) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(later) as runs:
        result = await resume(runs, run_id)
    assert result.state.reason is AgentStateReason.DIVERGED, result.state
    return run_id


async def resolved(runs: AgentRuns, run_id: str, resolution: RunResolution) -> RunResult:
    """Decide, and bring the run as far as it gets."""
    await runs.resolve(run_id, resolution, reason=WHY, resume=False, principal=ANN)
    assert await runs.verify(run_id)
    return await resume(runs, run_id)


async def test_a_skipped_call_is_passed_over_and_nothing_is_done_twice() -> None:
    office = Office()
    run_id = await diverged(office, without_payment)
    async with office.process(without_payment) as runs:
        waiting = await resolved(runs, run_id, SkipAction("run/tool:pay#1"))
        assert waiting.state.reason is AgentStateReason.APPROVAL_REQUIRED
        assert "divergence" not in waiting.state.metadata
        assert office.world.done == ["look price", "pay 1", "note paid"]
    async with office.process(without_payment) as runs:
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
        assert await runs.verify(run_id) == len(await office.rows(run_id))
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done == ["look price", "pay 1", "note paid", "refund 1"]


async def test_the_row_of_a_decision_says_who_and_why() -> None:
    office = Office()
    run_id = await diverged(office, without_payment)
    async with office.process(without_payment) as runs:
        state = await runs.resolve(run_id, SkipAction("tool:pay#1"), reason=WHY, resume=False, principal=ANN)
        shown = [each.payload for each in await runs.evidence(run_id)][-1]
    assert state.status is AgentStatus.ACTIVE
    claim, row = (await office.rows(run_id))[-2:]
    said = {"decision": "skip", "decided_by": "ann", "comment": WHY}
    assert as_object(claim.view)["resolution"] == {**said, "action": "run/tool:pay#1"}
    assert (row.action_id, row.kind, row.stage) == (
        "run/tool:pay#1",
        AgentActionKind.TOOL_CALL,
        JournalStage.AFTER,
    )
    assert (row.record, row.view) == ({"skipped": True}, {"skipped": True, **said})
    assert said.items() <= shown.items()


async def test_a_resolved_run_goes_on_by_itself_in_a_process_that_has_its_agent() -> None:
    office = Office()
    run_id = await diverged(office, without_payment)
    async with office.process(without_payment) as runs:
        await runs.resolve(run_id, SkipAction("run/tool:pay#1"), reason=WHY, principal=ANN)
        await let_run(300)
        assert (await runs.get(run_id)).reason is AgentStateReason.APPROVAL_REQUIRED


async def test_calls_of_the_same_tool_behind_a_skipped_one_keep_their_record() -> None:
    office = Office()

    async def three(worker: Worker) -> object:
        for amount in (1, 2, 3):
            await worker.desk.pay(Decimal(amount))
        return (await worker.desk.refund(Decimal(9))).number

    async def two(worker: Worker) -> object:
        paid = [await worker.desk.pay(Decimal(amount)) for amount in (1, 3)]
        await worker.desk.refund(Decimal(9))
        return [each.number for each in paid]

    run_id = await diverged(office, two, three)
    async with office.process(two) as runs:
        await resolved(runs, run_id, SkipAction("run/tool:pay#2"))
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
        assert (result.status, result.output) == (AgentStatus.COMPLETED, [1, 3])
    assert office.world.done == ["pay 1", "pay 2", "pay 3", "refund 9"]


async def test_a_call_that_only_waits_for_approval_can_be_skipped_with_its_question() -> None:
    office = Office()

    async def no_refund(worker: Worker) -> object:
        await worker.desk.look("price")
        await worker.desk.pay(Decimal(1))
        await worker.desk.note("paid")
        return await worker.desk.note("no refund")

    run_id = await diverged(office, no_refund)
    async with office.process(no_refund) as runs:
        result = await resolved(runs, run_id, SkipAction("run/tool:refund#1"))
        assert await runs.verify(run_id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "no refund")
    assert office.world.done == ["look price", "pay 1", "note paid", "note no refund"]


async def test_a_call_with_other_arguments_gets_the_result_that_a_person_gives() -> None:
    office = Office()
    run_id = await diverged(office, other_amount)
    async with office.process(other_amount) as runs:
        given = ActionDone("run/tool:pay#1", {"number": 77, "amount": "2"})
        waiting = await resolved(runs, run_id, given)
        assert waiting.state.reason is AgentStateReason.APPROVAL_REQUIRED
    async with office.process(other_amount) as runs:
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
        assert await runs.verify(run_id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 77)
    assert office.world.done == ["look price", "pay 1", "note paid", "refund 1"]


async def test_a_result_that_the_tool_does_not_give_is_refused_with_the_schema() -> None:
    office = Office()
    run_id = await diverged(office, other_amount)
    async with office.process(other_amount) as runs:
        with pytest.raises(CallerError, match=r"does not give such a result.*schema.*\"number\""):
            await runs.resolve(run_id, ActionDone("run/tool:pay#1", "paid"), reason=WHY)
        assert (await runs.get(run_id)).reason is AgentStateReason.DIVERGED


async def test_a_step_gets_the_result_that_a_person_gives() -> None:
    office = Office()

    async def one() -> int:
        return 1

    async def text() -> str:
        return "one"

    async def numbers(worker: Worker) -> object:
        number: object = await step("number", one)
        await worker.desk.refund(Decimal(1))
        return number

    async def texts(worker: Worker) -> object:
        found: object = await step("number", text)
        await worker.desk.refund(Decimal(1))
        return found

    run_id = await diverged(office, texts, numbers)
    async with office.process(texts) as runs:
        await resolved(runs, run_id, ActionDone("run/step:number#1", "one"))
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "one")


async def test_a_fork_goes_its_own_way_and_the_run_stays() -> None:
    office = Office()
    run_id = await diverged(office, other_amount)
    rows = await office.rows(run_id)
    before = next(row.seq for row in rows if row.action_id == "run/tool:pay#1")
    async with office.process(other_amount) as runs:
        fork = await runs.resolve(run_id, ForkBefore(before), reason=WHY, principal=ANN)
        assert (await runs.get(run_id)).reason is AgentStateReason.DIVERGED
        assert await runs.verify(run_id) == len(rows) + 1
        waiting = await resume(runs, fork.id)
        assert waiting.state.reason is AgentStateReason.APPROVAL_REQUIRED
        assert await runs.verify(fork.id)
    assert office.world.done == ["look price", "pay 1", "note paid", "pay 2", "note paid"]
    (row,) = (await office.rows(run_id))[len(rows) :]
    assert as_object(row.view)["resolution"] == {
        "decision": "fork",
        "decided_by": "ann",
        "comment": WHY,
        "row": before,
        "fork": fork.id,
    }


async def test_a_gate_behind_a_skipped_call_stays_open() -> None:
    office = Office()

    async def gated(worker: Worker) -> object:
        await worker.desk.look("price")
        await worker.desk.pay(Decimal(1))
        if await changed("note-it"):
            await worker.desk.note("new")
        return (await worker.desk.refund(Decimal(1))).number

    async def without(worker: Worker) -> object:
        await worker.desk.look("price")
        if await changed("note-it"):
            await worker.desk.note("new")
        return (await worker.desk.refund(Decimal(1))).number

    run_id = await diverged(office, without, gated)
    async with office.process(without) as runs:
        await resolved(runs, run_id, SkipAction("run/tool:pay#1"))
        result = await answer(runs, run_id, ApprovalDecision.APPROVE)
    assert result.status is AgentStatus.COMPLETED
    assert office.world.done == ["look price", "pay 1", "note new", "refund 1"]


REFUSED: list[tuple[RunResolution, str]] = [
    (SkipAction("run/tool:sell#1"), "has no recorded call 'run/tool:sell#1'.*run/tool:pay#1"),
    (SkipAction("run/tool:refund#1/approval"), "has no recorded call"),
    (ActionDone("run/tool:refund#1", None), "has not begun"),
    (ForkBefore(1), "nothing before row 1"),
    (ForkBefore(100), "rows 1 to"),
]


@pytest.mark.parametrize(("resolution", "words"), REFUSED)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    resolution: RunResolution, words: str
) -> None:
    office = Office()
    run_id = await diverged(office, without_payment)
    rows = await office.rows(run_id)
    async with office.process(without_payment) as runs:
        with pytest.raises(CallerError, match=words):
            await runs.resolve(run_id, resolution, reason=WHY)
    assert await office.rows(run_id) == rows


async def test_a_decision_needs_a_reason_and_a_diverged_run_of_ones_own_tenant() -> None:
    office, skip = Office(), SkipAction("run/tool:pay#1")
    run_id = await diverged(office, without_payment)
    async with office.process(without_payment) as runs:
        with pytest.raises(CallerError, match="needs a reason"):
            await runs.resolve(run_id, skip, reason=" ")
        with pytest.raises(RunNotFoundError):
            await runs.resolve(run_id, skip, reason=WHY, principal=Principal("bob", "elsewhere"))
        await resolved(runs, run_id, skip)
        with pytest.raises(CallerError, match="has not diverged"):
            await runs.resolve(run_id, skip, reason=WHY)
        await answer(runs, run_id, ApprovalDecision.APPROVE)
        with pytest.raises(CallerError, match="has ended"):
            await runs.resolve(run_id, skip, reason=WHY)


async def test_a_row_in_an_open_action_cannot_be_forked_at() -> None:
    office = Office()
    run_id = await diverged(office, without_payment)
    rows = await office.rows(run_id)
    paid = [row.seq for row in rows if row.action_id == "run/tool:pay#1"]
    async with office.process(without_payment) as runs:
        with pytest.raises(CallerError, match="is open there"):
            await runs.resolve(run_id, ForkBefore(paid[1]), reason=WHY)
