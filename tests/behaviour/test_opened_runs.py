"""Calling an agent: `execute()` of one that the container made is a run, of one made by hand plain business logic."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import pytest
from tests.behaviour.office import Desk, World
from tests.failing import without_ids

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    Application,
    Cancel,
    Error,
    Final,
    IAgentModel,
    MessageDeltaEvent,
    ModelMessage,
    ModelRequest,
    Progress,
    RecoveryStrategy,
    RunAgentInput,
    Token,
)
from pilotage.agent import RunPausedEvent, RunStartedEvent
from pilotage.errors import AgentDefinitionError, ApplicationStartError, RunFailedError, ToolError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import MemoryStore, ScriptedModel, SeededIds, calls, says, when

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@dataclass(frozen=True)
class Order:
    number: int
    amount: Decimal


class _Speaks:
    """What the streaming ones do."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def execute(self, order: Order, hurry: bool = False) -> AsyncGenerator[AgentYield[Order], None]:
        yield Progress("thinking", "1 of 2")
        yield Token("Paying ")
        if order.number < 0:
            raise ValueError("no such order")
        if order.number == 0:
            yield Error("order_unknown", "there is no order 0", retryable=True)
        receipt = await self.desk.pay(order.amount)
        yield Token("done.")
        yield Final(Order(receipt.number + hurry, receipt.amount))


@Agent
class Speaker(_Speaks):
    """Streams; not durable."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class KeptSpeaker(_Speaks):
    """Streams; durable."""


class _Answers:
    """What the others do."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def execute(self, amount: Decimal = Decimal(1)) -> Order:
        if amount < 0:
            raise ValueError("too little")
        if amount > 100:
            receipt = await self.desk.refund(amount)
        else:
            receipt = await self.desk.pay(amount)
        return Order(receipt.number, receipt.amount)


@Agent
class Answerer(_Answers):
    """Answers; not durable."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class KeptAnswerer(_Answers):
    """Answers; durable."""


class _Waits:
    """What the patient ones do."""

    def __init__(self) -> None:
        self.was_cancelled = False

    async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
        try:
            yield Progress("waiting")
            await asyncio.Event().wait()
            yield Final("never")
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@Agent
class Patient(_Waits):
    """Waits for ever."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class KeptPatient(_Waits):
    """Waits for ever, and is kept."""


@Agent
class Waiter:
    """Waits for ever, too."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.was_cancelled = False

    async def execute(self) -> str:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled = True
        return "never"


@Agent
class Sync:
    """Cannot wait for anything."""

    def execute(self, text: str) -> str:
        return text.upper()


async def answer_of(stream: AsyncIterator[AgentYield[object]]) -> object:
    """The answer at the end of a stream."""
    *_, last = [item async for item in stream]
    assert isinstance(last, Final)
    return last.output


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class Linguist:
    """You translate."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class Chief:
    """Lets others work."""

    def __init__(self, speaker: KeptSpeaker, answerer: KeptAnswerer, linguist: Linguist) -> None:
        self.speaker, self.answerer, self.linguist = speaker, answerer, linguist

    async def execute(self, *, what: str) -> AsyncGenerator[AgentYield[list[object]], None]:
        results: list[object] = []
        for each in what.split():
            results.extend([result async for result in self._done(each)])
        yield Final(results)

    async def _done(self, what: str) -> AsyncGenerator[object, None]:
        match what:
            case "answer":
                yield await self.answerer.execute(Decimal(2))
            case "refund":
                yield await self.answerer.execute(Decimal(200))
            case "stream":
                yield await answer_of(self.speaker.execute(Order(1, Decimal(3))))
            case "fail":
                try:
                    await self.answerer.execute(Decimal(-1))
                except ToolError as error:
                    yield str(error)
            case _:
                yield await answer_of(self.linguist.execute(RunAgentInput("t", "translate this")))


@Agent
class LightChief:
    """The same without a journal."""

    def __init__(self, speaker: Speaker, linguist: Linguist) -> None:
        self.speaker, self.linguist = speaker, linguist

    async def execute(self) -> list[object]:
        spoken = await answer_of(self.speaker.execute(Order(1, Decimal(3))))
        return [spoken, await answer_of(self.linguist.execute(RunAgentInput("t", "translate this")))]


AGENTS = (
    Speaker,
    KeptSpeaker,
    Answerer,
    KeptAnswerer,
    Patient,
    KeptPatient,
    Waiter,
    Sync,
    Linguist,
    Chief,
    LightChief,
)


class Place:
    """A store and a world that outlive every process."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.world = World()
        self.ids = SeededIds(3)

    @asynccontextmanager
    async def process(self, model: IAgentModel | None = None) -> AsyncGenerator[Application, None]:
        """One process."""
        app = Application("office").add(*AGENTS, Desk, self.world, self.ids, model or ScriptedModel([]))
        app.add(*self.store.ports)
        initialize(app)
        async with app:
            yield app


def other_tasks() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@pytest.mark.parametrize("agent", [Speaker, KeptSpeaker])
async def test_a_stream_is_what_the_agent_yields_and_its_answer_has_its_type(agent: type[_Speaks]) -> None:
    async with Place().process() as app:
        items = [item async for item in app.get(agent).execute(Order(1, Decimal("2.50")), hurry=True)]
    *before, last = items
    assert before == [Progress("thinking", "1 of 2"), Token("Paying "), Token("done.")]
    assert isinstance(last, Final)
    assert last.output == Order(2, Decimal("2.50"))


async def test_execute_of_an_agent_that_the_container_made_reads_like_the_method_that_was_written() -> None:
    async with Place().process() as app:
        speaker, answerer = app.get(Speaker), app.get(Answerer)
        assert [*inspect.signature(speaker.execute).parameters] == ["order", "hurry"]
        assert inspect.isasyncgenfunction(speaker.execute)
        assert [*inspect.signature(answerer.execute).parameters] == ["amount"]
        assert inspect.iscoroutinefunction(answerer.execute)


@pytest.mark.parametrize("agent", [Speaker, KeptSpeaker])
async def test_an_error_is_the_last_item_of_a_stream(agent: type[_Speaks]) -> None:
    place = Place()
    async with place.process() as app:
        *_, known = [item async for item in app.get(agent).execute(Order(0, Decimal(1)))]
        *_, raised = [item async for item in app.get(agent).execute(Order(-1, Decimal(1)))]
    assert isinstance(known, Error)
    assert (known.code, known.message, known.retryable) == ("order_unknown", "there is no order 0", True)
    assert isinstance(raised, Error)
    assert (raised.code, without_ids(raised.message)) == ("execution_failed", "ValueError (error ...)")
    assert place.world.done == []


@pytest.mark.parametrize("agent", [Answerer, KeptAnswerer])
async def test_an_answer_is_returned_in_its_type(agent: type[_Answers]) -> None:
    async with Place().process() as app:
        assert await app.get(agent).execute(Decimal("2.50")) == Order(1, Decimal("2.50"))
        assert await app.get(agent).execute() == Order(2, Decimal(1))


@pytest.mark.parametrize("agent", [Answerer, KeptAnswerer])
async def test_an_agent_that_fails_raises_with_its_run_and_its_cause(agent: type[_Answers]) -> None:
    async with Place().process() as app:
        with pytest.raises(RunFailedError, match=r"is failed: ValueError \(error \w+\)") as failed:
            await app.get(agent).execute(Decimal(-1))
    assert (failed.value.status, failed.value.reason) == ("failed", "execution_failed")
    assert failed.value.run_id
    assert isinstance(failed.value.__cause__, ValueError)


async def test_an_answer_that_needs_a_person_raises_and_the_run_waits() -> None:
    async with Place().process() as app:
        with pytest.raises(RunFailedError, match="Answer it, then resume the run") as waiting:
            await app.get(KeptAnswerer).execute(Decimal(200))
        runs, run_id = app.get(AgentRuns), waiting.value.run_id
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id)
        result = await (await runs.resume(run_id)).result()
    assert result.output == Order(1, Decimal(200))


async def test_an_answer_that_needs_a_person_is_not_available_to_an_agent_that_nobody_keeps() -> None:
    place = Place()
    async with place.process() as app:
        with pytest.raises(RunFailedError, match="recovery=RecoveryStrategy.ACTION_BOUNDARY") as failed:
            await app.get(Answerer).execute(Decimal(200))
    assert failed.value.reason == "agent_approval_unavailable"
    assert place.world.done == []


async def test_only_the_runs_of_durable_agents_are_kept() -> None:
    async with Place().process() as app:
        for agent in (Speaker, KeptSpeaker):
            _ = [item async for item in app.get(agent).execute(Order(1, Decimal(1)))]
        for other in (Answerer, KeptAnswerer):
            await app.get(other).execute()
        kept = (await app.get(AgentRuns).list()).runs
    assert sorted(state.agent_type for state in kept) == ["KeptAnswerer", "KeptSpeaker"]
    assert {state.status for state in kept} == {AgentStatus.COMPLETED}


async def test_leaving_the_stream_of_an_agent_ends_its_run_and_leaves_no_task() -> None:
    async with Place().process() as app:
        patient, before = app.get(Patient), other_tasks()
        async with aclosing(patient.execute()) as items:
            assert await anext(items) == Progress("waiting")
        assert patient.was_cancelled
        assert other_tasks() == before


async def test_cancelling_the_caller_of_an_answer_ends_its_run_and_leaves_no_task() -> None:
    async with Place().process() as app:
        waiter, before = app.get(Waiter), other_tasks()
        calling = asyncio.create_task(waiter.execute())
        await waiter.has_begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert waiter.was_cancelled
        assert other_tasks() == before


async def test_cancelling_the_caller_of_a_durable_agent_leaves_the_run() -> None:
    place = Place()
    async with place.process() as app:
        async with aclosing(app.get(KeptSpeaker).execute(Order(1, Decimal(3)))) as items:
            await anext(items)
        runs = app.get(AgentRuns)
        (state,) = (await runs.list()).runs
        _ = [event async for event in runs.events(state.id)]
        assert (await runs.get(state.id)).status is AgentStatus.COMPLETED
    assert place.world.done == ["pay 3"]


async def test_wrong_arguments_are_refused_as_a_function_would() -> None:
    async with Place().process() as app:
        with pytest.raises(TypeError, match="order"):
            _ = [item async for item in app.get(Speaker).execute()]
        with pytest.raises(TypeError, match="surprise"):
            await app.get(Answerer).execute(surprise=1)
        with pytest.raises(AgentDefinitionError, match="input 'order' does not fit"):
            _ = [item async for item in app.get(Speaker).execute("A-17")]


async def test_made_by_hand_an_agent_is_plain_business_logic() -> None:
    world = World()
    order = Order(1, Decimal(3))
    items = [item async for item in Speaker(Desk(world)).execute(order)]
    assert items[-1] == Final(Order(1, Decimal(3)))
    assert await Answerer(Desk(world)).execute(Decimal(200)) == Order(2, Decimal(200))
    with pytest.raises(ValueError, match="too little"):
        await Answerer(Desk(world)).execute(Decimal(-1))


async def test_a_sync_execute_is_plain_business_logic_wherever_it_is_from() -> None:
    async with Place().process() as app:
        assert app.get(Sync).execute("a") == Sync().execute("a") == "A"


async def test_an_agent_called_by_another_one_is_a_child_of_its_run() -> None:
    place = Place()
    async with place.process(ScriptedModel([says("Übersetzt.")])) as app:
        runs = app.get(AgentRuns)
        items = [item async for item in app.get(Chief).execute(what="answer stream translate")]
        states = {state.agent_type: state for state in (await runs.list()).runs}
    assert isinstance(items[-1], Final)
    assert items[-1].output == [Order(1, Decimal(2)), Order(2, Decimal(3)), "Übersetzt."]
    assert sorted(states) == ["Chief", "KeptAnswerer", "KeptSpeaker", "Linguist"]
    parents = {name: state.metadata.get("parent") for name, state in states.items()}
    chief = states["Chief"].id
    assert parents == {"Chief": None, "KeptAnswerer": chief, "KeptSpeaker": chief, "Linguist": chief}


async def test_a_declarative_child_is_asked_the_question_itself() -> None:
    model = ScriptedModel([says("Übersetzt.")])
    async with Place().process(model) as app:
        _ = [item async for item in app.get(Chief).execute(what="translate")]
    assert list(model.requests[0].messages) == [
        ModelMessage.system("You translate."),
        ModelMessage.user("translate this"),
    ]


async def test_what_a_child_tells_its_parent_tells() -> None:
    async with Place().process() as app:
        runner = AgentRunner.for_agent_instance(app.get(Chief))
        events: list[AgentEvent] = [event async for event in runner.run_events(RunAgentInput("c", "stream"))]
    starts = [event.attribution for event in events if isinstance(event, RunStartedEvent)]
    assert [(by.agent_id, by.parent_run_id) for by in starts] == [
        ("Chief", None),
        ("KeptSpeaker", starts[0].run_id),
    ]
    said = [(e.attribution.agent_id, e.delta) for e in events if isinstance(e, MessageDeltaEvent)]
    assert said == [("KeptSpeaker", "Paying "), ("KeptSpeaker", "done.")]


async def test_a_child_that_fails_is_a_failure_its_parent_may_hear_of() -> None:
    async with Place().process() as app:
        items = [item async for item in app.get(Chief).execute(what="fail")]
    assert isinstance(items[-1], Final)
    (words,) = items[-1].output
    assert without_ids(words) == "'KeptAnswerer' did not finish: ValueError (error ...)"


async def test_a_child_that_waits_makes_its_parent_wait_and_both_go_on() -> None:
    place = Place()
    async with place.process() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Chief, "answer refund")
        events = [event async for event in run.events()]
        assert isinstance(events[-1], RunPausedEvent)
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id)
        result = await (await runs.resume(run.id)).result()
    assert result.output == [Order(1, Decimal(2)), Order(2, Decimal(200))]
    assert place.world.done == ["pay 2", "refund 200"]


async def test_children_of_a_run_that_nobody_keeps_are_not_kept_either() -> None:
    place = Place()
    async with place.process(ScriptedModel([says("Übersetzt.")])) as app:
        assert await app.get(LightChief).execute() == [Order(1, Decimal(3)), "Übersetzt."]
        assert (await app.get(AgentRuns).list()).runs == ()


class Talkative(IAgentModel):
    """Says more than any queue holds."""

    async def complete(self, request: ModelRequest) -> object:
        raise AssertionError("nobody asks for the whole reply")

    async def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        inner = ScriptedModel([says("word " * 3000)])
        async for event in inner.stream(request):
            yield event


async def test_a_child_that_says_very_much_does_not_block_the_answer_of_its_parent() -> None:
    async with Place().process(Talkative()) as app:
        results = await asyncio.wait_for(app.get(LightChief).execute(), 120)
    assert results[1] == "word " * 3000


async def test_an_agent_whose_class_leaves_no_room_is_refused_in_words() -> None:
    @Agent
    class Tight:
        __slots__ = ("nothing",)

        async def execute(self) -> str:
            return ""

    app = Application("tight").add(Tight)
    initialize(app)
    with pytest.raises(AgentDefinitionError, match="Tight has __slots__ without room"):
        await app.start()


async def test_runs_opened_side_by_side_do_not_mix() -> None:
    script = [when(f"question {n}", calls("look", what=str(n)), says(f"answer {n}")) for n in range(20)]

    async with Place().process(ScriptedModel(script)) as app:
        linguist = app.get(Linguist)

        async def ask(number: int) -> object:
            given = RunAgentInput(f"run {number}", f"question {number}.")
            *_, last = [item async for item in linguist.execute(given)]
            return last.output if isinstance(last, Final) else last

        answers = await asyncio.gather(*(ask(n) for n in range(2, 10)))
    assert answers == [f"answer {n}" for n in range(2, 10)]


async def test_a_run_that_was_opened_by_calling_hears_what_other_processes_send() -> None:
    place = Place()
    async with (
        place.process() as here,
        place.process() as elsewhere,
        asyncio.timeout(120),
        aclosing(here.get(KeptPatient).execute()) as items,
    ):
        assert await anext(items) == Progress("waiting")
        (state,) = (await elsewhere.get(AgentRuns).list()).runs
        await elsewhere.get(AgentRuns).signal(state.id, AgentSignalKind.CANCEL, {"reason": "enough"})
        rest = [item async for item in items]
    assert rest == [Cancel("enough")]


async def test_an_agent_whose_loop_nobody_knows_leaves_no_run_behind() -> None:
    @Agent(spec=AgentExecutionSpec(recovery=DURABLE, architecture="guesswork"))
    class Lost:
        """Which loop?"""

    store = MemoryStore()
    app = Application("lost").add(Lost, ScriptedModel([]), *store.ports)
    initialize(app)
    with pytest.raises((AgentDefinitionError, ApplicationStartError), match="no architecture 'guesswork'"):
        async with app:
            await app.get(AgentRuns).start(Lost, "hello")
    assert await store.states.list_resume_candidates() == []


PARTS_OF_RUNS = ("pilotage.agent", "pilotage.architectures", "pilotage.models", "pilotage.runtime")


@pytest.mark.parametrize(
    "recovery", [RecoveryStrategy.NONE, RecoveryStrategy.ACTION_BOUNDARY], ids=["unkept", "kept"]
)
async def test_a_run_that_is_over_is_freed_without_a_collector(recovery: RecoveryStrategy) -> None:
    @Agent(spec=AgentExecutionSpec(recovery=recovery))
    class Brief:
        """Answer."""

    app = Application("test").add(Brief, ScriptedModel([says("one"), says("two")]), *MemoryStore().ports)
    initialize(app)
    async with app:
        runner, names = AgentRunner.for_agent_instance(app.get(Brief)), iter(("first", "second"))

        async def told() -> int:
            given = RunAgentInput(next(names), "Say a number.")
            return len([event async for event in runner.run_events(given)])

        await told()
        gc.collect()
        gc.disable()
        try:
            assert await told()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            # A store of another test may become garbage at any time.
            left = {
                type(each).__name__ for each in gc.garbage if type(each).__module__.startswith(PARTS_OF_RUNS)
            }
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == set()
