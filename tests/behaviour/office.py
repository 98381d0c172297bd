"""An office for stories about runs: a store and an outside world that outlive every process in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Application,
    ApprovalDecision,
    IAgentModel,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalRequest,
    AgentRecoveryRequest,
    RecoveryDecision,
    RejectionPolicy,
    ToolApprovalRequirement,
)
from pilotage.agent.ports.leases import IAgentLeases
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.principal import LOCAL
from pilotage.agent.run_values import RunResult
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ScriptedModel,
    SeededIds,
    VirtualClock,
)

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
GATED = ToolApprovalRequirement.REQUIRED
OUTSIDE = ToolEffects.external_side_effect()


@dataclass(frozen=True)
class Receipt:
    """What a payment gives: a value with a type of its own."""

    number: int
    amount: Decimal


class World:
    """What is outside: it remembers who knocked and what was done, and refuses what it is told to refuse."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.knocks: list[tuple[str, str, int]] = []
        self.failures: dict[str, BaseException] = {}

    def act(self, what: str, context: AgentToolRuntimeContext | None = None) -> int:
        """Let something happen, or raise what is set for it, once; the number of things done so far."""
        if context is not None:
            self.knocks.append((what, context.idempotency_key, context.attempt))
        failure = self.failures.pop(what, None)
        if failure is not None:
            raise failure
        self.done.append(what)
        return len(self.done)


@Pod
class Desk:
    """One tool of each kind, all over the same world."""

    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, what: str) -> Decimal:
        """Look something up."""
        return Decimal(self.world.act(f"look {what}"))

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Note something down; doing it again changes nothing."""
        self.world.act(f"note {what}", runtime_context)
        return what

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reads_untrusted=False
    )
    async def pay(self, amount: Decimal, runtime_context: AgentToolRuntimeContext | None = None) -> Receipt:
        """Pay; only a person can find out whether it happened."""
        return Receipt(self.world.act(f"pay {amount}", runtime_context), amount)

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=GATED, reads_untrusted=False
    )
    async def refund(
        self, amount: Decimal, runtime_context: AgentToolRuntimeContext | None = None
    ) -> Receipt:
        """Give money back; a person has to allow it."""
        return Receipt(self.world.act(f"refund {amount}", runtime_context), amount)


class Worker:
    """Does what the program of its process says."""

    def __init__(self, model: IAgentModel, desk: Desk, program: Program) -> None:
        self.model, self.desk, self.program = model, desk, program

    async def execute(self, order: str) -> object:
        """The program's answer."""
        return await self.program.run(self)


class Program:
    """What a worker does: a test writes it, and another process may have another one."""

    def __init__(self, run: Callable[[Worker], Awaitable[object]]) -> None:
        self.run = run


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk(Worker):
    """Fails when it is told no."""


@Agent(
    spec=AgentExecutionSpec(
        name="patient", recovery=RecoveryStrategy.ACTION_BOUNDARY, on_rejection=RejectionPolicy.TELL_MODEL
    )
)
class PatientClerk(Worker):
    """Hears a no and goes on."""


Question = AgentApprovalRequest | AgentRecoveryRequest


class Office:
    """Processes come and go; the store, the world, the clock and the ids stay."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world = World()
        self.ids = SeededIds(1)
        self.journal = FaultyJournal(self.store.journal)

    @asynccontextmanager
    async def process(
        self,
        program: Callable[[Worker], Awaitable[object]],
        *,
        model: ScriptedModel | None = None,
        fault: Fault | None = None,
        leases: IAgentLeases | None = None,
    ) -> AsyncGenerator[AgentRuns, None]:
        """One process with a program of its own; `journal` counts its commits and has its fault."""
        self.journal = FaultyJournal(self.store.journal, fault)
        app = Application("office").add(Clerk, PatientClerk, Desk, Program(program), self.world)
        app.add(model or ScriptedModel([]), self.journal, self.store.states, self.store.signals)
        app.add(self.store.evidence, self.ids, self.clock, *([leases] if leases is not None else []))
        initialize(app)
        async with app:
            yield app.get(AgentRuns)

    async def rows(self, run_id: str, tenant: str = "default") -> list[JournalRow]:
        """What the journal has of a run."""
        return [row async for row in self.store.journal.read(RunKey(tenant, run_id))]


async def start(runs: AgentRuns, agent: type[Worker] = Clerk) -> RunResult:
    """Start a run and bring it as far as it gets."""
    return await (await runs.start(agent, "A-17")).result()


async def resume(runs: AgentRuns, run_id: str) -> RunResult:
    """Bring a run back and as far as it gets."""
    return await (await runs.resume(run_id)).result()


async def only_question(runs: AgentRuns, run_id: str) -> Question:
    """The one thing a run waits for."""
    (question,) = await runs.questions(run_id)
    return question


async def answer(
    runs: AgentRuns, run_id: str, decision: ApprovalDecision | RecoveryDecision, **details: JsonValue
) -> RunResult:
    """Answer the one thing a run waits for, and bring the run as far as it gets."""
    question = await only_question(runs, run_id)
    await runs.answer(run_id, question.id, decision, principal=LOCAL, **details)
    return await resume(runs, run_id)
