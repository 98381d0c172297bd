"""A shop whose tools call tools, for stories about what becomes of them when a process dies or a run pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
from tests.behaviour.office import GATED, OUTSIDE, UNGATED, World

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Application,
    IAgentModel,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStateReason
from pilotage.jsonvalue import JsonValue
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
)

ONCE = Idempotency.NON_IDEMPOTENT

Body: TypeAlias = "Callable[[Desk], Awaitable[object]]"


class Program:
    """What the agent does, and what a tool of its desk waits for."""

    def __init__(self, body: Body, wait: Body) -> None:
        self.body, self.wait = body, wait


async def buying(desk: Desk) -> object:
    """Buy something."""
    return await desk.buy("tea")


async def refunding(desk: Desk) -> object:
    """Ask a person."""
    return await desk.refund("tea")


@Pod
class Desk:
    """Tools that call tools."""

    def __init__(self, world: World, program: Program, model: IAgentModel) -> None:
        self.world, self.model, self.wait = world, model, program.wait

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def buy(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Order, and send a letter."""
        self.world.act(f"enter {what}", runtime_context)
        return f"{await self.order(what)}, {await self.letter(what)}"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def order(self, what: str) -> str:
        """Note, and pay."""
        return f"{await self.note(what)}, {await self.pay(what)}"

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, what: str) -> str:
        """Note something down; doing it again changes nothing."""
        self.world.act(f"note {what}")
        return f"noted {what}"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def pay(self, what: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Pay."""
        self.world.act(f"pay {what}", runtime_context)
        return f"paid {what}"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def letter(self, what: str) -> str:
        """Send a letter."""
        self.world.act(f"letter {what}")
        return f"wrote {what}"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def buy_both(self, one: str, other: str) -> str:
        """Pay twice at once."""
        return ", ".join(await asyncio.gather(self.pay(one), self.pay(other)))

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def around(self, what: str) -> str:
        """Pay, wait for something, send a letter."""
        self.world.act(f"enter {what}")
        paid = await self.pay(what)
        waited = await self.wait(self)
        return f"{paid}, {waited}, {await self.letter(what)}"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNGATED, reads_untrusted=False)
    async def around_it(self, what: str) -> str:
        """Call a tool that waits."""
        return await self.around(what)

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=GATED, reads_untrusted=False)
    async def refund(self, what: str) -> str:
        """Give money back; a person has to allow it."""
        self.world.act(f"refund {what}")
        return f"refunded {what}"


@Agent(
    spec=AgentExecutionSpec(name="buyer", recovery=RecoveryStrategy.ACTION_BOUNDARY, delegation_allowed=True)
)
class Buyer:
    """Does what its program says."""

    def __init__(self, model: IAgentModel, desk: Desk, program: Program) -> None:
        self.model, self.desk, self.program = model, desk, program

    async def execute(self) -> object:
        return await self.program.body(self.desk)


class Shop:
    """Processes come and go; the store and the world stay."""

    def __init__(
        self,
        body: Body = buying,
        *,
        wait: Body = refunding,
        model: ScriptedModel | None = None,
        more: Sequence[object] = (),
    ) -> None:
        self.program = Program(body, wait)
        self.model, self.more = model or ScriptedModel([]), more
        self.clock = VirtualClock()
        self.store, self.world, self.ids = MemoryStore(self.clock), World(), SeededIds(1)
        self.run_id = ""

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns]:
        """One process."""
        self.journal = FaultyJournal(self.store.journal, fault)
        app = Application("shop").add(Buyer, Desk, self.program, self.world, self.model)
        app.add(self.journal, self.store.states, self.store.signals, self.store.evidence)
        initialize(app.add(self.ids, self.clock, *self.more))
        async with app:
            yield app.get(AgentRuns)

    async def dies(self, at: str) -> None:
        """Let the process die in an effect of its run, which it starts or goes on with."""
        self.world.failures[at] = ProcessStopped(f"while it did {at!r}")
        async with self.process() as runs:
            with pytest.raises(ProcessStopped):
                await self.driven(runs)

    async def driven(self, runs: AgentRuns) -> RunResult:
        """Start the run, or go on with it."""
        handle = await (runs.resume(self.run_id) if self.run_id else runs.start(Buyer))
        self.run_id = handle.id
        return await handle.result()

    async def question(self) -> AgentRecoveryRequest:
        """The one question of the run, after a process has asked it."""
        async with self.process() as runs:
            paused = await self.driven(runs)
            assert paused.state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
            (question,) = await runs.questions(self.run_id)
        assert isinstance(question, AgentRecoveryRequest)
        return question

    async def answered(
        self, decision: RecoveryDecision, fault: Fault | None = None, **details: JsonValue
    ) -> RunResult:
        """Answer the one question of the run, and go on."""
        async with self.process(fault) as runs:
            (question,) = await runs.questions(self.run_id)
            await runs.answer(self.run_id, question.id, decision, resume=False, **details)
            return await self.driven(runs)

    async def asked(self) -> list[str]:
        """The questions that the run has asked in all its life."""
        rows = [row async for row in self.store.journal.read(RunKey("default", self.run_id))]
        return [
            row.action_id
            for row in rows
            if row.kind is AgentActionKind.APPROVAL_WAIT and row.stage is JournalStage.BEFORE
        ]
