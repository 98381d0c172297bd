"""Handlers decide for an application: who is asked, what is published, what became of a call, how a tool is called."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    DIVERGED,
    DURABLE,
    FAILED,
    LIMITED,
    RECOVERY,
    REJECTED,
    WAITING,
    Bureau,
    Metered,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Desk, Worker

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentYield,
    ApprovalDecision,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RunContext,
    Token,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentRecoveryRequest,
    AgentResumeBoundary,
    AgentToolDescriptor,
    ApprovalSubject,
    IAgentApprovalHandler,
    IAgentOutputGuard,
    IAgentRecoveryHandler,
    IAgentToolHandler,
    ModelToolCall,
    RecoveryAnswer,
    RecoveryCancelled,
    RecoveryDecision,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
    RejectionPolicy,
    RunFinishedEvent,
    ToolRisk,
)
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import (
    AgentOutputGuardError,
    AgentToolDispatchError,
    AnswerConflictError,
    CallerError,
    ToolError,
)
from pilotage.jsonvalue import JsonValue
from pilotage.testing import ScriptedModel, StopAfter, calls, says, turn


class AsksAt(IAgentApprovalHandler):
    """Wants a person to look at one kind of action, of the first run it hears of."""

    def __init__(self, boundary: AgentApprovalBoundaryKind, **wording: object) -> None:
        self.boundary, self.wording = boundary, wording
        self.run: str | None = None
        self.subjects: list[ApprovalSubject] = []

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        self.run = self.run or context.run_id
        if context.run_id != self.run:
            return None
        self.subjects.append(subject)
        if subject.boundary is not self.boundary:
            return None
        request = AgentApprovalRequest(
            "ignored", "ignored", subject.boundary, f"May {subject.summary} go on?", ToolRisk(), "ignored"
        )
        return replace(request, **self.wording)  # type: ignore[arg-type]


class Broken(AsksAt):
    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        await super().request_for(context, subject)
        raise ConnectionError("nobody is there")


MODEL, TOOL, DELEGATION, PUBLICATION = (
    AgentApprovalBoundaryKind.MODEL_CALL,
    AgentApprovalBoundaryKind.TOOL_INVOCATION,
    AgentApprovalBoundaryKind.DELEGATION,
    AgentApprovalBoundaryKind.FINAL_PUBLICATION,
)


@Agent(spec=AgentExecutionSpec(name="helper", recovery=DURABLE))
class Helper:
    async def execute(self, task: str) -> str:
        return f"helped with {task}"


@Agent(spec=AgentExecutionSpec(name="all of it", recovery=DURABLE))
class AllOfIt:
    """Passes every boundary once."""

    def __init__(self, model: IAgentModel, desk: Desk, helper: Helper) -> None:
        self.model, self.desk, self.helper = model, desk, helper

    async def execute(self, task: str) -> str:
        said = (await self.model.complete(ModelRequest([ModelMessage.user(task)]))).content
        await self.desk.note(said)
        return await self.helper.execute(said)


@pytest.mark.parametrize("boundary", [MODEL, TOOL, DELEGATION, PUBLICATION])
async def test_a_handler_has_a_person_asked_at_any_boundary(boundary: AgentApprovalBoundaryKind) -> None:
    bureau, handler, model = Bureau(), AsksAt(boundary), Metered()
    async with bureau.process(AllOfIt, None, handler, Helper, model=model) as runs:
        waiting = await started(runs, AllOfIt, "it")
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        assert (question.boundary, question.agent_state_id) == (boundary, waiting.state.id)
        assert question.prompt.startswith("May ")
        assert question.prompt.endswith(" go on?")
        before = len(handler.subjects)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
        again = [each.boundary for each in handler.subjects[before:]]
    assert (triple(result.state), result.output) == (COMPLETED, "helped with word 1")
    assert (model.asked, bureau.world.done) == (1, ["note word 1"])
    assert boundary not in again


@pytest.mark.parametrize("boundary", [MODEL, TOOL, DELEGATION, PUBLICATION])
async def test_nothing_happens_behind_a_boundary_that_a_person_refuses(
    boundary: AgentApprovalBoundaryKind,
) -> None:
    bureau, handler, model = Bureau(), AsksAt(boundary), Metered()
    async with bureau.process(AllOfIt, None, handler, Helper, model=model) as runs:
        waiting = await started(runs, AllOfIt, "it")
        (question,) = await runs.questions(waiting.state.id)
        await runs.reject(question.id, comment="better not")
        result = await resumed(runs, waiting.state.id)
        events = [event async for event in runs.events(waiting.state.id)]
        kept = await runs.result(waiting.state.id)
    assert triple(result.state) == REJECTED
    assert result.output is None
    assert kept.output is None
    end = events[-1]
    assert isinstance(end, RunFinishedEvent)
    assert end.metadata["output"] is None
    assert (boundary is MODEL) is (model.asked == 0)
    assert (boundary in (MODEL, TOOL)) is (bureau.world.done == [])


@pytest.mark.parametrize("boundary", [MODEL, TOOL, PUBLICATION])
async def test_a_handler_that_fails_has_a_person_asked(boundary: AgentApprovalBoundaryKind) -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        if boundary is MODEL:
            return (await asked(worker)).content
        if boundary is TOOL:
            return await worker.desk.note("x")
        return "done"

    async with bureau.process(agent, program, Broken(boundary), model=Metered()) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        assert question.boundary is boundary
    assert bureau.world.done == []


async def test_a_handler_words_the_question_and_says_which_answers_are_possible() -> None:
    bureau, agent = Bureau(), hired()
    offered = (ApprovalDecision.APPROVE, ApprovalDecision.REJECT)
    handler = AsksAt(TOOL, prompt="Really?", allowed_decisions=offered, metadata={"team": "night shift"})
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), handler) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        assert (question.prompt, question.allowed_decisions) == ("Really?", offered)
        assert question.metadata["team"] == "night shift"
        with pytest.raises(CallerError, match="which is not offered"):
            await runs.modify(question.id, {"what": "y"})
        with pytest.raises(CallerError, match="which is not offered"):
            await runs.defer(question.id)
        await runs.approve(question.id)
        assert (await resumed(runs, waiting.state.id)).output == "x"


async def test_a_question_that_has_expired_is_a_no_whoever_answers_it_and_if_nobody_does() -> None:
    for is_answered in (True, False):
        bureau, agent = Bureau(), hired()
        handler = AsksAt(TOOL, expires_at=bureau.clock.now() + timedelta(minutes=5))
        async with bureau.process(agent, lambda worker: worker.desk.note("x"), handler) as runs:
            waiting = await started(runs, agent)
            (question,) = await runs.questions(waiting.state.id)
            bureau.clock.advance(301)
            if is_answered:
                with pytest.raises(AnswerConflictError, match="expired"):
                    await runs.approve(question.id)
            result = await resumed(runs, waiting.state.id)
        assert triple(result.state) == REJECTED
        assert bureau.world.done == []


async def test_an_answer_that_came_in_time_counts_whenever_the_run_comes_back() -> None:
    bureau, agent = Bureau(), hired()
    handler = AsksAt(TOOL, expires_at=bureau.clock.now() + timedelta(minutes=5))
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), handler) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        bureau.clock.advance(299)
        await runs.approve(question.id)
        bureau.clock.advance(1000)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
    assert bureau.world.done == ["note x"]


async def test_a_no_to_a_model_call_is_told_to_an_agent_that_wants_to_hear_it() -> None:
    bureau, agent = Bureau(), hired(on_rejection=RejectionPolicy.TELL_MODEL)

    async def program(worker: Worker) -> object:
        try:
            return (await asked(worker)).content
        except Exception as error:  # noqa: BLE001 - it is told
            return f"{type(error).__name__}: {error}"

    async with bureau.process(agent, program, AsksAt(MODEL), model=(model := Metered())) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.reject(question.id, comment="too dear")
        result = await resumed(runs, waiting.state.id)
    assert result.output == "ModelCallError: a person rejected this call: too dear"
    assert model.asked == 0


async def test_an_approval_of_an_answer_is_for_that_answer() -> None:
    """An output guard that says something else the second time does not get it past the person."""

    class Fickle(IAgentOutputGuard):
        def __init__(self) -> None:
            self.times = 0

        async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
            self.times += 1
            return f"{output}, version {self.times}"

    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        return "an answer"

    async with bureau.process(agent, program, AsksAt(PUBLICATION), Fickle()) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        assert "version 1" in repr(question.arguments)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
    assert triple(result.state) == DIVERGED


class Strict(IAgentOutputGuard):
    """Lets no answer out that says a certain word, and shortens the others."""

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        if "forbidden" in str(output):
            raise AgentOutputGuardError("not that word")
        return str(output)[:8]


class BrokenGuard(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        raise ConnectionError("the guard is not there")


@Agent(spec=AgentExecutionSpec(name="speaker", recovery=DURABLE))
class Speaker:
    async def execute(self, words: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Token("speaking")
        yield Final(words)


async def test_a_guard_changes_the_answer_for_everybody() -> None:
    bureau = Bureau()
    async with bureau.process(Speaker, None, Strict()) as runs:
        result = await started(runs, Speaker, "a rather long answer")
        kept = await runs.result(result.state.id)
        events = [event async for event in runs.events(result.state.id)]
    assert (result.output, kept.output) == ("a rather", "a rather")
    end = events[-1]
    assert isinstance(end, RunFinishedEvent)
    assert end.metadata["output"] == "a rather"
    _, *rows = await bureau.rows(result.state.id)
    assert "a rather long" not in repr(rows)


@pytest.mark.parametrize(
    ("guard", "words"), [(Strict(), "not that word"), (BrokenGuard(), "ConnectionError")]
)
async def test_an_answer_that_must_not_leave_does_not_leave_as_a_partial_one(
    guard: IAgentOutputGuard, words: str
) -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        return "the forbidden words"

    async with bureau.process(agent, program, guard) as runs:
        result = await started(runs, agent)
        kept = await runs.result(result.state.id)
        events = [event async for event in runs.events(result.state.id)]
    assert triple(result.state) == FAILED
    assert result.error is not None
    assert words in str(result.error["message"])
    assert (result.output, kept.output) == (None, None)
    assert "the forbidden words" not in repr(events)
    assert "the forbidden words" not in repr(await bureau.rows(result.state.id))


async def test_a_partial_answer_passes_the_guard_too() -> None:
    bureau = Bureau()

    @Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE, limits=AgentExecutionLimits(max_steps=1)))
    class Talker:
        """Talk."""

        def __init__(self, desk: Desk) -> None:
            self.desk = desk

    model = ScriptedModel([turn(says("the forbidden thought"), calls("look", what="x"))])
    async with bureau.process(Talker, None, Strict(), model=model) as runs:
        result = await started(runs, Talker, "think")
    assert triple(result.state) == LIMITED
    assert result.output is None


class Knows(IAgentRecoveryHandler):
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, answer: Callable[[AgentResumeBoundary], RecoveryAnswer | None]) -> None:
        self.answer = answer
        self.asked: list[AgentResumeBoundary] = []

    async def decide(self, context: RunContext, boundary: AgentResumeBoundary) -> RecoveryAnswer | None:
        self.asked.append(boundary)
        return self.answer(boundary)


async def pays(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(1))).number


async def pays_then_asks(worker: Worker) -> object:
    number = (await worker.desk.pay(Decimal(1))).number
    await worker.desk.refund(Decimal(2))
    return number


def retry(boundary: AgentResumeBoundary) -> RecoveryAnswer:
    return RecoveryRetried("any", boundary.action_id, 1)


def done(boundary: AgentResumeBoundary) -> RecoveryAnswer:
    return RecoveryDone("any", boundary.action_id, {"number": 7, "amount": "1"})


@pytest.mark.parametrize(("answer", "number", "paid"), [(retry, 1, ["pay 1"]), (done, 7, [])])
async def test_a_recovery_handler_spares_a_person_and_its_answer_is_recorded_like_one(
    answer: Callable[[AgentResumeBoundary], RecoveryAnswer], number: int, paid: list[str]
) -> None:
    bureau, agent, handler = Bureau(), hired(), Knows(answer)
    run_id = await bureau.dead_process(agent, pays_then_asks, handler, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, pays_then_asks, handler) as runs:
        waiting = await resumed(runs, run_id)
        assert triple(waiting.state) == WAITING
        (question,) = await runs.questions(run_id)
        assert isinstance(question, AgentApprovalRequest)
        await runs.approve(question.id)
        result = await resumed(runs, run_id)
        assert await runs.verify(run_id) > 0
    assert (result.output, bureau.world.done) == (number, [*paid, "refund 2"])
    assert len(handler.asked) == 1
    answers = [
        (row.stage, row.view)
        for row in await bureau.rows(run_id)
        if row.action_id == "run/tool:pay#1/recovery1" and isinstance(row.view, dict)
    ]
    assert [stage for stage, _ in answers] == [JournalStage.BEFORE, JournalStage.AFTER]
    assert answers[1][1]["answer"] == type(answer(handler.asked[0])).__name__


async def test_a_retry_of_a_handler_is_a_new_attempt() -> None:
    bureau, agent, handler = Bureau(), hired(), Knows(retry)
    run_id = await bureau.dead_process(agent, pays, handler, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, pays, handler) as runs:
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert [attempt for _, _, attempt in bureau.world.knocks] == [2]


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (lambda each: RecoveryFailed("any", each.action_id, "it is lost"), FAILED),
        (lambda each: RecoveryCancelled("any", each.action_id, "stop it"), CANCELLED),
    ],
)
async def test_a_recovery_handler_may_end_the_run(
    answer: Callable[[AgentResumeBoundary], RecoveryAnswer], end: tuple[str, str, str]
) -> None:
    bureau, agent, handler = Bureau(), hired(), Knows(answer)
    run_id = await bureau.dead_process(agent, pays, handler, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, pays, handler) as runs:
        result = await resumed(runs, run_id)
        assert await runs.verify(run_id) > 0
    assert triple(result.state) == end
    assert bureau.world.done == []


def nothing(boundary: AgentResumeBoundary) -> None:
    return None


def nonsense(boundary: AgentResumeBoundary) -> RecoveryAnswer:
    return RecoveryDone("any", boundary.action_id, {"no": "receipt"})


def broken(boundary: AgentResumeBoundary) -> RecoveryAnswer:
    raise ConnectionError("the bank does not answer")


@pytest.mark.parametrize("answer", [nothing, nonsense, broken])
async def test_what_a_recovery_handler_cannot_say_is_left_to_a_person(
    answer: Callable[[AgentResumeBoundary], RecoveryAnswer | None],
) -> None:
    bureau, agent, handler = Bureau(), hired(), Knows(answer)
    run_id = await bureau.dead_process(agent, pays, handler, fault=StopAfter(2))
    bureau.clock.advance(60)
    async with bureau.process(agent, pays, handler) as runs:
        waiting = await resumed(runs, run_id)
        assert triple(waiting.state) == RECOVERY
        handler.answer = done
        assert triple((await resumed(runs, run_id)).state) == RECOVERY
        (question,) = await runs.questions(run_id)
        assert isinstance(question, AgentRecoveryRequest)
        await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
        result = await resumed(runs, run_id)
        assert await runs.questions(run_id) == ()
    assert (triple(result.state), bureau.world.done) == (COMPLETED, ["pay 1"])
    assert len(handler.asked) == 1


class Elsewhere(IAgentToolHandler):
    """Carries calls out in its own way."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.calls: list[tuple[str, object]] = []

    async def handle(
        self, context: RunContext, descriptor: AgentToolDescriptor, call: ModelToolCall
    ) -> JsonValue:
        self.calls.append((call.name, dict(call.arguments)))
        if self.failure is not None:
            raise self.failure
        return {"number": 99, "amount": "5"}


async def test_a_tool_handler_takes_the_place_of_the_call() -> None:
    bureau, agent, handler = Bureau(), hired(), Elsewhere()

    async def program(worker: Worker) -> object:
        receipt = await worker.desk.pay(Decimal(5))
        return [receipt.number, str(receipt.amount + 1)]

    async with bureau.process(agent, program, handler) as runs:
        result = await started(runs, agent)
    assert result.output == [99, "6"]
    assert handler.calls == [("pay", {"amount": "5"})]
    assert bureau.world.done == []


async def test_a_handled_call_is_recorded_and_replayed_like_any_other() -> None:
    bureau, agent, handler = Bureau(), hired(), Elsewhere()
    async with bureau.process(agent, pays_then_asks, handler) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == WAITING
        await resumed(runs, waiting.state.id)
    assert [name for name, _ in handler.calls] == ["pay"]


@pytest.mark.parametrize("failure", [ToolError("refused"), AgentToolDispatchError("refused")])
async def test_a_tool_handler_that_cannot_carry_a_call_out_has_failed_for_certain(failure: Exception) -> None:
    bureau, agent = Bureau(), hired()

    async def program(worker: Worker) -> object:
        try:
            return (await worker.desk.pay(Decimal(5))).number
        except ToolError as error:
            return str(error)

    async with bureau.process(agent, program, Elsewhere(failure)) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.output) == (COMPLETED, "refused")


async def test_a_tool_handler_that_breaks_leaves_an_unknown_outcome() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays, Elsewhere(ConnectionError("gone"))) as runs:
        waiting = await started(runs, agent)
    assert triple(waiting.state) == RECOVERY
