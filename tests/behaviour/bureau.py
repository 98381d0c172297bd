"""A bureau for stories about the bounds of runs: agents of any spec, all ports of a store, a clock under control."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.behaviour.office import OUTSIDE, UNGATED, Desk, Program, Worker, World

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ModelUsage
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemorySealer,
    MemoryStore,
    ScriptedModel,
    SeededIds,
    VirtualClock,
)

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


def hired(name: str = "worker", **spec: Any) -> type[Worker]:
    """An agent that does what the program of its process says, within the bounds of its spec."""

    @Agent(spec=AgentExecutionSpec(name=name, recovery=DURABLE, **spec))
    class Hired(Worker):
        """Does what it is told."""

    return Hired


class Bureau:
    """Processes come and go; the store, the world, the clock and the ids stay."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.store.sealer = MemorySealer(b"the key of the bureau")
        self.world = World()
        self.ids = SeededIds(1)
        self.journal = FaultyJournal(self.store.journal)

    @asynccontextmanager
    async def process(
        self,
        agent: type[object],
        program: Callable[[Worker], Awaitable[object]] | None = None,
        *pods: object,
        model: IAgentModel | None = None,
        fault: Fault | None = None,
        has_sealer: bool = True,
        journal: FaultyJournal | None = None,
    ) -> AsyncGenerator[AgentRuns, None]:
        """One process with an agent, its program and whatever else it has."""
        self.journal = journal or FaultyJournal(self.store.journal, fault)
        store = self.store
        app = Application("bureau").add(agent, Desk, self.world, *pods, self.ids, self.clock, self.journal)
        app.add(store.states, store.signals, store.evidence, store.leases, store.wake_ups)
        app.add(store.conversations, model or ScriptedModel([]))
        if program is not None:
            app.add(Program(program))
        if has_sealer:
            app.add(store.sealer)
        initialize(app)
        async with app:
            yield app.get(AgentRuns)

    async def dead_process(
        self,
        agent: type[object],
        program: Callable[[Worker], Awaitable[object]],
        *pods: object,
        fault: Fault,
        model: IAgentModel | None = None,
    ) -> str:
        """Start a run in a process that dies by its fault; the run's lease runs out with it."""
        async with self.process(agent, program, *pods, fault=fault, model=model) as runs:
            handle = await runs.start(agent, "A-17")
            (ended,) = await asyncio.gather(handle.result(), return_exceptions=True)
            assert isinstance(ended, BaseException), "the process did not reach its fault"
        return handle.id

    async def rows(self, run_id: str) -> list[JournalRow]:
        """What the journal has of a run."""
        return [row async for row in self.store.journal.read(RunKey("default", run_id))]

    async def outcome(self, run_id: str, tool: str) -> object:
        """What the journal says came of the first call of a tool; None where it says nothing."""
        found = [
            row.record
            for row in await self.rows(run_id)
            if row.action_id.endswith(f"tool:{tool}#1") and row.stage is JournalStage.AFTER
        ]
        return found[-1] if found else None


async def started(runs: AgentRuns, agent: type[object], given: object = "A-17") -> RunResult:
    """Start a run and bring it as far as it gets."""
    return await (await runs.start(agent, given)).result()


async def resumed(runs: AgentRuns, run_id: str) -> RunResult:
    """Bring a run back and as far as it gets."""
    return await (await runs.resume(run_id)).result()


async def asked(worker: Worker, words: str = "Well?") -> ModelResponse:
    """One call of the worker's model."""
    return await worker.model.complete(ModelRequest([ModelMessage.user(words)]))


def triple(state: AgentState) -> tuple[str, str | None, str | None]:
    """Status, transition and reason as the contract's table has them."""
    return state.status, state.transition, state.reason


def nobody_is_left() -> bool:
    """Whether no task but that of the test itself is alive."""
    return asyncio.all_tasks() == {asyncio.current_task()}


class SlowModel(IAgentModel):
    """Says one word, and then nothing more until it is let go."""

    def __init__(self) -> None:
        self.is_speaking = asyncio.Event()
        self.go_on = asyncio.Event()
        self.closed = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        try:
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="Once")
            self.is_speaking.set()
            await self.go_on.wait()
            yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("Once upon a time"))
        finally:
            self.closed += 1


COMPLETED = (AgentStatus.COMPLETED, "completed", None)
FAILED = (AgentStatus.FAILED, "failed", "execution_failed")
LIMITED = (AgentStatus.INTERRUPTED, "interrupted", "limit_reached")
TIMED_OUT = (AgentStatus.FAILED, "timed_out", "timeout")
CANCELLED = (AgentStatus.CANCELLED, "cancelled", "cancellation_requested")
NOT_CLEANED_UP = (AgentStatus.FAILED, "failed", "cancellation_cleanup_failed")
WAITING = (AgentStatus.INTERRUPTED, "waiting_approval", "approval_required")
DEFERRED = (AgentStatus.INTERRUPTED, "waiting_approval", "approval_deferred")
DIVERGED = (AgentStatus.INTERRUPTED, "interrupted", "diverged")
RECOVERY = (AgentStatus.INTERRUPTED, "interrupted", "recovery_requires_hitl")
REJECTED = (AgentStatus.FAILED, "failed", "approval_rejected")


class Metered(IAgentModel):
    """Always says the same, and reports what it is told to report."""

    def __init__(self, usage: ModelUsage | None = None, name: str = "metered") -> None:
        self.usage = ModelUsage(6, 4, 10) if usage is None else usage
        self.asked = 0
        self._capability = ModelCapability(name)

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.asked += 1
        said = f"word {self.asked}"
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=said)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse(said, usage=self.usage))


@Pod
class Counter:
    """Tools that take as long as the test wants: each says when it has begun, and waits until it may end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.may_end: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.stopped: list[str] = []

    @agent_tool(effects=ToolEffects.read_only())
    async def read(self, what: str) -> str:
        """Read slowly."""
        return await self._slowly(f"read {what}")

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def write(self, what: str) -> str:
        """Write slowly; doing it again changes nothing."""
        return await self._slowly(f"write {what}")

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reads_untrusted=False
    )
    async def send(self, what: str) -> str:
        """Send slowly; only a person can find out whether it happened."""
        return await self._slowly(f"send {what}")

    async def _slowly(self, what: str) -> str:
        self.world.act(what)
        self.begun[what].set()
        try:
            await self.may_end[what].wait()
        except asyncio.CancelledError:
            self.stopped.append(what)
            raise
        return what
