"""Facts about runs: each is in the outbox once, in the commit that makes it true, whatever dies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pytest
from tests.behaviour.family import Family, member
from tests.behaviour.family import start as start_family
from tests.behaviour.office import Office, Worker, answer, only_question, resume, start

from pilotage import AgentStatus, ApprovalDecision
from pilotage.agent import (
    AgentActionCompleted,
    AgentActionOutcome,
    AgentApprovalRequested,
    AgentFact,
    AgentQuestionKind,
    AgentRunDelegated,
    AgentRunFailed,
    AgentRunPaused,
    AgentStateReason,
    RecoveryDecision,
    read_fact,
)
from pilotage.agent.ports.architecture import Dependencies
from pilotage.errors import ToolError
from pilotage.runtime import step, uid
from pilotage.testing import MemoryStore, ProcessStopped, StopAfter, StopBefore

HEAD = ["AgentRunStarted"]
END = ["AgentRunCompleted"]


def facts(store: MemoryStore, run_id: str | None = None) -> list[AgentFact]:
    """What the outbox has, of all runs or of one."""
    found = [read_fact(entry) for entry in store.tables.outbox.read()]
    return [fact for fact in found if run_id in (None, fact.run_id)]


def names(told: Sequence[AgentFact]) -> list[str]:
    return [type(fact).__name__ for fact in told]


async def test_what_changes_something_is_told_and_what_only_reads_is_not() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await worker.desk.look("a")
        await worker.desk.note("b")
        await uid()
        await step("mail", lambda: "sent")
        return "done"

    async with office.process(program) as runs:
        result = await start(runs)
    told = facts(office.store)
    assert names(told) == [*HEAD, "AgentActionCompleted", "AgentActionCompleted", *END]
    done = [fact for fact in told if isinstance(fact, AgentActionCompleted)]
    assert [(fact.action, fact.kind, fact.outcome) for fact in done] == [
        ("note", "tool_call", AgentActionOutcome.DONE),
        ("step:mail", "step", AgentActionOutcome.DONE),
    ]
    assert {(fact.run_id, fact.tenant_id, fact.agent) for fact in told} == {
        (result.state.id, "default", "clerk")
    }
    assert [fact.id for fact in told] == [f"default/{result.state.id}/{n}" for n in (1, 2, 3, 4)]


async def test_a_call_that_fails_for_certain_is_told_as_failed() -> None:
    office = Office()
    office.world.failures["pay 1"] = ToolError("no money")

    async def program(worker: Worker) -> object:
        with pytest.raises(ToolError):
            await worker.desk.pay(Decimal(1))
        raise ValueError("enough")

    async with office.process(program) as runs:
        await start(runs)
    _, failed, end = facts(office.store)
    assert isinstance(failed, AgentActionCompleted)
    assert failed.outcome is AgentActionOutcome.FAILED
    assert isinstance(end, AgentRunFailed)
    assert end.reason is AgentStateReason.EXECUTION_FAILED


async def test_a_question_to_a_person_and_its_answer_are_told() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with office.process(program) as runs:
        waiting = await start(runs)
        question = await only_question(runs, waiting.state.id)
        asked, paused = facts(office.store)[1:]
        assert isinstance(asked, AgentApprovalRequested)
        assert (asked.request_id, asked.action) == (question.id, "refund")
        assert asked.question is AgentQuestionKind.APPROVAL
        assert isinstance(paused, AgentRunPaused)
        assert paused.reason is AgentStateReason.APPROVAL_REQUIRED
        await answer(runs, waiting.state.id, ApprovalDecision.APPROVE)
    assert names(facts(office.store))[3:] == ["AgentRunResumed", "AgentActionCompleted", *END]


async def test_an_unknown_outcome_is_a_question_until_a_person_knows() -> None:
    office = Office()
    office.world.failures["pay 1"] = TimeoutError("no reply")

    async def program(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    async with office.process(program) as runs:
        waiting = await start(runs)
        asked, paused = facts(office.store)[1:]
        assert isinstance(asked, AgentApprovalRequested)
        assert asked.question is AgentQuestionKind.RECOVERY
        assert isinstance(paused, AgentRunPaused)
        assert paused.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        done = {"number": 7, "amount": "1"}
        await answer(runs, waiting.state.id, RecoveryDecision.DONE, result=done)
    assert names(facts(office.store))[3:] == ["AgentRunResumed", "AgentActionCompleted", *END]


async def test_a_cancellation_is_told_when_it_begins_and_when_it_is_over() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with office.process(program) as runs:
        waiting = await start(runs)
        assert await runs.cancel(waiting.state.id)
    assert names(facts(office.store))[3:] == ["AgentRunCancelling", "AgentRunCancelled"]


async def test_a_delegation_is_told_by_the_parent_and_the_work_by_the_child() -> None:
    family = Family()

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {"task": "work"})

    async def child(deps: Dependencies, prompt: str) -> object:
        return "done"

    async with family.process(member("parent", parent), member("child", child)) as runs:
        result = await start_family(runs, "parent")
    told = facts(family.store, result.state.id)
    assert names(told) == [*HEAD, "AgentRunDelegated", *END]
    delegated = told[1]
    assert isinstance(delegated, AgentRunDelegated)
    assert delegated.child_agent == "child"
    of_child = facts(family.store, delegated.child)
    assert names(of_child) == [*HEAD, *END]
    assert {fact.parent for fact in of_child} == {result.state.id}


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 6))
async def test_whatever_dies_each_fact_is_in_the_outbox_once(
    stop: type[StopBefore | StopAfter], number: int
) -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await worker.desk.note("a")
        await worker.desk.note("b")
        return "done"

    async with office.process(program, fault=stop(number)) as runs:
        with suppress(ProcessStopped):
            await start(runs)
    async with office.process(program) as runs:
        known = [
            state for status in AgentStatus for state in await office.store.states.list_by_status(status)
        ]
        if not known:
            await start(runs)
        elif not known[0].is_terminal:
            await resume(runs, known[0].id)
    told = facts(office.store)
    assert names(told) == [*HEAD, "AgentActionCompleted", "AgentActionCompleted", *END]


async def test_a_run_that_is_forked_tells_only_what_it_does_itself() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await worker.desk.note("a")
        return "done"

    async with office.process(program) as runs:
        first = await start(runs)
        fork = await runs.fork(first.state.id)
        await resume(runs, fork.id)
    assert names(facts(office.store, fork.id)) == [*HEAD, *END]
