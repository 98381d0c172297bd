"""The time of a run: absolute, written down, in force wherever the run goes on; and what it cuts short."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DEFERRED,
    DURABLE,
    RECOVERY,
    TIMED_OUT,
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
from tests.behaviour.office import OUTSIDE, UNGATED, Desk, Program, Worker, World

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    Idempotency,
    Pod,
    RunResult,
    TimeoutPolicy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentRecoveryRequest, RecoveryDecision, RunFinishedEvent
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import ToolError
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, MemoryStore, ScriptedModel, StopAfter, StopBefore, calls, says

MINUTE: dict[str, Any] = {"limits": AgentExecutionLimits(timeout_seconds=60)}
UNKNOWN = {"error": "the outcome is unknown: the run ended while the call was under way"}
LONG = 1000.0


def at_the(counter: Counter, *names: str) -> Callable[[Worker], Awaitable[object]]:
    """A program that calls slow tools one by one: `at_the(counter, "read x", "send y")`."""

    async def program(worker: Worker) -> object:
        for name in names:
            tool, _, what = name.partition(" ")
            await getattr(counter, tool)(what)
        return "done"

    return program


async def late(bureau: Bureau, seconds: float = 60) -> None:
    """The time passes, and everybody who waits for it hears of that."""
    bureau.clock.advance(seconds)
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_run_whose_time_is_up_ends_as_the_contract_says() -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    async with bureau.process(agent, at_the(counter, "read a"), counter) as runs:
        handle = await runs.start(agent, "A-17")
        await counter.begun["read a"].wait()
        await late(bureau)
        result = await handle.result()
        kept = await runs.result(handle.id)
        events = [event async for event in runs.events(handle.id)]
    assert triple(result.state) == TIMED_OUT
    assert result.error is not None
    assert (result.error["code"], result.interruption_reason) == ("agent_timeout", "agent_timeout")
    assert "has passed. Raise AgentExecutionLimits.timeout_seconds" in str(result.error["message"])
    assert (kept.error, kept.interruption_reason) == (result.error, "agent_timeout")
    assert [type(event) for event in events].count(RunFinishedEvent) == 1
    assert counter.stopped == ["read a"]
    assert nobody_is_left()


@pytest.mark.parametrize("tool", ["write", "send"])
async def test_a_call_that_was_under_way_is_recorded_as_unknown_and_nobody_is_asked(tool: str) -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    async with bureau.process(agent, at_the(counter, f"{tool} a", "send b"), counter) as runs:
        handle = await runs.start(agent, "A-17")
        await counter.begun[f"{tool} a"].wait()
        await late(bureau)
        result = await handle.result()
        assert await runs.questions(handle.id) == ()
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == TIMED_OUT
    assert await bureau.outcome(handle.id, tool) == UNKNOWN
    assert bureau.world.done == [f"{tool} a"]
    assert nobody_is_left()


async def test_time_that_is_up_in_the_middle_of_a_model_stream_closes_it() -> None:
    bureau, agent, model = Bureau(), hired(**MINUTE), SlowModel()

    async def listens(worker: Worker) -> object:
        return (await asked(worker)).content

    async with bureau.process(agent, listens, model=model) as runs:
        handle = await runs.start(agent, "A-17")
        await model.is_speaking.wait()
        await late(bureau)
        result = await handle.result()
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == TIMED_OUT
    assert model.closed == 1
    assert nobody_is_left()


async def test_a_declarative_agent_has_a_deadline_too_and_its_partial_words_are_kept() -> None:
    bureau = Bureau()

    @Agent(spec=AgentExecutionSpec(name="slow", recovery=DURABLE, timeout_seconds=60))
    class Slow:
        """Take your time."""

        def __init__(self, counter: Counter, model: IAgentModel) -> None:
            self.counter, self.model = counter, model

    counter = Counter(bureau.world)
    model = ScriptedModel([calls("read", what="a"), says("never")])
    async with bureau.process(Slow, None, counter, model=model) as runs:
        handle = await runs.start(Slow, "read")
        await counter.begun["read a"].wait()
        await late(bureau)
        result = await handle.result()
    assert (triple(result.state), result.turns) == (TIMED_OUT, 1)
    assert nobody_is_left()


async def test_work_that_nobody_waits_for_ends_with_the_time_of_its_run() -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    tasks: list[asyncio.Task[str]] = []

    async def careless(worker: Worker) -> object:
        tasks.append(asyncio.create_task(counter.send("aside")))
        return await counter.read("a")

    async with bureau.process(agent, careless, counter) as runs:
        handle = await runs.start(agent, "A-17")
        await asyncio.gather(counter.begun["read a"].wait(), counter.begun["send aside"].wait())
        await late(bureau)
        result = await handle.result()
        assert await runs.verify(handle.id) > 0
    assert triple(result.state) == TIMED_OUT
    assert sorted(counter.stopped) == ["read a", "send aside"]
    assert nobody_is_left()


@pytest.mark.parametrize("is_gated", [False, True])
async def test_a_program_that_is_through_does_not_wait_for_its_stragglers_beyond_its_time(
    is_gated: bool,
) -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    tasks: list[asyncio.Task[str]] = []

    async def careless(worker: Worker) -> object:
        tasks.append(asyncio.create_task(counter.send("aside")))
        await counter.begun["send aside"].wait()
        if is_gated:
            await worker.desk.refund(Decimal(1))
        return "done"

    async with bureau.process(agent, careless, counter) as runs:
        handle = await runs.start(agent, "A-17")
        await counter.begun["send aside"].wait()
        for _ in range(20):
            await asyncio.sleep(0)
        await late(bureau)
        result = await handle.result()
    assert triple(result.state) == TIMED_OUT
    assert nobody_is_left()


async def test_the_deadline_holds_after_a_restart() -> None:
    bureau, agent = Bureau(), hired(**MINUTE)

    async def notes(worker: Worker) -> object:
        await worker.desk.note("one")
        await worker.desk.note("two")
        return "done"

    run_id = await bureau.dead_process(agent, notes, fault=StopBefore(3))
    bureau.clock.advance(61)
    async with bureau.process(agent, notes) as runs:
        result = await resumed(runs, run_id)
    assert triple(result.state) == TIMED_OUT
    assert bureau.world.done == ["note one"]


async def test_a_process_that_was_away_does_not_move_the_deadline() -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    program = at_the(counter, "write a")
    run_id = await bureau.dead_process(agent, program, counter, fault=StopBefore(2))
    bureau.clock.advance(40)
    async with bureau.process(agent, program, counter) as runs:
        handle = await runs.resume(run_id)
        await counter.begun["write a"].wait()
        await late(bureau, 19)
        assert not counter.stopped
        await late(bureau, 1)
        result = await handle.result()
    assert triple(result.state) == TIMED_OUT


async def test_a_call_that_a_crash_left_open_is_unknown_when_the_time_is_up_before_anybody_comes_back() -> (
    None
):
    bureau, agent = Bureau(), hired(**MINUTE)

    async def pays(worker: Worker) -> object:
        await worker.desk.look("first")
        return (await worker.desk.pay(Decimal(1))).number

    run_id = await bureau.dead_process(agent, pays, fault=StopAfter(2))
    bureau.clock.advance(61)
    async with bureau.process(agent, pays) as runs:
        result = await resumed(runs, run_id)
        assert await runs.verify(run_id) > 0
        assert await runs.questions(run_id) == ()
    assert triple(result.state) == TIMED_OUT
    assert await bureau.outcome(run_id, "pay") == UNKNOWN
    assert "pay 1" not in bureau.world.done


class Waiting:
    """A run that waits for a person, has a minute, and reads slowly once it is allowed to."""

    def __init__(self, **spec: Any) -> None:
        self.bureau = Bureau()
        self.counter = Counter(self.bureau.world)
        self.agent = hired(**{**MINUTE, **spec})

    async def program(self, worker: Worker) -> object:
        await worker.desk.refund(Decimal(1))
        return await self.counter.read("a")

    def process(self, fault: Fault | None = None) -> AbstractAsyncContextManager[AgentRuns]:
        return self.bureau.process(self.agent, self.program, self.counter, fault=fault)

    async def ends_after(self, runs: AgentRuns, run_id: str, seconds: float) -> RunResult:
        """Approve, go on, and let the time pass: to the second before, and to the second."""
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id)
        handle = await runs.resume(run_id)
        await self.counter.begun["read a"].wait()
        await late(self.bureau, seconds - 1)
        assert not self.counter.stopped
        await late(self.bureau, 1)
        return await asyncio.wait_for(handle.result(), 120)


async def test_waiting_for_a_person_moves_the_deadline() -> None:
    story = Waiting()
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
        assert triple(waiting.state) == WAITING
        story.bureau.clock.advance(LONG)
        result = await story.ends_after(runs, waiting.state.id, 60)
    assert triple(result.state) == TIMED_OUT


async def test_waiting_for_a_person_counts_where_the_spec_says_so() -> None:
    story = Waiting(human_time_counts=True)
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
        story.bureau.clock.advance(61)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
    assert triple(result.state) == TIMED_OUT
    assert "refund 1" not in story.bureau.world.done


async def test_coming_back_without_an_answer_counts_no_wait_twice() -> None:
    story = Waiting()
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
        for _ in range(3):
            story.bureau.clock.advance(LONG)
            assert triple((await resumed(runs, waiting.state.id)).state) == WAITING
        result = await story.ends_after(runs, waiting.state.id, 60)
    assert triple(result.state) == TIMED_OUT


async def test_putting_an_answer_off_counts_no_wait_twice() -> None:
    story = Waiting()
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
        for _ in range(2):
            story.bureau.clock.advance(LONG)
            (question,) = await runs.questions(waiting.state.id)
            await runs.defer(question.id)
            assert triple((await resumed(runs, waiting.state.id)).state) == DEFERRED
        result = await story.ends_after(runs, waiting.state.id, 60)
    assert triple(result.state) == TIMED_OUT


async def test_a_crash_right_after_coming_back_counts_no_wait_twice() -> None:
    story = Waiting()
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
    story.bureau.clock.advance(LONG)
    async with story.process(StopAfter(1)) as runs:
        await asyncio.gather(resumed(runs, waiting.state.id), return_exceptions=True)
    story.bureau.clock.advance(LONG)
    async with story.process() as runs:
        result = await story.ends_after(runs, waiting.state.id, 60)
    assert triple(result.state) == TIMED_OUT


async def test_a_run_that_waits_does_not_time_out_by_itself() -> None:
    story = Waiting()
    async with story.process() as runs:
        waiting = await started(runs, story.agent)
        await late(story.bureau, LONG)
        assert triple(await runs.get(waiting.state.id)) == WAITING
        assert nobody_is_left()


@Pod
class Hasty:
    """Tools that have no time at all."""

    def __init__(self) -> None:
        self.never = asyncio.Event()
        self.asked_for = 0

    @agent_tool(effects=ToolEffects.read_only(), timeout=TimeoutPolicy(0.001))
    async def glance(self) -> str:
        """Look, but not for long."""
        self.asked_for += 1
        await self.never.wait()
        return "seen"

    @agent_tool(
        effects=OUTSIDE,
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        timeout=TimeoutPolicy(0.001),
    )
    async def throw(self) -> str:
        """Throw something, and do not wait until it lands."""
        self.asked_for += 1
        await self.never.wait()
        return "landed"


async def test_a_look_up_that_takes_too_long_has_failed_and_the_run_goes_on() -> None:
    bureau, agent, hasty = Bureau(), hired(), Hasty()

    async def looks(worker: Worker) -> object:
        try:
            return await hasty.glance()
        except ToolError as error:
            return str(error)

    async with bureau.process(agent, looks, hasty) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == COMPLETED
    assert str(result.output).startswith("ToolTimeoutError: ")


async def test_an_effect_that_takes_too_long_is_unknown_and_a_person_is_asked() -> None:
    bureau, agent, hasty = Bureau(), hired(), Hasty()

    async def throws(worker: Worker) -> object:
        return await hasty.throw()

    async with bureau.process(agent, throws, hasty) as runs:
        waiting = await started(runs, agent)
        assert triple(waiting.state) == RECOVERY
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentRecoveryRequest)
        await runs.answer(waiting.state.id, question.id, RecoveryDecision.DONE, result="it landed")
        result = await resumed(runs, waiting.state.id)
    assert (result.output, hasty.asked_for) == ("it landed", 1)


async def test_at_the_deadline_the_run_ends_and_does_not_ask_about_the_call_it_cut_short() -> None:
    """With the clock of the machine: the tool has no timeout of its own that could come first."""
    agent = hired(limits=AgentExecutionLimits(timeout_seconds=0.02))
    store, world = MemoryStore(), World()
    counter = Counter(world)
    app = Application("real time").add(agent, Desk, world, counter, ScriptedModel([]))
    app.add(Program(at_the(counter, "send a")), *store.ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        result = await started(runs, agent)
        assert await runs.questions(result.state.id) == ()
    assert triple(result.state) == TIMED_OUT


@Pod
class Mill:
    """A sync tool: its thread grinds until it is told to stop."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.grinding = 0
        self.most_at_once = 0
        self.rounds = 0

    @agent_tool(idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, timeout=TimeoutPolicy(0.05))
    def grind(self) -> int:
        """Grind."""
        self.grinding += 1
        self.rounds += 1
        self.most_at_once = max(self.most_at_once, self.grinding)
        self.begun.set()
        self.may_end.wait(120)
        self.grinding -= 1
        return self.rounds


@Agent(spec=AgentExecutionSpec(name="miller", recovery=DURABLE))
class Miller:
    """Grind."""

    def __init__(self, mill: Mill, model: IAgentModel) -> None:
        self.mill, self.model = mill, model


async def test_a_thread_that_cannot_be_stopped_is_never_joined_by_a_second_one() -> None:
    bureau, mill = Bureau(), Mill()
    script = ScriptedModel([calls("grind"), says("Ground.")])
    async with bureau.process(Miller, None, mill, model=script) as runs:
        waiting = await started(runs, Miller, "grind")
        assert triple(waiting.state) == RECOVERY
        assert mill.grinding == 1
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, RecoveryDecision.RETRY)
        again = await resumed(runs, waiting.state.id)
        assert triple(again.state) == RECOVERY
        assert (mill.rounds, mill.most_at_once) == (1, 1)
        mill.may_end.set()
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, RecoveryDecision.RETRY)
        result = await resumed(runs, waiting.state.id)
    assert (triple(result.state), result.output) == (COMPLETED, "Ground.")
    assert (mill.rounds, mill.most_at_once) == (2, 1)


async def test_a_thread_that_is_left_behind_is_named_when_its_run_is_cancelled() -> None:
    bureau, mill = Bureau(), Mill()
    script = ScriptedModel([calls("grind"), says("Ground.")])
    try:
        async with bureau.process(Miller, None, mill, model=script) as runs:
            waiting = await started(runs, Miller, "grind")
            assert await runs.cancel(waiting.state.id)
            state = await runs.get(waiting.state.id)
    finally:
        mill.may_end.set()
    cleanup = state.metadata["cancellation_cleanup"]
    assert isinstance(cleanup, dict)
    named = [(each["target_ref"], each["reason"]) for each in cleanup["outcomes"]]
    assert named == [("grind", "its thread cannot be stopped and still runs")]


async def test_rows_of_a_run_that_timed_out_leave_nothing_open() -> None:
    bureau, agent = Bureau(), hired(**MINUTE)
    counter = Counter(bureau.world)
    async with bureau.process(agent, at_the(counter, "send a"), counter) as runs:
        handle = await runs.start(agent, "A-17")
        await counter.begun["send a"].wait()
        await late(bureau)
        await handle.result()
    rows = await bureau.rows(handle.id)
    before = {row.action_id for row in rows if row.stage is JournalStage.BEFORE}
    after = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
    assert before <= after
