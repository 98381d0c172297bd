"""Agents that talk, and readers who listen: for stories about the events of runs."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tests.behaviour.office import Desk, World

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Evidence,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Progress,
    RecoveryStrategy,
    RunContext,
    Token,
    Tool,
)
from pilotage.agent import (
    AgentEvent,
    AgentEventAttribution,
    HookVerdict,
    IAgentHooks,
    Proceed,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
)
from pilotage.agent.events import delta_of
from pilotage.agent.model_stream import ModelEventProjector
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.agent.ports.persistence import RunKey
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.events.feed import Transcript, joined
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    SeededIds,
    VirtualClock,
    calls,
    says,
    turn,
    when,
)

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
PARTS = 10
WORDS = "The quick brown fox jumps over the lazy dog and then it sleeps until the sun is up again"


@Agent(spec=AgentExecutionSpec(name="reporter", recovery=DURABLE))
class Reporter:
    """Writes its own stream, with items of every kind."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk

    async def execute(self, parts: int) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress("begun")
        for part in range(parts):
            async for event in self.model.stream(ModelRequest([ModelMessage.user(f"part {part}.")])):
                if event.is_text_delta:
                    yield Token(event.text)
            yield Evidence({"part": part})
            noted = await self.desk.note(f"{part}")
            yield Tool("note", arguments={"what": noted}, result=noted)
            yield Progress("written", current_step=f"part {part}")
        yield Final("all parts")


@Agent(spec=AgentExecutionSpec(name="writer", instructions="Write.", recovery=DURABLE))
class Writer:
    """Is driven by the default loop: text, reasoning, calls in pieces."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk


@Agent(spec=AgentExecutionSpec(name="juggler", recovery=DURABLE))
class Juggler:
    """Notes things down while it talks, so that what it has said by then is committed in the middle of a text."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk

    async def execute(self, parts: int) -> AsyncGenerator[AgentYield[str], None]:
        for part in range(parts):
            noting = asyncio.create_task(self._note_beside(part))
            try:
                async for event in self.model.stream(ModelRequest([ModelMessage.user(f"part {part}.")])):
                    if event.is_text_delta:
                        yield Token(event.text)
            finally:
                await asyncio.gather(noting, return_exceptions=True)
        yield Final("all parts")

    async def _note_beside(self, part: int) -> None:
        for ball in "abc":
            await self.desk.note(f"{part}{ball}")
            await let_run(3)


class Voices:
    """A loop whose branches talk at the same time; branches and rounds that are over are folded."""

    name = "voices"
    version = 1

    def __init__(self, count: int = 3) -> None:
        self._count = count

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        for number in range(self._count):
            said: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
            singing = asyncio.create_task(self._round(number, deps, said))
            try:
                while (event := await said.get()) is not None:
                    yield event
            finally:
                singing.cancel()
                await asyncio.gather(singing, return_exceptions=True)
            await singing
        session.output = "sung"

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Nobody else."""
        return {}

    async def _round(self, number: int, deps: Dependencies, said: asyncio.Queue[AgentEvent | None]) -> None:
        async def voice(part: int) -> str:
            message_id, stream = deps.ask(ModelRequest([ModelMessage.user(f"part {part}.")]))
            projector = ModelEventProjector(deps.attribution, message_id)
            async for event in stream:
                for shown in projector.project(event):
                    await said.put(shown)
            return message_id

        try:
            pair = (2 * number, 2 * number + 1)
            await deps.runtime.gather("voices", [partial(voice, part) for part in pair])
        finally:
            await said.put(None)


@Agent(spec=AgentExecutionSpec(name="choir", instructions="Sing.", recovery=DURABLE, architecture=Voices()))
class Choir:
    """Sings in parallel."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk


def parts(count: int = PARTS) -> ScriptedModel:
    """A model that has a text for each part."""
    return ScriptedModel(
        [when(f"part {part}.", says(f"{part}: {WORDS}." * (1 + part % 2))) for part in range(count)]
    )


def turns(count: int = PARTS) -> ScriptedModel:
    """A model that thinks, talks and calls a tool in each turn, and answers in the end."""
    said = [
        turn(says(f"{n}: {WORDS}.", reasoning=f"{n} is next I think."), calls("note", what=f"number {n}"))
        for n in range(count)
    ]
    return ScriptedModel([*said, says("That is all.")])


class Gate:
    """A place in an agent's program where it waits until a test lets it pass."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def pass_through(self) -> None:
        """Say that it is reached, and wait."""
        self.reached.set()
        await self.open.wait()


class Slow(IAgentHooks):
    """Lets a run wait at a gate before it asks its model."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        await self._gate.pass_through()
        return Proceed()


class Newsroom:
    """Processes come and go; the store, the world, the clock and the ids stay."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world = World()
        self.ids = SeededIds(1)
        self.commits = 0

    @asynccontextmanager
    async def process(
        self,
        model: IAgentModel,
        *pods: object,
        fault: Fault | None = None,
        leases: bool = False,
    ) -> AsyncGenerator[AgentRuns, None]:
        """One process over the common store, perhaps with a fault."""
        journal, store = FaultyJournal(self.store.journal, fault), self.store
        app = Application("newsroom").add(Reporter, Writer, Juggler, Choir, Desk, self.world, model, *pods)
        app.add(journal, store.states, store.signals, store.evidence, store.sealer, store.wake_ups)
        app.add(self.ids, self.clock, *([store.leases] if leases else []))
        initialize(app)
        try:
            async with app:
                yield app.get(AgentRuns)
        finally:
            self.commits = journal.commits

    async def logged(self, run_id: str, tenant: str = "default") -> list[AgentEvent]:
        """What the journal has of what a run told, joined."""
        rows = [row async for row in self.store.journal.read(RunKey(tenant, run_id))]
        state = await self.store.states.get(run_id)
        by = AgentEventAttribution(state.agent_type, run_id, run_id)
        return joined(item.event(by) for item in logged_events(rows, run_id))


async def follow(subscription: Subscription, transcript: Transcript | None = None) -> Transcript:
    """Read to the end of the stream; a process that dies ends it as well."""
    transcript = transcript or Transcript()
    try:
        async for event in subscription:
            transcript.add(event, subscription.cursor)
    except ProcessStopped:
        pass
    return transcript


async def heard(subscription: Subscription) -> list[tuple[AgentEvent, str]]:
    """Every event with the cursor behind it."""
    return [(event, subscription.cursor) async for event in subscription]


async def let_run(turns: int = 50) -> None:
    """Let everything else come as far as it gets."""
    for _ in range(turns):
        await asyncio.sleep(0)


def texts(events: Sequence[AgentEvent]) -> dict[str, str]:
    """Each text as a whole, by its kind and an id that is the same in every run; those of tasks of one name together."""
    found: dict[str, str] = {}
    for event in joined(events):
        if piece := delta_of(event):
            (kind, _, text_id), words = piece
            key = f"{kind} {anonymous(text_id)}"
            found[key] = found.get(key, "") + words
    by_name: dict[str, list[str]] = {}
    for key, whole in found.items():
        by_name.setdefault(without_salt(key), []).append(whole)
    return {name: "\n".join(sorted(wholes)) for name, wholes in by_name.items()}


def without_salt(words: str) -> str:
    """Words without what names of tasks have of the salt of their run."""
    return re.sub(r"(task:[^:/]+):[0-9a-f]{8}\b", r"\1", words)


def anonymous(words: str) -> str:
    """Words without the ids of runs and the epochs of their owners."""
    return re.sub(r"@\d+", "", re.sub(r"[0-9a-f]{32}", "run", words))


def others(events: Sequence[AgentEvent]) -> Counter[str]:
    """Everything that is no text and no start or end of an attempt, as often as it was told."""
    told = (event for event in joined(events) if delta_of(event) is None and not is_by_the_run(event))
    return Counter(without_salt(anonymous(repr(event))) for event in told)


def is_by_the_run(event: AgentEvent) -> bool:
    """Whether it says that an attempt began or ended."""
    return isinstance(event, RunStartedEvent | RunPausedEvent | RunFinishedEvent)


def ends(events: Sequence[AgentEvent]) -> list[RunFinishedEvent]:
    """The terminal events."""
    return [event for event in events if isinstance(event, RunFinishedEvent)]
