"""Use case 14: a run is cancelled in the middle of what it does, and ends as CANCELLED."""

from __future__ import annotations

import asyncio

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
from pilotage.agent import AgentStateReason
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns


@Pod
class Garden:
    def __init__(self) -> None:
        self.digging, self.was_stopped = asyncio.Event(), False

    @agent_tool(effects=ToolEffects.read_only())
    async def dig(self) -> str:
        """Dig for hours."""
        self.digging.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        return "dug"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Gardener:
    """Look after the garden."""

    def __init__(self, garden: Garden) -> None:
        self.garden = garden


async def test_a_run_in_the_middle_of_a_tool_is_cancelled(ports: tuple[object, ...]) -> None:
    async with Application("park").add(Gardener, Garden, OfflineModel, *ports).load_plugins() as app:
        runs, garden = app.get(AgentRuns), app.get(Garden)
        run = await runs.start(Gardener, "dig")
        await garden.digging.wait()
        assert await runs.cancel(run.id, reason="wrong garden")
        state = (await run.result()).state
        assert (state.status, state.reason) == (
            AgentStatus.CANCELLED,
            AgentStateReason.CANCELLATION_REQUESTED,
        )
        assert garden.was_stopped
        assert not await runs.cancel(run.id)
        await runs.verify(run.id)
