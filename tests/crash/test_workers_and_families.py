"""Workers may die while a parent has come back for its child, or while a run comes back that somebody had paused."""

from __future__ import annotations

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentToolRuntimeContext,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.runtime import WorkerSettings
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, FaultyJournal, StopAfter, StopBefore
from tests.behaviour.newsdesk import let_run
from tests.crash.shop import World
from tests.crash.test_worker_crashes import MortalLeases, Workers

COMMITS = range(1, 14)
FAULTS = [StopBefore, StopAfter]


@Pod
class Warehouse:
    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def pack(self, order: str, runtime_context: AgentToolRuntimeContext | None = None) -> str:
        """Pack an order; a person must allow it."""
        return self.world.act("pack", runtime_context.idempotency_key if runtime_context else order)


@Agent(spec=AgentExecutionSpec(name="packer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Packer:
    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    async def execute(self, order: str) -> str:
        return await self.warehouse.pack(order)


@Agent(
    spec=AgentExecutionSpec(name="chief", recovery=RecoveryStrategy.ACTION_BOUNDARY, delegation_allowed=True)
)
class Chief:
    def __init__(self, packer: Packer) -> None:
        self.packer = packer

    async def execute(self, order: str) -> str:
        return await self.packer.execute(order)


class Families(Workers):
    """One run of `Chief` with its child. Before its question is answered somebody may pause it, and let it go on."""

    def __init__(self, *, is_paused: bool = False) -> None:
        super().__init__()
        self._is_paused = is_paused
        self._sent: set[AgentSignalKind] = set()

    def _app(self, journal: FaultyJournal) -> Application:
        store, leases = self.store, MortalLeases(self.store, journal)
        app = Application("shop").add(Chief, Packer, Warehouse, self.world, journal, leases)
        app.add(store.states, store.signals, store.evidence, store.wake_ups, store.backlog, store.deliveries)
        app.add(self.ids, self.clock, self.desk, WorkerSettings(concurrency=2))
        initialize(app)
        return app

    async def _work(self, runs: AgentRuns) -> None:
        run_id = await self._known_run()
        if run_id is None:
            await runs.start(Chief, "A-17")
            return
        await let_run(100)
        if (await runs.get(run_id)).is_terminal:
            return
        if self._is_paused and len(self._sent) < 2:
            for kind in (AgentSignalKind.PAUSE, AgentSignalKind.RESUME):
                await runs.signal(run_id, kind, id=kind.value)
                self._sent.add(kind)
        for request in await runs.questions(run_id):
            await self._answer(runs, run_id, request)

    async def _known_run(self) -> str | None:
        known = [state for status in AgentStatus for state in await self.store.states.list_by_status(status)]
        tops = [state.id for state in known if state.agent_type == "chief"]
        assert len(tops) <= 1, "a run was started twice"
        return tops[0] if tops else None


@pytest.mark.parametrize("is_paused", [False, True], ids=["answered", "paused and answered"])
@pytest.mark.parametrize("number", COMMITS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_family_is_brought_to_its_end(fault: type[Fault], number: int, is_paused: bool) -> None:
    families = Families(is_paused=is_paused)
    result = await families.carry_through(fault(number), StopAfter(number % 4 + 1))
    assert result.status is AgentStatus.COMPLETED, result.state
    assert families.world.done == {"pack": 1}
