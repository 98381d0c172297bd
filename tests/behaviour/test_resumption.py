"""Before what a person has stopped is taken up again, the application's handler may have a person asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    DURABLE,
    NOT_CLEANED_UP,
    WAITING,
    Bureau,
    Counter,
    hired,
    resumed,
    triple,
)
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker
from tests.behaviour.test_cleanup import Broom

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    ApprovalDecision,
    RunContext,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    IAgentApprovalHandler,
    RejectionPolicy,
    RunPausedEvent,
    ToolRisk,
)
from pilotage.agent.ports.leases import has_something_to_do
from pilotage.agent.ports.permissions import Switch
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import CallerError
from pilotage.runtime import WorkerSettings, next_signal
from pilotage.runtime.open_questions import Question
from pilotage.runtime.runs import AgentRuns
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, ProcessStopped, StopAfter, StopBefore

RESUME = AgentApprovalBoundaryKind.CANCELLATION_RESUME
INTERRUPTED = (AgentStatus.INTERRUPTED, "interrupted", "user_interrupted")
CANCELLING = (AgentStatus.CANCELLING, "cancelling", "cancellation_requested")
PAUSE, GO_ON = AgentSignalKind.PAUSE, AgentSignalKind.RESUME
FAULTS = [kind(at) for at in range(1, 9) for kind in (StopBefore, StopAfter)]


@dataclass
class Careful(IAgentApprovalHandler):
    """Asks before anything that was stopped is taken up; otherwise never. May fail instead."""

    is_careful: bool = True
    failure: Exception | None = None
    expires_at: datetime | None = None
    seen: list[ApprovalSubject] = field(default_factory=list[ApprovalSubject])

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not RESUME:
            return None
        self.seen.append(subject)
        if self.failure is not None:
            raise self.failure
        if not self.is_careful:
            return None
        return AgentApprovalRequest(
            "q", context.run_id, RESUME, "Go on?", ToolRisk(), subject.action_ref, expires_at=self.expires_at
        )


class Paused:
    """A run that a person has paused between two notes."""

    def __init__(self, **spec: object) -> None:
        self.bureau, self.agent = Bureau(), hired(**spec)
        self.counter = Counter(self.bureau.world)

    async def program(self, worker: Worker) -> object:
        await self.counter.write("a")
        return await worker.desk.note("b")

    async def begin(self, handler: Careful | None = None) -> str:
        """Return the run, paused on request."""
        pods = [handler] if handler else []
        async with self.bureau.process(self.agent, self.program, self.counter, *pods) as runs:
            handle = await runs.start(self.agent, "A-17")
            await self.counter.begun["write a"].wait()
            await runs.signal(handle.id, PAUSE)
            self.counter.may_end["write a"].set()
            assert triple((await handle.result()).state) == INTERRUPTED
        return handle.id


async def the_question(runs: AgentRuns, run_id: str) -> Question:
    (question,) = await runs.questions(run_id)
    return question


async def answered(runs: AgentRuns, run_id: str, decision: ApprovalDecision, comment: str = "so") -> None:
    """Answer the one open question, and return when the run has come as far as it gets."""
    question = await the_question(runs, run_id)
    await runs.answer(run_id, question.id, decision, resume=False, comment=comment)
    await resumed(runs, run_id)


@pytest.mark.parametrize("is_signal", [True, False])
async def test_a_person_is_asked_before_an_interrupted_run_goes_on(is_signal: bool) -> None:
    story, handler = Paused(), Careful()
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        if is_signal:
            await runs.signal(run_id, GO_ON)
        result = await resumed(runs, run_id)
        assert (triple(result.state), result.state.current_activity) == (WAITING, "Go on?")
        question = await the_question(runs, run_id)
        assert (question.boundary, question.action_ref) == (RESUME, "run/resume#1")  # type: ignore[union-attr]
        assert story.bureau.world.done == ["write a"]
        assert triple((await resumed(runs, run_id)).state) == WAITING
        assert await the_question(runs, run_id) == question
        assert isinstance([event async for event in runs.events(run_id)][-1], RunPausedEvent)
        await runs.approve(question.id)
        assert (await resumed(runs, run_id)).output == "b"
        assert await runs.verify(run_id) > 0
    assert [subject.arguments["state"] for subject in handler.seen] == ["interrupted"]
    assert story.bureau.world.done == ["write a", "note b"]


@pytest.mark.parametrize("policy", list(RejectionPolicy))
async def test_a_rejected_resumption_leaves_the_run_interrupted_and_the_next_one_is_asked_about_again(
    policy: RejectionPolicy,
) -> None:
    story, handler = Paused(on_rejection=policy), Careful()
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.REJECT)
        state = await runs.get(run_id)
        assert (triple(state), state.current_activity) == (INTERRUPTED, "paused on request")
        assert await runs.questions(run_id) == ()
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.APPROVE)
        assert triple(await runs.get(run_id)) == COMPLETED
        assert await runs.verify(run_id) > 0
    assert [subject.action_ref for subject in handler.seen] == ["run/resume#1", "run/resume#2"]


async def test_a_person_may_cancel_the_run_instead() -> None:
    story, handler = Paused(), Careful()
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.CANCEL, "no use")
        assert triple(await runs.get(run_id)) == CANCELLED
        error = (await runs.result(run_id)).error
        assert error is not None
        assert "no use" in str(error["message"])
        assert await runs.verify(run_id) > 0
    assert len(handler.seen) == 1


async def test_a_deferred_resumption_waits_on_and_an_expired_one_is_rejected() -> None:
    story = Paused()
    handler = Careful(expires_at=story.bureau.clock.now() + timedelta(seconds=60))
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        waiting = await resumed(runs, run_id)
        assert waiting.state.wake_at == handler.expires_at
        question = await the_question(runs, run_id)
        await runs.defer(question.id)
        assert (await resumed(runs, run_id)).state.reason == "approval_deferred"
        assert await the_question(runs, run_id) == question
        story.bureau.clock.advance(61)
        assert triple((await resumed(runs, run_id)).state) == INTERRUPTED
        assert await runs.questions(run_id) == ()


async def test_a_handler_without_a_question_lets_the_run_go_on_and_one_that_fails_asks() -> None:
    story, handler = Paused(), Careful(is_careful=False)
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await runs.signal(run_id, GO_ON)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert len(handler.seen) == 1
    story, handler = Paused(), Careful(failure=ValueError("gone"))
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING


async def test_without_a_handler_nobody_is_asked_unless_somebody_was() -> None:
    story = Paused()
    run_id = await story.begin()
    async with story.bureau.process(story.agent, story.program, story.counter, Careful()) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
        await answered(runs, run_id, ApprovalDecision.APPROVE)
        assert triple(await runs.get(run_id)) == COMPLETED
    story = Paused()
    run_id = await story.begin()
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        assert triple((await resumed(runs, run_id)).state) == COMPLETED


async def test_a_run_that_waits_by_itself_was_not_interrupted_by_a_person() -> None:
    bureau, agent, handler = Bureau(), hired(accepted_signals=[AgentSignalKind.EXTERNAL_EVENT]), Careful()

    async def program(worker: Worker) -> object:
        return (await next_signal(AgentSignalKind.EXTERNAL_EVENT)).payload

    async with bureau.process(agent, program, handler) as runs:
        waiting = await (await runs.start(agent, "A-17")).result()
        await runs.signal(waiting.state.id, AgentSignalKind.EXTERNAL_EVENT, {"n": 1})
        assert (await resumed(runs, waiting.state.id)).output == {"n": 1}
    assert handler.seen == []


@pytest.mark.parametrize(
    "decision", [ApprovalDecision.APPROVE, ApprovalDecision.REJECT, ApprovalDecision.CANCEL]
)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_crash_at_any_write_of_a_resumption_changes_nothing(
    decision: ApprovalDecision, fault: Fault
) -> None:
    story, handler = Paused(), Careful()
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler, fault=fault) as runs:
        with suppress(ProcessStopped, BaseExceptionGroup):
            await runs.signal(run_id, GO_ON)
            await resumed(runs, run_id)
            await answered(runs, run_id, decision)
    story.bureau.clock.advance(60)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        state = await runs.get(run_id)
        if state.status is not AgentStatus.INTERRUPTED:
            assert decision is not ApprovalDecision.REJECT
            await resumed(runs, run_id)
            if await runs.questions(run_id):
                # The crash came while the run was being cancelled, so that its clean-up is asked about.
                await answered(runs, run_id, ApprovalDecision.APPROVE)
        elif not (triple(state) == INTERRUPTED and _answers(await story.bureau.rows(run_id))):
            await resumed(runs, run_id)
            if await runs.questions(run_id):
                await answered(runs, run_id, decision)
        expected = {"approve": COMPLETED, "reject": INTERRUPTED, "cancel": CANCELLED}
        assert triple(await runs.get(run_id)) == expected[decision.value]
        assert await runs.verify(run_id) > 0
        rows = await story.bureau.rows(run_id)
    assert [row.action_id for row in _answers(rows)][:1] == ["run/resume#1/approval"]
    assert len([row for row in _answers(rows) if "/resume#" in row.action_id]) == 1
    noted = {"note b"} if decision is ApprovalDecision.APPROVE else set[str]()
    assert set(story.bureau.world.done) == {"write a"} | noted


def _answers(rows: list[JournalRow]) -> list[JournalRow]:
    kind, stage = AgentActionKind.APPROVAL_WAIT, JournalStage.AFTER
    return [row for row in rows if row.kind is kind and row.stage is stage]


class Cancelled:
    """A cancelled run whose process died before it had cleaned up."""

    def __init__(self) -> None:
        self.bureau, self.agent, self.broom = Bureau(), hired(), Broom()
        self.counter = Counter(self.bureau.world)

    async def program(self, worker: Worker) -> object:
        return await self.counter.send("a")

    async def begin(self, handler: Careful, commits: int = 3) -> str:
        """Return the run, left in CANCELLING: its process dies after so many commits."""
        fault = StopAfter(commits)
        async with self.bureau.process(self.agent, self.program, self.counter, handler, fault=fault) as runs:
            handle = await runs.start(self.agent, "A-17")
            await self.counter.begun["send a"].wait()
            with suppress(ProcessStopped):
                await runs.cancel(handle.id, reason="enough")
        self.bureau.clock.advance(60)
        assert (await self.bureau.store.states.get(handle.id)).status is AgentStatus.CANCELLING
        assert handler.seen == []
        return handle.id


async def test_a_person_is_asked_before_another_attempt_cleans_up() -> None:
    story, handler = Cancelled(), Careful()
    run_id = await story.begin(handler)
    pods = (story.counter, story.broom, handler)
    async with story.bureau.process(story.agent, story.program, *pods) as runs:
        state = (await resumed(runs, run_id)).state
        assert (triple(state), state.awaits) == (CANCELLING, "approval_decision")
        now = story.bureau.clock.now()
        assert not has_something_to_do(state, {AgentSignalKind.CANCEL, GO_ON}, now)
        assert has_something_to_do(state, {AgentSignalKind.APPROVAL_DECISION}, now)
        question = await the_question(runs, run_id)
        assert (question.action_ref, set(question.allowed_decisions)) == (  # type: ignore[union-attr]
            "run/cleanup#1",
            {ApprovalDecision.APPROVE, ApprovalDecision.REJECT},
        )
        assert await runs.cancel(run_id)
        assert (triple(await runs.get(run_id)), story.broom.asked) == (CANCELLING, [])
        assert isinstance([event async for event in runs.events(run_id)][-1], RunPausedEvent)
        assert [each.kind for each in await runs.evidence(run_id)][-1] == "approval"
        with pytest.raises(CallerError, match="Use one of: approve, reject"):
            await runs.answer(run_id, question.id, ApprovalDecision.CANCEL)
        await runs.approve(question.id)
        assert triple((await resumed(runs, run_id)).state) == CANCELLED
        assert await runs.verify(run_id) > 0
    assert [(each.target, each.reason) for each in story.broom.asked] == [("run/tool:send#1", "enough")]
    assert handler.seen[0].arguments == {
        "state": "cancelling",
        "cancellation_reason": "enough",
        "cancellation_requested_by": "local",
    }


async def test_a_rejected_cleanup_asks_no_hook_and_the_run_ends_as_not_cleaned_up() -> None:
    story, handler = Cancelled(), Careful()
    run_id = await story.begin(handler)
    pods = (story.counter, story.broom, handler)
    async with story.bureau.process(story.agent, story.program, *pods) as runs:
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.REJECT, "by hand")
        state = await runs.get(run_id)
        assert triple(state) == NOT_CLEANED_UP
        assert await runs.verify(run_id) > 0
    report = str(state.metadata["cancellation_cleanup"])
    assert "cleanup_rejected" in report
    assert "by hand" in report
    assert story.broom.asked == []


async def test_the_attempt_that_cancels_cleans_up_unasked() -> None:
    story, handler = Cancelled(), Careful()
    pods = (story.counter, story.broom, handler)
    async with story.bureau.process(story.agent, story.program, *pods) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["send a"].wait()
        assert await runs.cancel(handle.id)
        assert triple((await handle.result()).state) == CANCELLED
    paused = Paused()
    run_id = await paused.begin(handler)
    async with paused.bureau.process(paused.agent, paused.program, paused.counter, handler) as runs:
        await resumed(runs, run_id)
        assert await runs.cancel(run_id)
        assert triple(await runs.get(run_id)) == CANCELLED
    assert [subject.action_ref for subject in handler.seen] == ["run/resume#1"]


@pytest.mark.parametrize("decision", [ApprovalDecision.APPROVE, ApprovalDecision.REJECT])
@pytest.mark.parametrize("fault", FAULTS[:8], ids=str)
async def test_a_crash_at_any_write_of_a_cleanup_keeps_the_answer(
    decision: ApprovalDecision, fault: Fault
) -> None:
    story, handler = Cancelled(), Careful()
    run_id = await story.begin(handler)
    pods = (story.counter, story.broom, handler)
    async with story.bureau.process(story.agent, story.program, *pods, fault=fault) as runs:
        with suppress(ProcessStopped, BaseExceptionGroup):
            await resumed(runs, run_id)
            await answered(runs, run_id, decision)
    story.bureau.clock.advance(60)
    async with story.bureau.process(story.agent, story.program, *pods) as runs:
        for _ in range(2):
            if not (await runs.get(run_id)).is_terminal:
                await resumed(runs, run_id)
                if await runs.questions(run_id):
                    await answered(runs, run_id, decision)
        expected = {"approve": CANCELLED, "reject": NOT_CLEANED_UP}
        assert triple(await runs.get(run_id)) == expected[decision.value]
        assert await runs.verify(run_id) > 0
    asked = _answers(await story.bureau.rows(run_id))
    assert bool(story.broom.asked) is (decision is ApprovalDecision.APPROVE)
    assert len(asked) == 1 or decision is ApprovalDecision.APPROVE


async def test_a_switch_that_is_off_does_not_hide_that_a_person_interrupted_the_run() -> None:
    story, handler = Paused(), Careful()
    switches = story.bureau.store.switches
    run_id = await story.begin(handler)
    pods = (story.counter, handler, switches)
    async with story.bureau.process(story.agent, story.program, *pods) as runs:
        await switches.turn_off(Switch.agent("worker"), reason="night")
        assert triple((await resumed(runs, run_id)).state) == WAITING
        await answered(runs, run_id, ApprovalDecision.APPROVE)
        assert triple(await runs.get(run_id)) == INTERRUPTED
        await switches.turn_on(Switch.agent("worker"))
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert len(handler.seen) == 1


async def test_a_cancellation_while_the_handler_thinks_ends_the_run() -> None:
    is_thinking = asyncio.Event()

    class Slow(Careful):
        async def request_for(
            self, context: RunContext, subject: ApprovalSubject
        ) -> AgentApprovalRequest | None:
            is_thinking.set()
            await asyncio.Event().wait()
            return None

    story = Paused()
    run_id = await story.begin()
    async with story.bureau.process(story.agent, story.program, story.counter, Slow()) as runs:
        await runs.resume(run_id)
        await is_thinking.wait()
        assert await runs.cancel(run_id)
        assert triple(await runs.get(run_id)) == CANCELLED
    assert story.bureau.world.done == ["write a"]


async def test_a_fork_of_a_run_that_was_asked_about_goes_on_by_itself() -> None:
    story, handler = Paused(), Careful()
    run_id = await story.begin(handler)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.APPROVE)
        fork = await runs.fork(run_id)
        assert triple((await resumed(runs, fork.id)).state) == COMPLETED
        assert await runs.verify(fork.id) > 0


async def test_a_worker_asks_once_about_a_cleanup_and_takes_it_up_with_the_answer() -> None:
    story, handler = Cancelled(), Careful()
    run_id = await story.begin(handler)
    given = (
        story.counter,
        story.broom,
        handler,
        WorkerSettings(poll_seconds=2.0),
        story.bureau.store.backlog,
    )
    async with story.bureau.process(story.agent, story.program, *given) as runs:
        await pass_time(story.bureau.clock, 30)
        assert (triple(await runs.get(run_id)), len(handler.seen)) == (CANCELLING, 1)
        rows = len(await story.bureau.rows(run_id))
        await runs.signal(run_id, AgentSignalKind.CANCEL)
        await pass_time(story.bureau.clock, 30)
        assert len(await story.bureau.rows(run_id)) == rows
        question = await the_question(runs, run_id)
        await runs.answer(run_id, question.id, ApprovalDecision.APPROVE, resume=False)
        await pass_time(story.bureau.clock, 10)
        assert triple(await runs.get(run_id)) == CANCELLED
    assert [each.target for each in story.broom.asked] == ["run/tool:send#1"]


@pytest.mark.parametrize("is_cleanup", [True, False])
async def test_a_question_under_an_older_policy_is_asked_anew(is_cleanup: bool) -> None:
    story, handler = Cancelled() if is_cleanup else Paused(), Careful()
    run_id = await story.begin(handler)
    handler.policy_version = "1"
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await resumed(runs, run_id)
        first = await the_question(runs, run_id)
    handler.policy_version = "2"
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await runs.answer(run_id, first.id, ApprovalDecision.APPROVE, resume=False)
        state = (await resumed(runs, run_id)).state
        assert triple(state) == (CANCELLING if is_cleanup else WAITING)
        second = await the_question(runs, run_id)
        assert second.id != first.id
        await answered(runs, run_id, ApprovalDecision.APPROVE)
        assert triple(await runs.get(run_id)) == (CANCELLED if is_cleanup else COMPLETED)
        assert await runs.verify(run_id) > 0


async def test_the_words_of_a_rejection_are_redacted() -> None:
    pattern = StreamingSensitivePattern("badge", r"BADGE-\d+", "<badge>")
    story, handler = Cancelled(), Careful()
    story.agent = hired(redaction=StreamingRedactionPolicy(patterns=[pattern]))
    run_id = await story.begin(handler, commits=4)
    async with story.bureau.process(story.agent, story.program, story.counter, handler) as runs:
        await resumed(runs, run_id)
        await answered(runs, run_id, ApprovalDecision.REJECT, "show BADGE-123456")
        report = str((await runs.get(run_id)).metadata["cancellation_cleanup"])
    assert "<badge>" in report
    assert "123456" not in report


async def test_a_run_waits_for_nothing_else_while_its_cleanup_is_asked_about() -> None:
    """A question of a tool was open, and answered, when the run was cancelled and its process died."""
    bureau, agent, handler = Bureau(), hired(), Careful()
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        return await asyncio.gather(worker.desk.refund(Decimal(1)), counter.send("a"))

    async with bureau.process(agent, program, counter, handler, fault=StopAfter(4)) as runs:
        handle = await runs.start(agent, "A-17")
        await counter.begun["send a"].wait()
        await let_run(100)
        (refund,) = await runs.questions(handle.id)
        await runs.answer(handle.id, refund.id, ApprovalDecision.APPROVE, resume=False)
        with suppress(ProcessStopped):
            await runs.cancel(handle.id)
    bureau.clock.advance(60)
    async with bureau.process(agent, program, counter, handler) as runs:
        assert (await runs.get(handle.id)).status is AgentStatus.CANCELLING
        state = (await resumed(runs, handle.id)).state
        pending = {
            each.kind for each in await bureau.store.signals.list_pending(handle.id) if each.end is None
        }
        assert not has_something_to_do(state, pending, bureau.clock.now())
        question = await the_question(runs, handle.id)
        assert question.action_ref == "run/cleanup#1"  # type: ignore[union-attr]
        await runs.approve(question.id)
        assert triple((await resumed(runs, handle.id)).state) == CANCELLED
        assert await runs.verify(handle.id) > 0
    assert bureau.world.done == ["send a"]


@Agent(spec=AgentExecutionSpec(name="paused child", recovery=DURABLE))
class Child:
    """Writes for its parent."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    async def execute(self, task: str) -> str:
        await self.counter.write(task)
        return await self.counter.write("after")


@Agent(spec=AgentExecutionSpec(name="waiting parent", recovery=DURABLE))
class Parent:
    """Waits for its child."""

    def __init__(self, child: Child) -> None:
        self.child = child

    async def execute(self, task: str) -> str:
        return await self.child.execute(task)


async def test_an_interrupted_child_is_asked_about_where_its_parent_is_resumed() -> None:
    bureau, handler = Bureau(), Careful()
    counter = Counter(bureau.world)
    async with bureau.process(Parent, None, Child, counter, handler) as runs:
        handle = await runs.start(Parent, "a")
        await counter.begun["write a"].wait()
        (child,) = [each for each in (await runs.list()).runs if each.agent_type == "paused child"]
        await runs.signal(child.id, PAUSE)
        counter.may_end["write a"].set()
        counter.may_end["write after"].set()
        await handle.result()
        result = await resumed(runs, handle.id)
        assert triple(result.state) == WAITING
        question = await the_question(runs, handle.id)
        assert question.agent_state_id == child.id
        await runs.answer(handle.id, question.id, ApprovalDecision.APPROVE, resume=False)
        assert triple((await resumed(runs, handle.id)).state) == COMPLETED
