"""Tools that a loop adds for a part of its work: offered to the model, and through the same door as all others."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentSession, Dependencies, ToolApprovalRequirement
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.architectures import React
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, says


class Till:
    """Belongs to no agent."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return f"paid {amount}"

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, amount: int) -> str:
        """Note an amount."""
        self.paid.append(amount)
        return f"noted {amount}"


class Lending:
    """ReAct with one tool more, in a part of its own."""

    name, version = "lending", 1

    def __init__(self, till: Till, tool: str) -> None:
        self._tool = getattr(till, tool)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        more = deps.with_extra_tools([self._tool])
        assert deps.tools.calling is None
        async for event in React().run(session, more.scope_for_worker("till"), prompt):
            yield event


def application(till: Till, tool: str, model: ScriptedModel, store: MemoryStore) -> tuple[Application, type]:
    durable = RecoveryStrategy.ACTION_BOUNDARY

    @Agent(spec=AgentExecutionSpec(name="clerk", architecture=Lending(till, tool), recovery=durable))
    class Clerk:
        """Pay what is asked for."""

    app = Application("shop").add(Clerk, model, *store.ports)
    initialize(app)
    return app, Clerk


async def test_a_tool_that_a_loop_adds_is_offered_and_recorded_like_the_agents_own() -> None:
    till, store = Till(), MemoryStore()
    model = ScriptedModel([calls("note", amount=3), says("done")])
    app, clerk = application(till, "note", model, store)
    async with app:
        result = await (await app.get(AgentRuns).start(clerk, "go")).result()
    assert (result.output, till.paid) == ("done", [3])
    rows = [row async for row in store.journal.read(RunKey("default", result.state.id))]
    stages = [row.stage for row in rows if row.action_id.endswith("/tool:note#1")]
    assert stages == [JournalStage.BEFORE, JournalStage.AFTER]
    assert all("till" in row.action_id for row in rows if row.action_id.endswith("/tool:note#1"))


async def test_a_tool_that_a_loop_adds_waits_for_a_person_and_another_process_goes_on() -> None:
    till, store = Till(), MemoryStore()
    app, clerk = application(till, "pay", ScriptedModel([calls("pay", amount=7)]), store)
    async with app:
        paused = await (await app.get(AgentRuns).start(clerk, "go")).result()
    assert (paused.status, till.paid) == (AgentStatus.INTERRUPTED, [])
    app, clerk = application(till, "pay", ScriptedModel([says("done")]), store)
    async with app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await (await runs.resume(paused.state.id)).result()
    assert (result.output, till.paid) == ("done", [7])
