"""Looking at a run while it goes on: what was read before is not taken for its rest."""

from __future__ import annotations

from tests.adapters.mcp_server.shop import shop
from tests.behaviour.test_questions_while_a_run_goes_on import SlowSignals

from pilotage import AgentRuns, AgentStatus
from pilotage.adapters.mcp_server.following import RunFollower
from pilotage.agent import ApprovalDecision
from pilotage.agent.principal import LOCAL
from pilotage.testing import MemoryStore


async def test_a_run_that_ends_while_it_is_looked_at_is_not_at_rest_as_it_was() -> None:
    store = MemoryStore()
    signals = store.signals = SlowSignals(store)
    async with shop(store=store) as app:
        runs = app.get(AgentRuns)
        handle = await runs.start("pay", {"amount": 5})
        await handle.result()
        (question,) = await runs.questions(handle.id)
        await runs.answer(handle.id, question.id, ApprovalDecision.APPROVE, resume=False)

        async def go_on() -> None:
            await (await runs.resume(handle.id)).result()

        signals.meanwhile = go_on
        follower = RunFollower(runs)
        assert await follower.look(handle.id, LOCAL) is None
        rest = await follower.look(handle.id, LOCAL)
        assert rest is not None
        assert rest.state.status is AgentStatus.COMPLETED
