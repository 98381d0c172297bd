"""Several questions at once: answered one by one or together, in any order, with restarts in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import permutations

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import RejectionPolicy
from pilotage.errors import ToolError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

NAMES = ("a", "b", "c")


class World:
    def __init__(self) -> None:
        self.wiped: Counter[str] = Counter()


@Pod
class Disk:
    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.destructive_action())
    async def wipe(self, name: str) -> str:
        """Wipe a disk; somebody has to allow it."""
        self.world.wiped[name] += 1
        return name


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY, on_rejection=RejectionPolicy.TELL_MODEL
    )
)
class Cleaner:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    async def execute(self) -> list[str]:
        return list(await asyncio.gather(*(self._clean(name) for name in NAMES)))

    async def _clean(self, name: str) -> str:
        try:
            return await self.disk.wipe(name)
        except ToolError:
            return "kept"


def process(store: MemoryStore, world: World) -> Application:
    app = Application("disks").add(Cleaner, Disk, world, *store.ports)
    initialize(app)
    return app


@pytest.mark.parametrize("order", list(permutations(NAMES)))
@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("rejected", ["", "b"])
async def test_each_approved_tool_runs_once_and_nothing_is_asked_twice(
    order: tuple[str, ...], together: int, rejected: str
) -> None:
    store, world = MemoryStore(), World()
    async with process(store, world) as app:
        run = await app.get(AgentRuns).start(Cleaner)
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        asked = {str(r.arguments["name"]): r.id for r in await app.get(AgentRuns).questions(run.id)}
    assert set(asked) == set(NAMES)
    waiting = list(order)
    while waiting:
        now, waiting = waiting[:together], waiting[together:]
        async with process(store, world) as app:
            runs = app.get(AgentRuns)
            for name in now:
                await (runs.reject if name == rejected else runs.approve)(asked[name])
            result = await (await runs.resume(run.id)).result()
            left = {str(r.arguments["name"]): r.id for r in await runs.questions(run.id)}
            assert left == {name: asked[name] for name in waiting}
    assert result.status is AgentStatus.COMPLETED
    assert result.output == ["kept" if name == rejected else name for name in NAMES]
    assert world.wiped == {name: 1 for name in NAMES if name != rejected}
