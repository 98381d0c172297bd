"""A run that fails after an unknown outcome was looked up or decided: the call has one outcome, and the run one end."""

from __future__ import annotations

import pytest

from pilotage import Agent, AgentRuns, AgentStatus, Application, RecoveryDecision, agent_tool
from pilotage.agent import Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.agent.run_values import RunResult
from pilotage.container.pod import Pod
from pilotage.runtime.plugin import initialize
from pilotage.testing import FaultyJournal, MemoryStore, ProcessStopped, StopAfter

UNASKED = ToolApprovalRequirement.NOT_REQUIRED
OUTSIDE = ToolEffects.external_side_effect()
ONCE = Idempotency.NON_IDEMPOTENT


@Pod
class Till:
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reconcile="found")
    async def look_up(self) -> str:
        """Pay, in a way that can be looked up."""
        return "paid"

    async def found(self, idempotency_key: str) -> str:
        return "paid"

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED)
    async def decide(self) -> str:
        """Pay, in a way that only a person can find out about."""
        return "paid"


@Agent(durable=True)
class Unlucky:
    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, tool: str) -> str:
        await getattr(self.till, tool)()
        raise ValueError("the rest goes wrong")


async def carried(store: MemoryStore, tool: str, fault: StopAfter | None) -> RunResult | None:
    journal = FaultyJournal(store.journal, fault)
    app = Application("till").add(Unlucky, Till, journal, store.states, store.signals, store.evidence)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        try:
            if fault is not None:
                return await (await runs.start(Unlucky, tool)).result()
            (state,) = [s for each in AgentStatus for s in await store.states.list_by_status(each)]
            result = await (await runs.resume(state.id)).result()
            for question in await runs.questions(state.id):
                await runs.answer(state.id, question.id, RecoveryDecision.DONE, result="paid", resume=False)
                result = await (await runs.resume(state.id)).result()
        except ProcessStopped:
            return None
        await runs.verify(state.id)
        return result


@pytest.mark.parametrize("tool", ["look_up", "decide"])
@pytest.mark.parametrize("commits", range(1, 6))
async def test_the_run_fails_once(tool: str, commits: int) -> None:
    store = MemoryStore()
    result = await carried(store, tool, StopAfter(commits)) or await carried(store, tool, None)
    assert result is not None
    assert result.status is AgentStatus.FAILED
