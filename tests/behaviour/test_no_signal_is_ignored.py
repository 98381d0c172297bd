"""A signal that another process appends before or after any commit of a run is heeded, or is seen to be too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.behaviour.family import Family, member
from tests.behaviour.office import World
from tests.behaviour.postbox import EVENT, MESSAGE, Parrot, Postbox

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    Application,
    Evidence,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    RecoveryStrategy,
    RunResult,
)
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import (
    AgentEvidenceKind,
    AgentSignal,
    AgentSignalEnd,
    AgentSignalTooLate,
    CommitOutcome,
    IAgentJournal,
    IAgentSignalRepository,
    JournalCommit,
    JournalHead,
    JournalRow,
    RunKey,
    SignalsUnread,
    on_signal,
    read_fact,
)
from pilotage.agent.events import RunFinishedEvent, StepFinishedEvent
from pilotage.agent.ports.architecture import Dependencies
from pilotage.errors import CallerError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemorySignalRepository, MemoryStore, crash_matrix

CANCEL, PAUSE = AgentSignalKind.CANCEL, AgentSignalKind.PAUSE
SPEC = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, accepted_signals=[MESSAGE, EVENT])


@Agent(spec=SPEC)
class Plain:
    """A program without a handler: a message reaches it only at a model call."""

    def __init__(self, model: IAgentModel, post: Postbox) -> None:
        self.model, self.post = model, post

    async def execute(self) -> AsyncGenerator[AgentYield[list[str]], None]:
        said = await self.model.complete(ModelRequest([ModelMessage.user("Well?")]))
        yield Final([said.content, await self.post.stamp("it")])


@Agent(spec=SPEC)
class Attentive:
    """A program with a handler, which is called at every boundary and at the end."""

    def __init__(self, post: Postbox) -> None:
        self.post = post

    async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
        yield Final(await self.post.stamp("it"))

    @on_signal(MESSAGE)
    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Evidence(await self.post.stamp(str(signal.payload["text"])))


@Agent(spec=SPEC)
class Declared:
    """A loop that answers at once, and again where a message has come."""


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[MESSAGE],
        limits=AgentExecutionLimits(max_steps=1),
    )
)
class Limited:
    """A loop without a second turn."""


@dataclass
class Elsewhere:
    """Another process, which sends one signal before or after one commit."""

    signals: IAgentSignalRepository
    kind: AgentSignalKind
    at: float = 0.0
    refusal: str | None = None
    sent: list[AgentSignal] = field(default_factory=list[AgentSignal])

    async def send(self, run_id: str) -> None:
        signal = AgentSignal(f"to {run_id}", run_id, self.kind, {"text": "and this"})
        try:
            self.sent.append(await self.signals.append(signal))
        except CallerError as refusal:
            self.refusal = str(refusal)

    async def end(self) -> AgentSignalEnd | None:
        """What the sender is told when it sends the same signal again."""
        (sent,) = self.sent
        return (await self.signals.append(sent)).end


class Interleaved(IAgentJournal):
    """A journal between whose commits another process sends a signal: at 2.0 before the second, at 2.5 after it."""

    def __init__(self, journal: IAgentJournal, elsewhere: Elsewhere) -> None:
        self._journal, self._elsewhere = journal, elsewhere
        self.commits = 0
        self.refused = 0

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self.commits += 1
        run_id = commits[0].run.run_id
        if self._elsewhere.at == self.commits:
            await self._elsewhere.send(run_id)
        outcomes = await self._journal.commit(commits)
        self.refused += any(isinstance(outcome, SignalsUnread) for outcome in outcomes)
        if self._elsewhere.at == self.commits + 0.5:
            await self._elsewhere.send(run_id)
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)


@dataclass
class Story:
    """One run, what came of it, and the signal."""

    result: RunResult
    elsewhere: Elsewhere
    journal: Interleaved
    was_paused: bool
    world: World
    pending: Sequence[AgentSignal]


@asynccontextmanager
async def application(
    store: MemoryStore | SqlAlchemyStore, journal: IAgentJournal, world: World
) -> AsyncGenerator[AgentRuns, None]:
    app = Application("signals").add(Plain, Attentive, Declared, Limited, Postbox, Parrot, world)
    app.add(journal, store.states, store.signals, store.evidence)
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


async def story(
    agent: type[object],
    kind: AgentSignalKind,
    at: float,
    store: MemoryStore | SqlAlchemyStore,
    elsewhere: IAgentSignalRepository,
) -> Story:
    """A run to which a signal comes at one place; where it pauses, it is resumed."""
    sender, world = Elsewhere(elsewhere, kind, at), World()
    journal = Interleaved(store.journal, sender)
    async with application(store, journal, world) as runs:
        given = "Well?" if agent in (Declared, Limited) else None
        run = await (runs.start(agent, given) if given else runs.start(agent))
        result = await run.result()
        was_paused = result.state.status is AgentStatus.INTERRUPTED
        if was_paused:
            result = await (await runs.resume(run.id)).result()
        await runs.verify(run.id)
        pending = await store.signals.list_pending(run.id)
    return Story(result, sender, journal, was_paused, world, pending)


AGENTS = (Plain, Attentive, Declared, Limited)


def places(most: int = 6) -> list[float]:
    """Before and after every commit that any of the runs makes; 0.5 is before the first of them."""
    return [number + half for number in range(1, most + 1) for half in (0.0, 0.5)]


def check(told: Story, agent: type[object], kind: AgentSignalKind) -> None:
    assert told.pending == []
    assert told.journal.commits <= 12
    if told.elsewhere.refusal is not None or not told.elsewhere.sent:
        assert told.result.state.status is AgentStatus.COMPLETED
        assert told.result.late_signals == ()


@pytest.mark.parametrize("at", places())
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_message_is_taken_or_shown_to_be_too_late(agent: type[object], at: float) -> None:
    store = MemoryStore()
    told = await story(agent, MESSAGE, at, store, store.signals)
    check(told, agent, MESSAGE)
    assert told.result.state.status is AgentStatus.COMPLETED
    if not told.elsewhere.sent:
        return
    end = await told.elsewhere.end()
    heard = "and this" in str(told.result.output) or "stamp and this" in told.world.done
    assert end is (AgentSignalEnd.TAKEN if heard else AgentSignalEnd.TOO_LATE)
    if agent in (Attentive, Declared):
        assert heard
    assert told.result.late_signals == (() if heard else (told.elsewhere.sent[0].id,))
    facts = [read_fact(entry) for entry in store.tables.outbox.read()]
    late = [fact.signal_id for fact in facts if isinstance(fact, AgentSignalTooLate)]
    assert late == list(told.result.late_signals)
    evidence = await store.evidence.list_by_state(told.result.state.id)
    shown = [each.payload for each in evidence if each.kind is AgentEvidenceKind.SIGNAL]
    assert [each["signal_id"] for each in shown if each.get("end") == "too_late"] == late
    assert told.world.done.count("stamp it") == (agent in (Plain, Attentive))


@pytest.mark.parametrize("at", places())
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_pause_is_honoured(agent: type[object], at: float) -> None:
    store = MemoryStore()
    told = await story(agent, PAUSE, at, store, store.signals)
    check(told, agent, PAUSE)
    assert told.result.state.status is AgentStatus.COMPLETED
    assert told.was_paused == bool(told.elsewhere.sent)
    if told.elsewhere.sent:
        assert await told.elsewhere.end() is AgentSignalEnd.TAKEN
    assert told.world.done.count("stamp it") == (agent in (Plain, Attentive))


@pytest.mark.parametrize("at", places())
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_cancellation_is_honoured(agent: type[object], at: float) -> None:
    store = MemoryStore()
    told = await story(agent, CANCEL, at, store, store.signals)
    check(told, agent, CANCEL)
    if told.elsewhere.sent:
        assert told.result.state.status is AgentStatus.CANCELLED
        assert await told.elsewhere.end() is AgentSignalEnd.TAKEN


async def test_some_of_the_places_are_just_before_the_end() -> None:
    for agent in AGENTS:
        for kind in (MESSAGE, PAUSE, CANCEL):
            refused = 0
            for at in places():
                store = MemoryStore()
                refused += (await story(agent, kind, at, store, store.signals)).journal.refused
            assert refused, f"no end of {agent.__name__} was refused over {kind.value!r}"


class CountedSignals(MemorySignalRepository):
    """Signals of which it is counted how often they are asked for."""

    asked = 0

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        self.asked += 1
        return await super().list_pending(state_id)


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_run_without_signals_asks_for_none(agent: type[object]) -> None:
    store = MemoryStore()
    store.signals = counted = CountedSignals(store)
    told = await story(agent, MESSAGE, 0.0, store, store.signals)
    # Verifying the run asks once, and so does the story at its end.
    assert (told.journal.refused, counted.asked) == (0, 2)


@pytest.mark.parametrize("kind", [MESSAGE, PAUSE, CANCEL])
@pytest.mark.parametrize("agent", [Plain, Attentive, Declared])
async def test_databases_keep_the_same_promise(
    agent: type[object], kind: AgentSignalKind, store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    for at in places(5):
        told = await story(agent, kind, at, store, second_store.signals)
        check(told, agent, kind)
        if not told.elsewhere.sent:
            continue
        assert (told.result.state.status is AgentStatus.CANCELLED) == (kind is CANCEL)
        assert told.was_paused == (kind is PAUSE)
        end = await told.elsewhere.end()
        assert end is (AgentSignalEnd.TOO_LATE if told.result.late_signals else AgentSignalEnd.TAKEN)
        assert agent is Plain or end is AgentSignalEnd.TAKEN


async def test_a_signal_that_is_sent_again_gets_the_end_of_the_first() -> None:
    store, world = MemoryStore(), World()
    async with application(store, LateSender(store), world) as runs:
        run = await runs.start(Plain)
        (late,) = (await run.result()).late_signals
        again = await runs.signal(run.id, MESSAGE, {"text": "and this"}, id=late)
        assert again.end is AgentSignalEnd.TOO_LATE
        with pytest.raises(CallerError, match="takes no signals any more"):
            await runs.signal(run.id, MESSAGE, {"text": "something else"})
        assert (await runs.result(run.id)).late_signals == (late,)


async def test_a_resume_supersedes_the_pause_before_it() -> None:
    store, world = MemoryStore(), World()
    async with application(store, store.journal, world) as runs:
        run = await runs.start(Declared, "Well?")
        await store.signals.append(AgentSignal("p", run.id, PAUSE))
        await store.signals.append(AgentSignal("r", run.id, AgentSignalKind.RESUME))
        assert (await run.result()).state.status is AgentStatus.COMPLETED
        ends = [(await store.signals.append(AgentSignal(each, run.id, PAUSE))).end for each in ("p", "r")]
        assert ends == [AgentSignalEnd.SUPERSEDED, AgentSignalEnd.TAKEN]


async def test_a_resume_without_a_pause_does_not_end_a_later_pause() -> None:
    store, world = MemoryStore(), World()
    async with application(store, store.journal, world) as runs:
        run = await runs.start(Declared, "Well?")
        await store.signals.append(AgentSignal("r", run.id, AgentSignalKind.RESUME))
        await store.signals.append(AgentSignal("p", run.id, PAUSE))
        assert (await run.result()).state.status is AgentStatus.INTERRUPTED
        assert await store.signals.list_pending(run.id) == []
        ends = [(await store.signals.append(AgentSignal(each, run.id, PAUSE))).end for each in ("p", "r")]
        assert ends == [AgentSignalEnd.TAKEN, AgentSignalEnd.SUPERSEDED]


@pytest.mark.parametrize("agent", [Plain, Attentive, Declared])
async def test_a_run_that_is_left_at_its_end_keeps_its_message_for_the_next_owner(
    agent: type[object],
) -> None:
    store, world = MemoryStore(), World()
    async with application(store, LateSender(store), world) as runs:
        run = await (runs.start(agent, "Well?") if agent is Declared else runs.start(agent))
        live = runs.launcher.live(run.id)
        assert live is not None
        for _ in range(60):
            live.hand_over()
            await asyncio.sleep(0)
        left = await run.result()
    async with application(store, LateSender(store), world) as runs:
        result = await (await runs.resume(run.id)).result()
        assert result.state.status is AgentStatus.COMPLETED
    assert left.state.status in (AgentStatus.ACTIVE, AgentStatus.COMPLETED)
    assert result.late_signals == (("late",) if agent is Plain else ())
    assert world.done.count("stamp it") == (agent in (Plain, Attentive))


class LateSender(IAgentJournal):
    """A journal to which a message comes when the run is about to end; it survives every process."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._journal = store, store.journal

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            if commit.state is not None and commit.state.is_terminal and not commit.last_signal:
                signal = AgentSignal("late", commit.run.run_id, MESSAGE, {"text": "and this"})
                await self._store.signals.append(signal)
        return await self._journal.commit(commits)

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)


class LateStore:
    """A store to which a message comes at the end of its run."""

    def __init__(self) -> None:
        store = MemoryStore()
        self.journal = LateSender(store)
        self.states, self.signals, self.evidence = store.states, store.signals, store.evidence


class Listener(Parrot):
    """Says whether it was shown the message."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        heard = any(message.text == "and this" for message in request.messages)
        said = "heard" if heard else "nothing heard"
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse(said))


@pytest.mark.parametrize("agent", [Declared, Attentive, Plain])
async def test_no_crash_loses_a_message_that_comes_at_the_end(
    agent: type[object], second_stops: tuple[int, ...]
) -> None:
    given = "Well?" if agent is Declared else None
    report = await crash_matrix(
        agent, given, add=[World(), Postbox, Listener], store=LateStore, second_stops=second_stops
    )
    assert report.reference.status is AgentStatus.COMPLETED
    assert report.reference.late_signals == (("late",) if agent is Plain else ())
    if agent is Declared:
        assert report.reference.output == "heard"
    report.assert_same_result()
    report.assert_no_repeated_effects()


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_a_task_that_still_tells_something_does_not_disturb_a_refused_end(turns: int) -> None:
    family = Family()

    async def chatters(deps: Dependencies) -> None:
        for number in range(turns):
            await deps.tell(deps.progress(f"chat {number}"))
            await asyncio.sleep(0)

    async def play(deps: Dependencies, prompt: str) -> object:
        tasks.append(asyncio.create_task(chatters(deps)))
        return await family.hands.write("it")

    tasks: list[asyncio.Task[None]] = []
    agent = member("talker", play)
    family.store.journal = LateSender(family.store)  # type: ignore[assignment]
    async with family.process(agent) as runs:
        run = await runs.start(agent, "Well?")
        result = await run.result()
        assert (result.status, result.output, result.late_signals) == (AgentStatus.COMPLETED, "it", ("late",))
        await asyncio.gather(*tasks)
        events = [event async for event in runs.events(run.id)]
        assert isinstance(events[-1], RunFinishedEvent)
        steps = [each.step_name for each in events if isinstance(each, StepFinishedEvent)]
        chat = [each for each in steps if each.startswith("chat")]
        assert chat == [f"chat {number}" for number in range(len(chat))]
        assert await runs.verify(run.id)
