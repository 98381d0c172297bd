"""Cancelling a run: written down first, stopped, cleaned up, ended; and nothing is left behind without its name."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    DURABLE,
    NOT_CLEANED_UP,
    WAITING,
    Bureau,
    Counter,
    SlowModel,
    asked,
    hired,
    nobody_is_left,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Worker

from pilotage import Agent, AgentExecutionSpec, ApprovalDecision, ModelMessage, ModelRequest, RunContext
from pilotage.agent import (
    AgentCancellationCleanupResult,
    AgentCancellationRequest,
    AgentCancellationTargetKind,
    AgentEvidenceKind,
    IAgentCancellationCleanup,
    RunFinishedEvent,
)
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.principal import LOCAL
from pilotage.errors import CallerError
from pilotage.jsonvalue import to_json_value
from pilotage.testing import Fault, ProcessStopped, StopAfter, StopBefore

UNKNOWN = {"error": "the outcome is unknown: the run ended while the call was under way"}


STREAM = AgentCancellationTargetKind.MODEL_STREAM
TOOL = AgentCancellationTargetKind.TOOL_EXECUTION


class Asked(NamedTuple):
    """What a cleanup hook was asked to clean up, and why."""

    kind: AgentCancellationTargetKind
    target: str
    reason: str | None
    requested_by: str | None


class Broom(IAgentCancellationCleanup):
    """Remembers what it was asked to clean up; may fail, hang or meet others on the way."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.asked: list[Asked] = []

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        self.asked.append(
            Asked(request.target_kind, request.target_ref, request.reason, request.requested_by)
        )
        if self.failure is not None:
            raise self.failure
        return AgentCancellationCleanupResult.succeeded(
            target_kind=request.target_kind, target_ref=request.target_ref
        )


class Idle(IAgentCancellationCleanup):
    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        return None


class Meeting(IAgentCancellationCleanup):
    """Comes to an end only when all who clean up are at it."""

    def __init__(self, size: int) -> None:
        self.barrier = asyncio.Barrier(size)

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        await asyncio.wait_for(self.barrier.wait(), 120)
        return None


class Sending:
    """A run in the middle of sending something that nobody can take back."""

    def __init__(self) -> None:
        self.bureau, self.agent = Bureau(), hired()
        self.counter = Counter(self.bureau.world)

    async def program(self, worker: Worker) -> object:
        return await self.counter.send("a")


async def test_a_call_that_was_under_way_is_cleaned_up_and_its_outcome_is_unknown() -> None:
    story, broom = Sending(), Broom()
    async with story.bureau.process(story.agent, story.program, story.counter, broom) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        assert await runs.cancel(handle.id, reason="enough")
        result = await handle.result()
        kept = await runs.result(handle.id)
        events = [event async for event in runs.events(handle.id)]
        evidence = await runs.evidence(handle.id)
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == CANCELLED
    assert result.error is not None
    assert (result.error["code"], result.error["message"]) == ("cancelled", "enough")
    assert kept.error == result.error
    assert [event.error for event in events if isinstance(event, RunFinishedEvent)] == [result.error]
    assert broom.asked == [
        Asked(AgentCancellationTargetKind.TOOL_EXECUTION, "run/tool:send#1", "enough", LOCAL.id)
    ]
    assert await story.bureau.outcome(handle.id, "send") == UNKNOWN
    assert story.counter.stopped == ["send a"]
    assert nobody_is_left()
    (record,) = [each for each in evidence if each.kind is AgentEvidenceKind.CANCELLATION]
    assert record.payload == to_json_value(result.state.metadata["cancellation_cleanup"])
    assert record.summary == "the clean-up of the cancelled run succeeded"


@pytest.mark.parametrize("reason", [None, "", "  "])
async def test_a_cleanup_without_a_reason_is_asked_for_without_one(reason: str | None) -> None:
    story, broom = Sending(), Broom()
    async with story.bureau.process(story.agent, story.program, story.counter, broom) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        await runs.cancel(handle.id, reason=reason)
        assert triple((await handle.result()).state) == CANCELLED
    assert [each.reason for each in broom.asked] == [None]


@pytest.mark.parametrize(
    "failure", [ValueError("the broom broke"), ConnectionError("gone"), CallerError("no broom")]
)
async def test_a_cleanup_that_fails_makes_the_run_fail(failure: Exception) -> None:
    story, brooms = Sending(), (Broom(failure), Idle())
    async with story.bureau.process(story.agent, story.program, story.counter, *brooms) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        await runs.cancel(handle.id)
        result = await handle.result()
        kept = await runs.result(handle.id)
        events = [event async for event in runs.events(handle.id)]
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == NOT_CLEANED_UP
    assert result.error is not None
    assert result.error["code"] == "cancellation_cleanup_failed"
    assert kept.error == result.error
    assert [event.error for event in events if isinstance(event, RunFinishedEvent)] == [result.error]
    report = result.state.metadata["cancellation_cleanup"]
    assert isinstance(report, dict)
    assert [outcome["status"] for outcome in report["outcomes"]] == ["failed", "skipped"]
    told = str(failure) if isinstance(failure, CallerError) else f"{type(failure).__name__} (error "
    assert told in str(report)


async def test_all_cleanups_are_at_it_at_once() -> None:
    story, meeting = Sending(), Meeting(2)

    async def program(worker: Worker) -> object:
        return await asyncio.gather(story.counter.send("a"), story.counter.write("b"))

    async with story.bureau.process(story.agent, program, story.counter, meeting) as runs:
        handle = await runs.start(story.agent, "A-17")
        await asyncio.gather(story.counter.begun["send a"].wait(), story.counter.begun["write b"].wait())
        await runs.cancel(handle.id)
        result = await handle.result()
    assert triple(result.state) == CANCELLED
    assert nobody_is_left()


async def test_a_model_stream_in_the_middle_is_closed() -> None:
    bureau, agent, model = Bureau(), hired(), SlowModel()

    async def program(worker: Worker) -> object:
        return (await asked(worker)).content

    async with bureau.process(agent, program, broom := Broom(), model=model) as runs:
        handle = await runs.start(agent, "A-17")
        await model.is_speaking.wait()
        assert await runs.cancel(handle.id, reason="enough")
        result = await handle.result()
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == CANCELLED
    assert model.closed == 1
    assert broom.asked == [Asked(STREAM, "run/model#1", "enough", LOCAL.id)]
    assert nobody_is_left()


async def test_a_stream_that_its_program_holds_and_does_not_read_is_cleaned_up() -> None:
    bureau, agent, model = Bureau(), hired(), SlowModel()
    is_held = asyncio.Event()

    async def program(worker: Worker) -> object:
        async for _ in worker.model.stream(ModelRequest([ModelMessage.user("Well?")])):
            is_held.set()
            await asyncio.Event().wait()
        return None

    async with bureau.process(agent, program, broom := Broom(), model=model) as runs:
        handle = await runs.start(agent, "A-17")
        await is_held.wait()
        assert await runs.cancel(handle.id)
        assert triple((await handle.result()).state) == CANCELLED
    assert [(each.kind, each.target) for each in broom.asked] == [(STREAM, "run/model#1")]


async def test_read_only_tools_under_way_are_cleaned_up_and_leave_no_row() -> None:
    story, broom = Sending(), Broom()

    async def program(worker: Worker) -> object:
        await story.counter.read("done")
        return await asyncio.gather(story.counter.read("a"), story.counter.send("b"))

    story.counter.may_end["read done"].set()
    async with story.bureau.process(story.agent, program, story.counter, broom) as runs:
        handle = await runs.start(story.agent, "A-17")
        await asyncio.gather(*(story.counter.begun[each].wait() for each in ("read a", "send b")))
        assert await runs.cancel(handle.id)
        assert triple((await handle.result()).state) == CANCELLED
        assert await runs.verify(handle.id) > 0
    assert sorted(each.target for each in broom.asked) == ["run/tool:read#2", "run/tool:send#1"]
    assert {each.kind for each in broom.asked} == {TOOL}
    assert not any(row.action_id == "run/tool:read#2" for row in await story.bureau.rows(handle.id))


async def test_what_waits_for_a_person_or_was_given_up_by_the_program_is_not_under_way() -> None:
    story, broom = Sending(), Broom()

    async def program(worker: Worker) -> object:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await story.counter.read("given up")
        return await asyncio.gather(worker.desk.refund(Decimal(1)), story.counter.read("a"))

    async with story.bureau.process(story.agent, program, story.counter, broom) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        assert await runs.cancel(handle.id)
        assert triple((await handle.result()).state) == CANCELLED
    assert [each.target for each in broom.asked] == ["run/tool:read#2"]


async def test_a_run_that_waits_for_a_person_is_cancelled_by_whoever_wants_it() -> None:
    bureau, agent, broom = Bureau(), hired(), Broom()

    async def program(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(agent, program, broom) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
    async with bureau.process(agent, program, broom) as runs:
        assert await runs.cancel(waiting.state.id, reason="not needed")
        assert triple(await runs.get(waiting.state.id)) == CANCELLED
        assert await runs.questions(waiting.state.id) == ()
        assert await runs.cancel(waiting.state.id) is False
        assert await runs.verify(waiting.state.id) > 0
    assert (broom.asked, bureau.world.done) == ([], [])
    assert nobody_is_left()


async def test_a_person_who_answers_with_cancel_cancels_the_run() -> None:
    bureau, agent = Bureau(), hired()
    counter = Counter(bureau.world)
    tasks: list[asyncio.Task[str]] = []

    async def program(worker: Worker) -> object:
        number = (await worker.desk.refund(Decimal(1))).number
        tasks.append(asyncio.create_task(counter.send("aside")))
        return number

    async with bureau.process(agent, program, counter, broom := Broom()) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, ApprovalDecision.CANCEL, comment="stop it")
        result = await resumed(runs, waiting.state.id)
        assert await runs.verify(waiting.state.id) > 0
    assert triple(result.state) == CANCELLED
    assert result.error is not None
    assert "stop it" in str(result.error["message"])
    assert broom.asked == []


async def test_tasks_that_nobody_waits_for_are_stopped_with_their_run() -> None:
    story = Sending()
    tasks: list[asyncio.Task[str]] = []

    async def program(worker: Worker) -> object:
        tasks.append(asyncio.create_task(story.counter.write("aside")))
        return await story.counter.send("a")

    async with story.bureau.process(story.agent, program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await asyncio.gather(story.counter.begun["send a"].wait(), story.counter.begun["write aside"].wait())
        await runs.cancel(handle.id)
        result = await handle.result()
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == CANCELLED
    assert sorted(story.counter.stopped) == ["send a", "write aside"]
    assert nobody_is_left()


async def test_a_run_that_is_through_but_for_a_straggler_can_be_cancelled() -> None:
    """One branch waits for a person, so the run pauses as soon as the other has come to its end: which it does not."""
    story = Sending()

    async def program(worker: Worker) -> object:
        return await asyncio.gather(worker.desk.refund(Decimal(1)), story.counter.send("a"))

    async with story.bureau.process(story.agent, program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert await asyncio.wait_for(runs.cancel(handle.id), 120)
        assert triple(await runs.get(handle.id)) == CANCELLED
        assert await runs.verify(handle.id) > 0
    assert nobody_is_left()


@pytest.mark.parametrize("fault", [StopAfter(3), StopBefore(4), StopAfter(4)], ids=str)
async def test_a_crash_while_cancelling_resumes_the_cleanup(fault: Fault) -> None:
    story, broom = Sending(), Broom()
    async with story.bureau.process(story.agent, story.program, story.counter, broom, fault=fault) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        with suppress(ProcessStopped):
            await runs.cancel(handle.id, reason="enough")
    story.bureau.clock.advance(60)
    again = Broom()
    async with story.bureau.process(story.agent, story.program, story.counter, again) as runs:
        state = await runs.get(handle.id)
        if not state.is_terminal:
            assert triple((await resumed(runs, handle.id)).state) == CANCELLED
            assert [(each.target, each.reason) for each in again.asked] == [("run/tool:send#1", "enough")]
        assert triple(await runs.get(handle.id)) == CANCELLED
        assert await runs.verify(handle.id) > 0
        evidence = [each.kind for each in await runs.evidence(handle.id)]
        assert evidence.count(AgentEvidenceKind.CANCELLATION) == 1
    assert story.bureau.world.done == ["send a"]
    assert await story.bureau.outcome(handle.id, "send") == UNKNOWN


async def test_a_call_that_was_repeated_and_done_before_the_cancellation_keeps_its_result() -> None:
    """After a restart one open call is done again, and then the run is cancelled in the middle of the next one."""
    bureau, agent = Bureau(), hired()
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        await worker.desk.note("first")
        return await counter.send("second")

    run_id = await bureau.dead_process(agent, program, counter, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, program, counter, broom := Broom()) as runs:
        handle = await runs.resume(run_id)
        await counter.begun["send second"].wait()
        assert await runs.cancel(run_id)
        await handle.result()
        assert await runs.verify(run_id) > 0
    assert await bureau.outcome(run_id, "note") == {"result": "first"}
    assert await bureau.outcome(run_id, "send") == UNKNOWN
    assert [each.target for each in broom.asked] == ["run/tool:send#1"]


async def test_calls_that_a_crash_left_open_are_cleaned_up_with_those_under_way() -> None:
    bureau, agent = Bureau(), hired()
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        first = asyncio.create_task(counter.write("a"))
        await counter.begun["write a"].wait()
        await worker.desk.note("in between")
        return await asyncio.gather(first, counter.write("b"))

    run_id = await bureau.dead_process(agent, program, counter, fault=StopAfter(3))
    bureau.clock.advance(60)
    later = Counter(bureau.world)

    is_there = asyncio.Event()

    async def again(worker: Worker) -> object:
        is_there.set()
        await asyncio.Event().wait()
        return await program(worker)

    async with bureau.process(agent, again, later, broom := Broom()) as runs:
        handle = await runs.resume(run_id)
        await is_there.wait()
        assert await runs.cancel(run_id)
        await handle.result()
        assert await runs.verify(run_id) > 0
    open_before = {each.target for each in broom.asked}
    assert any("write" in ref for ref in open_before)
    rows = await bureau.rows(run_id)
    begun = {row.action_id for row in rows if row.stage is JournalStage.BEFORE}
    closed = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
    assert begun <= closed


@Agent(spec=AgentExecutionSpec(name="slow child", recovery=DURABLE))
class SlowChild:
    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    async def execute(self, task: str) -> str:
        return await self.counter.send(task)


@Agent(spec=AgentExecutionSpec(name="slow parent", recovery=DURABLE))
class SlowParent:
    def __init__(self, child: SlowChild) -> None:
        self.child = child

    async def execute(self, task: str) -> str:
        return await self.child.execute(task)


async def test_children_end_before_their_parents() -> None:
    bureau, broom = Bureau(), Broom()
    counter = Counter(bureau.world)
    async with bureau.process(SlowParent, None, SlowChild, counter, broom) as runs:
        handle = await runs.start(SlowParent, "a")
        await counter.begun["send a"].wait()
        assert await runs.cancel(handle.id)
        states = (await runs.list()).runs
    assert {state.agent_type: triple(state) for state in states} == {
        "slow parent": CANCELLED,
        "slow child": CANCELLED,
    }
    assert [each.kind for each in broom.asked] == [
        AgentCancellationTargetKind.TOOL_EXECUTION,
        AgentCancellationTargetKind.DELEGATE_EXECUTION,
    ]
    assert nobody_is_left()


async def test_a_finished_run_is_not_cancelled() -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        return "done"

    async with bureau.process(agent, program) as runs:
        result = await started(runs, agent)
        before = await bureau.rows(result.state.id)
        assert await runs.cancel(result.state.id) is False
        assert triple(await runs.get(result.state.id)) == COMPLETED
    assert await bureau.rows(result.state.id) == before
