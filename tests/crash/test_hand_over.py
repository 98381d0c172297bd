"""A process may be told to stop at any moment: nothing is repeated, and no person is asked what became of anything."""

from __future__ import annotations

import asyncio

import pytest

from pilotage import AgentStatus, Application
from pilotage.agent import AgentApprovalRequest
from pilotage.runtime import WorkerSettings
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, SeededIds, VirtualClock, says
from tests.behaviour.newsdesk import let_run
from tests.crash.shop import RECEIPTS, Clerk, Shop, World

TURNS = range(0, 120, 2)


class Rolling:
    """One run of `Clerk` and a worker after the other, each stopped after so many turns."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world, self.ids = World(), SeededIds(1)
        self.questions: list[object] = []

    async def worker(self, turns: int) -> bool:
        """A worker that is told to stop after so many turns; whether the run has ended."""
        store = self.store
        app = Application("shop").add(Clerk, Shop, self.world, ScriptedModel([says("Yes.")]), *store.ports)
        app.add(self.ids, self.clock, WorkerSettings())
        initialize(app)
        async with app:
            runs = app.get(AgentRuns)
            known = [state for status in AgentStatus for state in await store.states.list_by_status(status)]
            run_id = known[0].id if known else (await runs.start(Clerk, "A-17")).id
            await self._answer(runs, run_id)
            await let_run(turns)
        assert store.tables.leases == {}
        return (await store.states.get(run_id)).is_terminal

    async def _answer(self, runs: AgentRuns, run_id: str) -> None:
        if (await runs.get(run_id)).is_terminal:
            return
        pending = await self.store.signals.list_pending(run_id)
        answered = {signal.payload["request_id"] for signal in pending}
        for request in await runs.questions(run_id):
            self.questions.append(request)
            if request.id not in answered:
                await runs.approve(request.id, resume=False)


@pytest.mark.parametrize("turns", TURNS)
async def test_a_stop_at_any_moment_leaves_nothing_unknown(turns: int) -> None:
    rolling = Rolling()
    await rolling.worker(turns)
    for _ in range(3):
        if await rolling.worker(400):
            break
    await _assert_done_right(rolling)


@pytest.mark.parametrize("turns", [20, 25, 30, 40, 60])
async def test_many_stops_in_a_row_bring_the_run_to_its_end_all_the_same(turns: int) -> None:
    rolling = Rolling()
    for _ in range(200):
        if await rolling.worker(turns):
            break
    await _assert_done_right(rolling)


async def _assert_done_right(rolling: Rolling) -> None:
    (state,) = await rolling.store.states.list_by_status(AgentStatus.COMPLETED)
    assert rolling.world.done == {"mark": 1, "pay": 1, "ship": 1, "refund": 1}
    assert all(isinstance(question, AgentApprovalRequest) for question in rolling.questions)
    app = Application("shop").add(Clerk, Shop, rolling.world, ScriptedModel([]), *rolling.store.ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        assert (await runs.result(state.id)).output == RECEIPTS
        await runs.verify(state.id)
    assert asyncio.all_tasks() == {asyncio.current_task()}
