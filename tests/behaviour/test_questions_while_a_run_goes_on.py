"""Questions that are read while their run takes the answers: an answered one is never open again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pilotage import Agent, AgentRuns, Application, Pod, ToolApprovalRequirement, agent_tool
from pilotage.agent import ApprovalDecision
from pilotage.agent.signals import AgentSignal
from pilotage.testing import MemorySignalRepository, MemoryStore, ScriptedModel


@Pod
class Till:
    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int) -> int:
        """Pay."""
        return amount


@Agent(durable=True)
class Payer:
    """Pay."""

    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, amount: int) -> int:
        return await self.till.pay(amount)


class SlowSignals(MemorySignalRepository):
    """Signals that are read after something else has happened."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        return await super().list_pending(state_id)


async def test_a_question_whose_answer_is_taken_while_it_is_read_is_not_open() -> None:
    store = MemoryStore()
    signals = store.signals = SlowSignals(store)
    app = Application("payments").load_plugins(include=["agent", "runtime"])
    async with app.add(Till, Payer, ScriptedModel([]), *store.ports):
        runs = app.get(AgentRuns)
        handle = await runs.start(Payer, {"amount": 5})
        await handle.result()
        (question,) = await runs.questions(handle.id)
        await runs.answer(handle.id, question.id, ApprovalDecision.APPROVE, resume=False)

        async def go_on() -> None:
            await (await runs.resume(handle.id)).result()

        signals.meanwhile = go_on
        assert await runs.questions(handle.id) == ()
        assert (await runs.result(handle.id)).output == 5
