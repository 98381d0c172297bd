"""Failures of a model that may pass: they end no durable run, and what they took counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, asked, hired, triple
from tests.behaviour.family import Family, member
from tests.behaviour.family import start as start_family
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker

from pilotage import (
    Agent,
    AgentExecutionSpec,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    RecoveryStrategy,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentEvidenceKind, ModelToolCall, StreamingOptions, ToolApprovalRequirement
from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    MessageDeltaEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentSituation
from pilotage.context import SummariseOldTurns
from pilotage.errors import AgentDefinitionError, ModelCallError
from pilotage.runtime import ModelRetrySettings, RunHandle, WorkerSettings
from pilotage.runtime.events.feed import joined
from pilotage.testing import ScriptedModel, calls, fails, says

WAITING = AgentSituation.MODEL_UNAVAILABLE.value
QUESTION = ModelRequest([ModelMessage.user("Well?")])
OVERLOADED = fails("overloaded", retryable=True)
LOST = fails("the stream was lost", retryable=True, after="one tw")


class Ward:
    """A bureau whose model has outages."""

    def __init__(self, *script: object) -> None:
        self.bureau, self.agent = Bureau(), hired()
        self.clock = self.bureau.clock
        self.model = ScriptedModel(list(script))  # type: ignore[arg-type]

    async def asks(self, worker: Worker) -> object:
        reply = await asked(worker)
        await worker.desk.pay(Decimal(1))
        return reply.content

    async def streams(self, worker: Worker) -> object:
        text = ""
        async for event in worker.model.stream(QUESTION):
            text += event.text if event.is_text_delta else ""
        return text


async def test_a_model_that_is_overloaded_lets_the_run_wait_and_a_worker_asks_again() -> None:
    ward = Ward(OVERLOADED, OVERLOADED, OVERLOADED, says("one two"))
    worker = (WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), ward.bureau.store.backlog)
    async with ward.bureau.process(ward.agent, ward.asks, *worker, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        assert triple(waiting.state) == WAITING
        assert waiting.state.current_activity == "model 'scripted' cannot be used now: overloaded"
        assert waiting.state.wake_at is not None
        assert (waiting.state.wake_at - ward.clock.now()).total_seconds() == 1.0
        await pass_time(ward.clock, 3)
        assert triple(await runs.get(waiting.state.id)) == WAITING
        await pass_time(ward.clock, 30)
        assert triple(await runs.get(waiting.state.id)) == COMPLETED
        assert (await runs.claims(waiting.state.id)).count == 0
        assert (await runs.result(waiting.state.id)).output == "one two"
        assert await runs.verify(waiting.state.id)
    assert ward.bureau.world.done == ["pay 1"]


async def test_a_person_may_resume_the_run_before_its_time() -> None:
    ward = Ward(OVERLOADED, says("one two"))
    async with ward.bureau.process(ward.agent, ward.asks, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        result = await (await runs.resume(waiting.state.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        assert result.state.wake_at is None


async def test_a_stream_that_is_lost_begins_anew_and_the_program_never_gets_both_parts() -> None:
    ward = Ward(LOST, says("one two"))
    async with ward.bureau.process(ward.agent, ward.streams, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        assert triple(waiting.state) == WAITING
        result = await (await runs.resume(waiting.state.id)).result()
        assert result.output == "one two"


async def test_a_whole_reply_that_broke_off_is_asked_for_again_in_the_same_attempt() -> None:
    ward = Ward(LOST, LOST, says("one two"))
    async with ward.bureau.process(ward.agent, ward.asks, model=ward.model) as runs:
        handle = await runs.start(ward.agent, "A-17")
        await let_run()
        assert triple(await runs.get(handle.id)) == AgentSituation.RUNNING.value
        await pass_time(ward.clock, 10)
        result = await handle.result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        assert result.usage.total_tokens is not None
        rows = [row.action_id for row in await ward.bureau.rows(handle.id)]
        assert [each for each in rows if "/try#" in each] == ["run/model#1/try#1", "run/model#1/try#2"]
        assert await runs.verify(handle.id)


@pytest.mark.parametrize("tries", [0, 1])
async def test_the_tries_in_a_process_are_bounded(tries: int) -> None:
    ward = Ward(LOST, LOST, LOST)
    settings = ModelRetrySettings(tries_in_process=tries)
    async with ward.bureau.process(ward.agent, ward.asks, settings, model=ward.model) as runs:
        handle = await runs.start(ward.agent, "A-17")
        await pass_time(ward.clock, 30)
        assert triple((await handle.result()).state) == WAITING
    assert len(ward.model.requests) == 1 + tries


async def test_tokens_of_discarded_tries_count_live_and_after_a_replay() -> None:
    ward = Ward(LOST, LOST, says("one two"), says("three"))

    async def program(worker: Worker) -> object:
        first = await asked(worker)
        await worker.desk.refund(Decimal(1))
        return first.content

    async with ward.bureau.process(ward.agent, program, model=ward.model) as runs:
        handle = await runs.start(ward.agent, "A-17")
        await pass_time(ward.clock, 10)
        paused = await handle.result()
        live = await runs.result(handle.id)
        (question,) = await runs.questions(handle.id)
        await runs.approve(question.id, resume=False)
        result = await (await runs.resume(handle.id)).result()
    assert triple(paused.state) == AgentSituation.WAITING_FOR_APPROVAL.value
    single = Ward(says("one two"))
    async with single.bureau.process(single.agent, single.asks, model=single.model) as runs:
        plain = await (await runs.start(single.agent, "A-17")).result()
    assert result.spent.tokens > plain.spent.tokens
    assert result.spent.steps == plain.spent.steps == 1
    assert live.state.id == handle.id


async def test_a_failure_that_stays_is_raised_in_the_program() -> None:
    ward = Ward(fails("refused", retryable=False))
    async with ward.bureau.process(ward.agent, ward.asks, model=ward.model) as runs:
        result = await (await runs.start(ward.agent, "A-17")).result()
    assert triple(result.state) == AgentSituation.FAILED.value


async def test_the_pause_grows_with_all_tries_of_the_call() -> None:
    ward = Ward(*[OVERLOADED] * 7)
    async with ward.bureau.process(ward.agent, ward.asks, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        pauses = []
        for _ in range(6):
            assert waiting.state.wake_at is not None
            pauses.append((waiting.state.wake_at - ward.clock.now()).total_seconds())
            waiting = await (await runs.resume(waiting.state.id)).result()
        assert pauses == [1, 4, 16, 64, 256, 300]
        run = RunKey("default", waiting.state.id)
        assert await ward.bureau.store.leases.holder(run) is None


async def test_an_outage_longer_than_the_step_limit_ends_no_run() -> None:
    ward = Ward(*[OVERLOADED] * 4, says("one two"))
    ward.agent = hired(limits=AgentExecutionLimits(max_steps=2))
    async with ward.bureau.process(ward.agent, ward.asks, model=ward.model) as runs:
        result = await (await runs.start(ward.agent, "A-17")).result()
        for _ in range(4):
            assert triple(result.state) == WAITING
            result = await (await runs.resume(result.state.id)).result()
    assert triple(result.state) == COMPLETED


async def test_a_run_waits_with_its_child_and_both_go_on() -> None:
    family = Family(has_leases=True)
    model = ScriptedModel([OVERLOADED, says("one two")])

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {"task": "work"})

    async def child(deps: Dependencies, prompt: str) -> object:
        return (await deps.model.complete(QUESTION)).content

    agents = (member("parent", parent), member("child", child))
    worker = (WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), family.store.backlog)
    async with family.process(*agents, add=worker, model=model) as runs:
        waiting = await start_family(runs, agents[0])
        assert triple(waiting.state) == WAITING
        assert "its child 'child': model" in str(waiting.state.current_activity)
        await pass_time(family.clock, 10)
        assert triple(await runs.get(waiting.state.id)) == COMPLETED


@pytest.mark.parametrize("reply", [OVERLOADED, LOST])
async def test_other_tasks_of_the_program_go_on_while_its_model_cannot_be_used(reply: object) -> None:
    ward = Ward(reply, says("one two"))

    async def program(worker: Worker) -> object:
        text, paid = await asyncio.gather(ward.streams(worker), twice(worker))
        return [text, paid]

    async def twice(worker: Worker) -> object:
        for amount in (1, 2):
            await worker.desk.pay(Decimal(amount))
        return "paid"

    async with ward.bureau.process(ward.agent, program, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        assert triple(waiting.state) == WAITING
        assert waiting.state.wake_at is not None
        assert ward.bureau.world.done == ["pay 1", "pay 2"]
        rows = await ward.bureau.rows(waiting.state.id)
        tries = [row for row in rows if row.action_id.endswith("/model#1/try#1")]
        assert [row.number for row in tries] == [1]
        result = await (await runs.resume(waiting.state.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, ["one two", "paid"])
        assert await runs.verify(waiting.state.id)
    assert ward.bureau.world.done == ["pay 1", "pay 2"]


async def test_a_run_waits_for_a_person_and_its_model_at_once_and_goes_on_with_either() -> None:
    ward = Ward(OVERLOADED, says("one two"))

    async def program(worker: Worker) -> object:
        reply, _ = await asyncio.gather(asked(worker), worker.desk.refund(Decimal(1)))
        return reply.content

    async with ward.bureau.process(ward.agent, program, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        assert triple(waiting.state) == AgentSituation.WAITING_FOR_APPROVAL.value
        assert waiting.state.wake_at is not None
        again = await (await runs.resume(waiting.state.id)).result()
        assert triple(again.state) == AgentSituation.WAITING_FOR_APPROVAL.value
        assert again.state.wake_at is None
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id, resume=False)
        result = await (await runs.resume(waiting.state.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")


@pytest.mark.parametrize("reply", [OVERLOADED, LOST])
async def test_a_program_may_give_up_a_model_that_cannot_be_used(reply: object) -> None:
    ward = Ward(reply)

    async def program(worker: Worker) -> object:
        reply = asyncio.create_task(asked(worker))
        await worker.desk.pay(Decimal(1))
        reply.cancel()
        (given_up,) = await asyncio.gather(reply, return_exceptions=True)
        await worker.desk.refund(Decimal(2))
        return isinstance(given_up, asyncio.CancelledError)

    async with ward.bureau.process(ward.agent, program, model=ward.model) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        assert triple(waiting.state) == AgentSituation.WAITING_FOR_APPROVAL.value
        assert waiting.state.wake_at is None
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id, resume=False)
        result = await (await runs.resume(waiting.state.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, True)
        assert await runs.verify(waiting.state.id)
    assert (result.spent.steps, len(ward.model.requests)) == (1, 1)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="longest_seconds"):
        ModelRetrySettings(first_seconds=5.0, longest_seconds=1.0)
    with pytest.raises(AgentDefinitionError, match="tries_in_process"):
        ModelRetrySettings(tries_in_process=-1)


BUDGET = ContextTokenBudget(max_tokens=700, reserved_output_tokens=100)


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=BUDGET,
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


def pages(*script: object) -> ScriptedModel:
    """A model that reads three pages; then it is asked for a summary."""
    read = [calls("page", number=number) for number in (1, 2, 3)]
    return ScriptedModel([*read, *script, says("Read.")])  # type: ignore[list-item]


async def read_through(model: ScriptedModel, settings: ModelRetrySettings) -> tuple[Bureau, RunResult, int]:
    """Bring a run of the reader to its end; also how often it had to be resumed."""
    bureau, resumed = Bureau(), 0
    async with bureau.process(Reader, None, settings, model=model) as runs:
        handle = await runs.start(Reader, "read three pages")
        while True:
            await pass_time(bureau.clock, 60)
            result = await handle.result()
            if result.state.is_terminal:
                await runs.verify(handle.id)
                return bureau, result, resumed
            assert triple(result.state) == WAITING
            resumed += 1
            handle = await runs.resume(handle.id)


@pytest.mark.parametrize(
    ("failures", "tries", "resumed"), [(0, 2, 0), (1, 2, 0), (2, 2, 0), (3, 2, 1), (3, 0, 3)]
)
async def test_a_summary_is_asked_for_again_as_a_reply_is(failures: int, tries: int, resumed: int) -> None:
    model = pages(*[OVERLOADED] * failures, says("Pages 1 and 2 are full of words."))
    settings = ModelRetrySettings(tries_in_process=tries)
    bureau, result, times = await read_through(model, settings)
    assert (triple(result.state), result.output, times) == (COMPLETED, "Read.", resumed)
    rows = [row.action_id for row in await bureau.rows(result.state.id)]
    assert len([each for each in rows if "/try#" in each]) == failures
    evidence = await bureau.store.evidence.list_by_state(result.state.id)
    assert AgentEvidenceKind.CONTEXT_DIGEST in {each.kind for each in evidence}
    assert result.spent.steps == 5
    model.assert_complete()


async def test_a_summary_that_fails_for_good_leaves_the_context_as_it_is() -> None:
    model = pages(fails("refused", retryable=False))
    _, result, _ = await read_through(model, ModelRetrySettings())
    assert triple(result.state) == COMPLETED
    model.assert_complete()


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Answer; book what has to be booked."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.REQUIRED)
    async def book(self, what: str) -> str:
        """Book a thing."""
        self.booked.append(what)
        return "booked"


class Torn(IAgentModel):
    """A scripted model whose first stream is lost in the middle of a tool call."""

    def __init__(self, *script: object) -> None:
        self.model, self.is_torn = ScriptedModel(list(script)), False  # type: ignore[arg-type]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if not self.is_torn:
            self.is_torn = True
            yield ModelStreamEvent(
                ModelStreamEventKind.TOOL_CALL_START, tool_call=ModelToolCall("book", {}, "call-0")
            )
            raise ModelCallError("the stream was lost", retryable=True)
        async for event in self.model.stream(request):
            yield event


async def told(handle: RunHandle) -> list[AgentEvent]:
    return [event async for event in handle.events()]


def text_in(events: Sequence[AgentEvent]) -> str:
    return "".join(event.delta for event in joined(events) if isinstance(event, MessageDeltaEvent))


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_stream_that_a_loop_reads_begins_anew_in_the_same_attempt(lost: int) -> None:
    bureau, model = Bureau(), ScriptedModel([*[LOST] * lost, says("one two")])
    async with bureau.process(Clerk, None, model=model) as runs:
        handle = await runs.start(Clerk, "count")
        events = asyncio.create_task(told(handle))
        await pass_time(bureau.clock, 30)
        result = await handle.result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        assert text_in(await events) == "one two"
        messages = {event.message_id for event in await events if isinstance(event, MessageDeltaEvent)}
        assert len(messages) == 1 + lost
        marks = [event for event in await events if event.metadata.get(SUPERSEDED)]
        assert len(marks) == lost
        assert text_in([event async for event in runs.events(handle.id)]) == "one two"
        assert (result.spent.steps, len(model.requests)) == (1, 1 + lost)
        assert await runs.verify(handle.id)


async def test_a_loop_pauses_when_its_stream_is_lost_again_and_again() -> None:
    bureau, model = Bureau(), ScriptedModel([*[LOST] * 3, says("one two")])
    async with bureau.process(Clerk, None, model=model) as runs:
        handle = await runs.start(Clerk, "count")
        await pass_time(bureau.clock, 30)
        assert triple((await handle.result()).state) == WAITING
        result = await (await runs.resume(handle.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        assert text_in([event async for event in runs.events(handle.id)]) == "one two"


async def test_a_reply_that_began_anew_is_the_same_message_in_replay() -> None:
    bureau, book = Bureau(), calls("book", what="tea")
    model = Torn(LOST, book, says("one two"))
    async with bureau.process(Clerk, None, model=model) as runs:
        handle = await runs.start(Clerk, "count")
        await pass_time(bureau.clock, 30)
        assert triple((await handle.result()).state) == AgentSituation.WAITING_FOR_APPROVAL.value
        before = [event async for event in runs.events(handle.id)]
    async with bureau.process(Clerk, None, model=model) as runs:
        (question,) = await runs.questions(handle.id)
        await runs.approve(question.id, resume=False)
        result = await (await runs.resume(handle.id)).result()
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        after = [event async for event in runs.events(handle.id)]
        assert await runs.verify(handle.id)
    calls_told = [event for event in joined(after) if isinstance(event, ToolCallStartEvent)]
    (start,) = calls_told
    (answer,) = [event for event in joined(after) if isinstance(event, ToolCallResultEvent)]
    assert start.parent_message_id == answer.message_id
    assert [event for event in joined(before) if isinstance(event, ToolCallStartEvent)] == calls_told
    assert text_in(after) == "one two"


async def test_a_program_that_can_take_back_what_it_got_says_so() -> None:
    ward = Ward(LOST, says("one two"))
    request = ModelRequest([ModelMessage.user("Well?")], streaming=StreamingOptions(restarts=True))

    async def program(worker: Worker) -> object:
        texts: list[str] = [""]
        async for event in worker.model.stream(request):
            if event.is_restart:
                texts.append("")
            elif event.is_text_delta:
                texts[-1] += event.text
        return texts

    async with ward.bureau.process(ward.agent, program, model=ward.model) as runs:
        handle = await runs.start(ward.agent, "A-17")
        await pass_time(ward.clock, 30)
        result = await handle.result()
    assert (triple(result.state), result.output) == (COMPLETED, ["one tw", "one two"])
