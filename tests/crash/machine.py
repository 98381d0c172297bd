"""What the state machine plays with: a till that can break, agents, and processes that come, clash and die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentState,
    AgentStatus,
    AgentToolRuntimeContext,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import RejectionPolicy, ToolApprovalRequirement
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.errors import ToolError
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
    says,
)
from pilotage.values import value

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
OUTSIDE = ToolEffects.external_side_effect()
ASKED = 7


class Trouble(Enum):
    """What happens to the next one who comes to the till."""

    DIES_BEFORE = "the process dies before the effect"
    DIES_AFTER = "the process dies after the effect"
    BREAKS_BEFORE = "the line breaks before the effect"
    BREAKS_AFTER = "the line breaks after the effect"
    REFUSES = "the till says no"


@value
class Payment:
    """One effect that cannot be undone, and the attempt it belongs to."""

    run_id: str
    tool: str
    attempt: int
    amount: int


class World:
    """What is outside: it outlives every process and remembers every effect."""

    def __init__(self) -> None:
        self.payments: list[Payment] = []
        self.notes: set[str] = set()
        self.trouble: Trouble | None = None

    def made(self, run_id: str, tool: str) -> list[Payment]:
        """The payments of one kind that a run really made."""
        return [each for each in self.payments if (each.run_id, each.tool) == (run_id, tool)]

    def note(self, context: AgentToolRuntimeContext | None) -> None:
        """Keep a note; a second one of the same run changes nothing."""
        assert context is not None
        self.notes.add(context.state_id)

    def pay(self, amount: int, context: AgentToolRuntimeContext | None) -> str:
        """Let money go, with whatever trouble is due."""
        assert context is not None
        trouble, self.trouble = self.trouble, None
        match trouble:
            case Trouble.DIES_BEFORE:
                raise ProcessStopped(trouble.value)
            case Trouble.BREAKS_BEFORE:
                raise ConnectionError(trouble.value)
            case Trouble.REFUSES:
                raise ToolError(trouble.value)
            case Trouble.DIES_AFTER | Trouble.BREAKS_AFTER | None:
                self.payments.append(Payment(context.state_id, context.tool_name, context.attempt, amount))
        if trouble is Trouble.DIES_AFTER:
            raise ProcessStopped(trouble.value)
        if trouble is Trouble.BREAKS_AFTER:
            raise ConnectionError(trouble.value)
        return receipt(context.tool_name, amount)


def receipt(tool: str, amount: int) -> str:
    """What the till gives for a payment."""
    return f"{tool} {amount}"


@Pod
class Till:
    """One tool that may be repeated, one that may not, one that also needs an approval."""

    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Note something down; doing it again changes nothing."""
        await asyncio.sleep(0)
        self.world.note(runtime_context)
        return what

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reads_untrusted=False
    )
    async def pay(self, amount: int, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Pay; only a person can find out whether it happened."""
        return self.world.pay(amount, runtime_context)

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, reads_untrusted=False)
    async def refund(self, amount: int, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Give money back; a person has to allow it."""
        return self.world.pay(amount, runtime_context)


class Cashier:
    """Talks, notes, pays, talks, refunds, talks."""

    def __init__(self, model: IAgentModel, till: Till) -> None:
        self.model, self.till = model, till

    async def execute(self, order: str) -> list[str]:
        await self.talk(order)
        await self.till.note(order)
        receipts = [await self.till.pay(ASKED)]
        await self.talk("paid")
        receipts.append(await self.give_back())
        await self.talk("given back")
        return receipts

    async def give_back(self) -> str:
        """Refund what was paid."""
        return await self.till.refund(ASKED)

    async def talk(self, text: str) -> None:
        """Say something to the model; what users have said goes with it."""
        await self.model.complete(ModelRequest([ModelMessage.user(text)]))


@Agent(
    spec=AgentExecutionSpec(
        name="strict",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
    )
)
class Strict(Cashier):
    """Ends when it is told no."""


@Agent(
    spec=AgentExecutionSpec(
        name="patient",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
        on_rejection=RejectionPolicy.TELL_MODEL,
    )
)
class Patient(Cashier):
    """Hears a no and goes on."""

    async def give_back(self) -> str:
        try:
            return await super().give_back()
        except ToolError:
            return "no refund"


class DistantJournal(IAgentJournal):
    """A journal at the end of a wire: whoever waits for it lets others run."""

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        await asyncio.sleep(0)
        outcomes = await self._journal.commit(commits)
        await asyncio.sleep(0)
        return outcomes

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        await asyncio.sleep(0)
        rows = [row async for row in self._journal.read(run, after)]
        await asyncio.sleep(0)
        for row in rows:
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        await asyncio.sleep(0)
        return await self._journal.head(run)


class Town:
    """Processes come and go; the store, the world, the clock and the ids stay.

    Without leases everybody may try to drive every run, and the journal alone decides.
    """

    def __init__(self, *, has_leases: bool = False) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.coordination = (self.store.leases, self.store.wake_ups) if has_leases else ()
        self.world = World()
        self.ids = SeededIds(1)

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns, None]:
        """One process; with a fault it dies at that commit, or does not hear of it."""
        journal = FaultyJournal(DistantJournal(self.store.journal), fault)
        model = ScriptedModel([says("Well.")] * 3)
        app = Application("town").add(Strict, Patient, Till, self.world, model, journal, self.store.states)
        app.add(self.store.signals, self.store.evidence, self.store.sealer, *self.coordination)
        app.add(self.ids, self.clock)
        initialize(app)
        async with app:
            yield app.get(AgentRuns)

    async def states(self) -> list[AgentState]:
        """Every run there is, also those whose starter died before it could tell."""
        found = [await self.store.states.list_by_status(status) for status in AgentStatus]
        return [state for states in found for state in states]

    async def rows(self, run_id: str) -> list[JournalRow]:
        """What the journal has of a run."""
        return [row async for row in self.store.journal.read(RunKey("default", run_id))]
