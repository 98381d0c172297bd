"""What others send reaches a run where it is driven: by a hint at once, by a slow look in any case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager

import pytest
from tests.behaviour.newsroom import DURABLE, Gate, Newsroom, Writer, ends, follow, let_run, texts
from tests.behaviour.office import Desk

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RunAgentInput,
    Token,
)
from pilotage.agent import (
    AgentSignal,
    AgentStateReason,
    IAgentSignalRepository,
    IAgentWakeUps,
    IWakeUpSubscription,
    ModelCapability,
    ModelStreamEvent,
    RunPausedEvent,
)
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import RunConflictError
from pilotage.runtime.plugin import initialize
from pilotage.runtime.run.resume import POLL_SECONDS
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, says
from pilotage.testing.memory import MemorySignalRepository

MESSAGE, PAUSE, RESUME, CANCEL = (
    AgentSignalKind.USER_MESSAGE,
    AgentSignalKind.PAUSE,
    AgentSignalKind.RESUME,
    AgentSignalKind.CANCEL,
)


@Agent(spec=AgentExecutionSpec(name="correspondent", recovery=DURABLE, accepted_signals=[MESSAGE]))
class Correspondent:
    """Asks its model twice, and waits at a gate in between."""

    def __init__(self, model: IAgentModel, gate: Gate) -> None:
        self.model, self.gate = model, gate

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        for question in ("first", "second"):
            async for event in self.model.stream(ModelRequest([ModelMessage.user(question)])):
                if event.is_text_delta:
                    yield Token(event.text)
            await self.gate.pass_through()
        yield Final("both")


def two_answers() -> ScriptedModel:
    return ScriptedModel([says("One two three. "), says("Four five six.")])


class Bureau(Newsroom):
    """A newsroom whose processes have leases, and wake-ups if they are given some."""

    @asynccontextmanager
    async def office(
        self,
        model: IAgentModel,
        gate: Gate,
        *pods: object,
        signals: IAgentSignalRepository | None = None,
        wake_ups: IAgentWakeUps | None = None,
    ) -> AsyncGenerator[AgentRuns, None]:
        store = self.store
        app = Application("bureau").add(Correspondent, Writer, Desk, self.world, model, gate, *pods)
        app.add(store.journal, store.states, signals or store.signals, store.evidence, store.sealer)
        app.add(store.leases, self.ids, self.clock, *([wake_ups] if wake_ups else []))
        initialize(app)
        async with app:
            yield app.get(AgentRuns)


async def test_a_message_from_another_process_reaches_a_live_run_by_a_hint() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    hints = bureau.store.wake_ups
    async with (
        bureau.office(model, gate, wake_ups=hints) as here,
        bureau.office(two_answers(), Gate(), wake_ups=hints) as there,
    ):
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        await there.signal(run.id, MESSAGE, {"text": "Mind the gap."})
        await let_run()
        gate.open.set()
        await run.result()
    assert spoken_to(model) == [["first"], ["second", "Mind the gap."]]


async def test_without_hints_a_slow_look_finds_it() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    async with bureau.office(model, gate) as here, bureau.office(two_answers(), Gate()) as there:
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        await there.signal(run.id, MESSAGE, {"text": "Mind the gap."})
        await looked(bureau)
        gate.open.set()
        await run.result()
    assert spoken_to(model) == [["first"], ["second", "Mind the gap."]]


@pytest.mark.parametrize("has_hints", [True, False])
async def test_the_look_goes_on_for_the_runs_that_come_later(has_hints: bool) -> None:
    bureau, gate, model = Bureau(), Gate(), ScriptedModel([says("a"), says("b"), says("c"), says("d")])
    # Hints that are never heard: only the look can find the message.
    deaf = DeafWakeUps() if has_hints else None
    async with bureau.office(model, gate, wake_ups=deaf) as here, bureau.office(model, gate) as there:
        gate.open.set()
        await (await here.start(Correspondent, "go")).result()
        await looked(bureau)
        await looked(bureau)
        gate.open.clear()
        gate.reached.clear()
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        await there.signal(run.id, MESSAGE, {"text": "Mind the gap."})
        await looked(bureau)
        gate.open.set()
        await run.result()
    assert spoken_to(model)[-1] == ["second", "Mind the gap."]


class CountedSignals(MemorySignalRepository):
    """A queue that counts what it is asked, and forgets how to read one run."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.looks, self.listed = 0, list[str]()
        self.damaged: str | None = None

    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        self.looks += 1
        return await super().newest_pending(runs)

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        self.listed.append(state_id)
        if state_id == self.damaged:
            raise RuntimeError("this one cannot be read")
        return await super().list_pending(state_id)


async def test_many_live_runs_are_looked_after_by_one_request_and_read_once_for_each_signal() -> None:
    bureau, gate, model = Bureau(), Gate(), ScriptedModel([says("One. ")] * 20)
    signals = CountedSignals(bureau.store)
    async with bureau.office(model, gate, signals=signals) as here, bureau.office(model, Gate()) as there:
        runs = [await here.start(Correspondent, "go") for _ in range(10)]
        await let_run()
        signals.listed.clear()
        for _ in range(5):
            await looked(bureau)
        assert (signals.looks, signals.listed) == (5, [])
        signals.damaged = runs[2].id
        for number in (2, 7):
            await there.signal(runs[number].id, MESSAGE, {"text": f"for {number}"})
        for _ in range(3):
            await looked(bureau)
        # The one that cannot be read takes none along; it is tried again, and the other is not.
        assert sorted(signals.listed) == sorted([runs[2].id] * 3 + [runs[7].id])
        signals.damaged = None
        for _ in range(2):
            await looked(bureau)
        assert (signals.looks, signals.listed.count(runs[2].id)) == (10, 4)
        await there.signal(runs[7].id, MESSAGE, {"text": "once more"})
        await looked(bureau)
        gate.open.set()
        for run in runs:
            await run.result()
    assert sorted(len(asked) for asked in spoken_to(model)) == [1] * 18 + [2, 3]


async def test_while_hints_come_the_slow_look_is_slower_and_never_ends() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    signals, hints = CountedSignals(bureau.store), bureau.store.wake_ups
    async with bureau.office(model, gate, signals=signals, wake_ups=hints) as here:
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        for _ in range(10):
            await hints.notify("a run of another process")
            await looked(bureau)
        assert signals.looks == 2
        # A hint that is lost among others is found out all the same.
        message = AgentSignal("unheard", run.id, MESSAGE, {"text": "Mind the gap."})
        await bureau.store.signals.append(message)
        for _ in range(5):
            await hints.notify("a run of another process")
            await looked(bureau)
        gate.open.set()
        await run.result()
    assert spoken_to(model) == [["first"], ["second", "Mind the gap."]]


async def test_a_store_or_a_hint_that_fails_once_is_asked_again() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    flaky = FlakySignals(bureau.store.signals, failures=2)
    async with (
        bureau.office(model, gate, signals=flaky, wake_ups=BrokenWakeUps()) as here,
        bureau.office(two_answers(), Gate()) as there,
    ):
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        await there.signal(run.id, MESSAGE, {"text": "Mind the gap."})
        for _ in range(3):
            await looked(bureau)
        gate.open.set()
        await run.result()
    assert flaky.failures == 0
    assert spoken_to(model) == [["first"], ["second", "Mind the gap."]]


@pytest.mark.parametrize("has_hints", [True, False])
async def test_a_run_is_cancelled_where_it_is_driven(has_hints: bool) -> None:
    bureau, gate = Bureau(), Gate()
    hints = bureau.store.wake_ups if has_hints else None
    async with (
        bureau.office(two_answers(), gate, wake_ups=hints) as here,
        bureau.office(two_answers(), Gate(), wake_ups=hints) as there,
    ):
        run = await here.start(Correspondent, "go")
        client = asyncio.create_task(follow(run.events()))
        await gate.reached.wait()
        with pytest.raises(RunConflictError):
            await there.cancel(run.id, reason="enough")
        await (let_run() if has_hints else looked(bureau))
        state = (await asyncio.wait_for(run.result(), 120)).state
        assert state.status is AgentStatus.CANCELLED
        assert await bureau.store.signals.list_pending(run.id) == []
        (end,) = ends((await client).events)
        assert end.error is not None
        assert (end.error["code"], end.error["message"]) == ("cancelled", "enough")
        assert not await there.cancel(run.id)


async def test_a_cancellation_sent_as_a_signal_ends_a_run_that_is_live_here_at_once() -> None:
    bureau, gate = Bureau(), Gate()
    async with bureau.office(two_answers(), gate) as here:
        run = await here.start(Correspondent, "go")
        await gate.reached.wait()
        await here.signal(run.id, CANCEL, {"reason": "enough"})
        assert (await asyncio.wait_for(run.result(), 120)).status is AgentStatus.CANCELLED


async def test_a_run_that_was_opened_by_a_runner_is_looked_after_like_any_other() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    async with bureau.office(model, gate) as here, bureau.office(two_answers(), Gate()) as there:
        definition = here.services.definition_of(Correspondent)
        runner = AgentRunner.for_agent_instance(here.services.instance_of(definition))
        opened = await runner.open(RunAgentInput("mine", "go"))
        await gate.reached.wait()
        await there.signal(opened.id, MESSAGE, {"text": "Mind the gap."})
        await looked(bureau)
        gate.open.set()
        await opened.result()
    assert spoken_to(model)[-1] == ["second", "Mind the gap."]


async def test_a_paused_run_stops_at_its_next_boundary_and_goes_on_where_it_was() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    async with bureau.office(model, gate) as runs:
        run = await runs.start(Correspondent, "go")
        client = asyncio.create_task(follow(run.events()))
        await gate.reached.wait()
        await runs.signal(run.id, PAUSE)
        gate.open.set()
        state = (await run.result()).state
        assert (state.status, state.reason) == (AgentStatus.INTERRUPTED, AgentStateReason.USER_INTERRUPTED)
        assert await bureau.store.signals.list_pending(run.id) == []
        transcript = await client
        assert isinstance(transcript.events[-1], RunPausedEvent)
        assert transcript.events[-1].reason is AgentStateReason.USER_INTERRUPTED
        await runs.signal(run.id, RESUME)
        await follow(runs.events(run.id, after=transcript.cursor), transcript)
        assert (await runs.get(run.id)).status is AgentStatus.COMPLETED
        assert transcript.events == await bureau.logged(run.id)
    assert list(texts(transcript.events).values()) == ["One two three. ", "Four five six."]
    assert spoken_to(model) == [["first"], ["second"]]


async def test_a_pause_in_the_middle_of_a_text_lets_the_text_end() -> None:
    bureau, gate, model = Bureau(), Gate(), Hesitant(two_answers())
    gate.open.set()
    async with bureau.office(model, gate) as runs:
        run = await runs.start(Correspondent, "go")
        client = asyncio.create_task(follow(run.events()))
        await model.gate.reached.wait()
        await runs.signal(run.id, PAUSE)
        await let_run()
        model.gate.open.set()
        assert (await run.result()).state.reason is AgentStateReason.USER_INTERRUPTED
        transcript = await client
        assert list(texts(transcript.events).values()) == ["One two three. "]
        resumed = await runs.resume(run.id)
        assert (await resumed.result()).output == "both"
        await follow(runs.events(run.id, after=transcript.cursor), transcript)
        assert transcript.events == await bureau.logged(run.id)
    assert list(texts(transcript.events).values()) == ["One two three. ", "Four five six."]
    assert spoken_to(model.model) == [["first"], ["second"]], "nothing was asked twice"


async def test_a_process_that_stops_in_the_middle_of_a_text_leaves_no_half_answer() -> None:
    bureau, gate, model = Bureau(), Gate(), Hesitant(two_answers())
    gate.open.set()
    async with bureau.office(model, gate) as runs:
        run = await runs.start(Correspondent, "go")
        client = asyncio.create_task(follow(run.events()))
        await model.gate.reached.wait()
        await let_run()
    transcript = await client
    assert list(texts(transcript.events).values()) == ["One "]
    async with bureau.office(two_answers(), gate) as runs:
        await (await runs.resume(run.id)).result()
        await follow(runs.events(run.id, after=transcript.cursor), transcript)
    assert transcript.events == await bureau.logged(run.id)
    assert list(texts(transcript.events).values()) == ["One two three. ", "Four five six."]


async def test_a_wish_to_pause_that_is_older_than_the_resumption_does_not_stop_it() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    async with bureau.office(model, gate) as runs:
        run = await runs.start(Correspondent, "go")
        await gate.reached.wait()
    await bureau.store.signals.append(AgentSignal("late", run.id, PAUSE))
    gate.reached.clear()
    async with bureau.office(model, gate) as runs:
        resumed = await runs.resume(run.id)
        await gate.reached.wait()
        await looked(bureau)
        gate.open.set()
        assert (await resumed.result()).status is AgentStatus.COMPLETED
        assert await bureau.store.signals.list_pending(run.id) == []


async def test_whoever_takes_a_pause_back_in_time_has_not_paused() -> None:
    bureau, gate, model = Bureau(), Gate(), two_answers()
    async with bureau.office(model, gate) as runs:
        run = await runs.start(Correspondent, "go")
        await gate.reached.wait()
        await runs.signal(run.id, PAUSE)
        await runs.signal(run.id, RESUME)
        gate.open.set()
        await run.result()
        await follow(runs.events(run.id))
        assert (await runs.get(run.id)).status is AgentStatus.COMPLETED


async def test_when_nothing_is_live_nobody_watches() -> None:
    bureau, gate = Bureau(), Gate()
    gate.open.set()
    async with bureau.office(two_answers(), gate, wake_ups=bureau.store.wake_ups) as runs:
        before = asyncio.all_tasks()
        await (await runs.start(Correspondent, "go")).result()
        await looked(bureau)
        await looked(bureau)
        assert asyncio.all_tasks() == before


class Hesitant(IAgentModel):
    """Waits at a gate after the first word of its first answer."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model, self.gate = model, Gate()

    @property
    def capability(self) -> ModelCapability:
        return self.model.capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        async for event in self.model.stream(request):
            yield event
            await self.gate.pass_through()


class FlakySignals(IAgentSignalRepository):
    """A queue whose look-ups fail at first, in the way a database driver fails."""

    def __init__(self, signals: IAgentSignalRepository, failures: int) -> None:
        self._signals, self.failures = signals, failures

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return await self._signals.append(signal)

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the connection is gone")
        return await self._signals.list_pending(state_id)

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        return await self._signals.mark_consumed(signal_id)


class DeafWakeUps(IAgentWakeUps):
    """Hints that nobody hears."""

    async def notify(self, run_id: str) -> None:
        return None

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription, None]:
        yield Silence()


class Silence(IWakeUpSubscription):
    """Nothing, forever."""

    async def next(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError


class BrokenWakeUps(IAgentWakeUps):
    """A channel that cannot be opened."""

    async def notify(self, run_id: str) -> None:
        raise RuntimeError("no channel")

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription, None]:
        raise RuntimeError("no channel")
        yield Silence()


async def looked(bureau: Bureau) -> None:
    """Let everybody who looks now and then look once."""
    await let_run()
    bureau.clock.advance(POLL_SECONDS)
    await let_run()


def spoken_to(model: ScriptedModel) -> list[list[str]]:
    """What the model was asked, request by request."""
    return [[message.text for message in request.messages] for request in model.requests]
