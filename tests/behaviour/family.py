"""Families of agents for stories about children: each agent plays what a test writes, over one world and one store."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentApprovalRequest, RecoveryDecision, ToolApprovalRequirement
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.agent.ports.journal import JournalRow, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import ToolError
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, FaultyJournal, MemoryStore, ScriptedModel, SeededIds, VirtualClock

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
GATED = ToolApprovalRequirement.REQUIRED
CHANGES = ToolEffects.write_state()

Play = Callable[[Dependencies, str], Awaitable[object]]


class World:
    """What is outside: it outlives every process and counts what was done to it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: dict[str, str] = {}
        self.entered: Counter[str] = Counter()
        self.failures: dict[str, BaseException] = {}

    def act(self, what: str, key: str) -> str:
        """Let something happen, or raise what is set for it."""
        failure = self.failures.get(what)
        if failure is not None:
            raise failure
        self.done[what] += 1
        self.keys[key] = what
        return what


@Pod
class Hands:
    """One tool of each kind."""

    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, what: str) -> str:
        """Look something up."""
        return f"saw {what}"

    @agent_tool(effects=CHANGES, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Note something down; by its key the world does it once."""
        key = runtime_context.idempotency_key if runtime_context else what
        return what if key in self.world.keys else self.world.act(what, key)

    @agent_tool(effects=CHANGES, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def write(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Do something that cannot be done twice."""
        return self.world.act(what, runtime_context.idempotency_key if runtime_context else what)

    @agent_tool(effects=CHANGES, idempotency=Idempotency.NON_IDEMPOTENT, approval=GATED)
    async def ask(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Do something that a person has to allow."""
        return self.world.act(what, runtime_context.idempotency_key if runtime_context else what)

    @agent_tool(effects=ToolEffects.read_only())
    async def fail(self, what: str) -> str:
        """Fail for certain."""
        raise ToolError(f"no {what}")


class Script:
    """An architecture that plays what it is given."""

    name = "script"
    version = 1

    def __init__(self, play: Play) -> None:
        self._play = play

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        yield deps.progress("begun")
        session.output = await self._play(deps, prompt)
        yield deps.progress("played")

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """It works alone."""
        return {}


def member(name: str, play: Play, **spec: Any) -> type[object]:
    """A durable agent of this name that plays a script; another process may give it another one."""

    @Agent(
        name=name,
        spec=AgentExecutionSpec(
            name=name, recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=Script(play), **spec
        ),
    )
    class Member:
        """Plays its part."""

        def __init__(self, hands: Hands) -> None:
            self.hands = hands

    return Member


class Family:
    """Processes come and go; the store, the world, the clock and the ids stay."""

    def __init__(self, *, has_leases: bool = False, has_sealer: bool = True) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world = World()
        self.hands = Hands(self.world)
        self.ids = SeededIds(1)
        self.journal = FaultyJournal(self.store.journal)
        self.helper: object = None
        self._has_leases = has_leases
        self.has_sealer = has_sealer

    @asynccontextmanager
    async def process(
        self,
        *agents: object,
        model: ScriptedModel | None = None,
        fault: Fault | None = None,
        add: Sequence[object] = (),
    ) -> AsyncGenerator[AgentRuns, None]:
        """One process with these agents; `journal` counts its commits and has its fault."""
        self.journal = FaultyJournal(self.store.journal, fault)
        app = Application("family").add(*agents, Hands, self.world, *add)
        app.add(model or ScriptedModel([]), self.journal, self.store.states, self.store.signals)
        app.add(self.store.evidence, self.ids, self.clock)
        if self.has_sealer:
            app.add(self.store.sealer)
        if self._has_leases:
            app.add(self.store.leases)
        initialize(app)
        async with app:
            yield app.get(AgentRuns)

    async def answer(self, runs: AgentRuns, run_id: str) -> list[str]:
        """Answer everything a run and those below it wait for: allow it, or say truthfully whether it happened."""
        answered: list[str] = []
        for question in await runs.questions(run_id):
            pending = await self.store.signals.list_pending(question.agent_state_id)
            if question.id in {signal.payload.get("request_id") for signal in pending}:
                continue
            answered.append(question.id)
            if isinstance(question, AgentApprovalRequest):
                await runs.approve(question.id)
                continue
            what = str(cast("Mapping[str, Mapping[str, str]]", question.arguments)["view"]["what"])
            if self.world.done[what]:
                await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=what)
            else:
                await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
        return answered

    async def agree(self) -> str:
        """A branch that comes to its result at once."""
        return "agreed"

    async def refuse(self) -> str:
        """A branch that fails at once."""
        raise ToolError("refused")

    async def rows(self, run_id: str) -> list[JournalRow]:
        """What the journal has of a run."""
        return [row async for row in self.store.journal.read(RunKey("default", run_id))]

    async def states(self) -> list[AgentState]:
        """All runs there are."""
        found = [await self.store.states.list_by_status(status) for status in AgentStatus]
        return [state for states in found for state in states]

    async def state_of(self, agent: str) -> AgentState:
        """The one run of an agent."""
        (state,) = [state for state in await self.states() if state.agent_type == agent]
        return state


async def start(runs: AgentRuns, agent: type[object], task: object = "go") -> RunResult:
    """Start a run and bring it as far as it gets."""
    return await (await runs.start(agent, task)).result()


async def resume(runs: AgentRuns, run_id: str) -> RunResult:
    """Bring a run back and as far as it gets."""
    return await (await runs.resume(run_id)).result()


async def told(runs: AgentRuns, run_id: str) -> list[AgentEvent]:
    """Everything a run that pauses or has ended told."""
    return [event async for event in runs.events(run_id)]
