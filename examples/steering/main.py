"""A run is told something new while it works, is paused, goes on, and another one is cancelled.

Run it: python examples/steering/main.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentRuns,
    AgentSignalKind,
    AgentStatus,
    Application,
    OfflineModel,
    Pod,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings


@Pod
class Garden:
    """A garden in which things take their time."""

    def __init__(self) -> None:
        self.digging, self.evening = asyncio.Event(), asyncio.Event()

    @agent_tool(effects=ToolEffects.read_only())
    async def dig(self, where: str) -> str:
        """Dig somewhere until the evening."""
        self.digging.set()
        await self.evening.wait()
        return f"dug {where}"

    @agent_tool(effects=ToolEffects.read_only())
    async def water(self, what: str) -> str:
        """Water something."""
        return f"watered {what}"

    def another_day(self) -> None:
        """Everything begins anew."""
        self.digging, self.evening = asyncio.Event(), asyncio.Event()


@Agent(spec=AgentExecutionSpec(accepted_signals=[AgentSignalKind.USER_MESSAGE]))
class Gardener:
    """Look after the garden."""

    def __init__(self, garden: Garden) -> None:
        self.garden = garden


async def steered(runs: AgentRuns, garden: Garden) -> str:
    """A message reaches the run at its next model call. Sent twice with one id, it is taken in once."""
    run = await runs.start(Gardener, "dig the roses")
    await garden.digging.wait()
    for _ in range(2):
        await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "water the tulips"}, id="msg-1")
    garden.evening.set()
    return str((await run.result()).output)


async def paused(runs: AgentRuns, garden: Garden) -> str:
    """A pause takes effect when the current action has ended, and leaves nothing in memory."""
    run = await runs.start(Gardener, "dig the roses")
    await garden.digging.wait()
    await runs.signal(run.id, AgentSignalKind.PAUSE)
    garden.evening.set()
    assert (await run.result()).state.status is AgentStatus.INTERRUPTED
    return str((await (await runs.resume(run.id)).result()).output)


async def cancelled(runs: AgentRuns, garden: Garden) -> AgentStatus:
    """Cancelling stops what is under way; when it returns, the run is over."""
    run = await runs.start(Gardener, "dig the roses")
    await garden.digging.wait()
    await runs.cancel(run.id, reason="wrong garden")
    return (await run.result()).state.status


async def main(folder: Path) -> None:
    """Three days in the garden."""
    database = DatabaseSettings(f"sqlite:///{folder}/runs.db")
    async with Application("park").add(Gardener, Garden, OfflineModel, database).load_plugins() as app:
        runs, garden = app.get(AgentRuns), app.get(Garden)
        answer = await steered(runs, garden)
        print(f"steered: {answer}")
        assert "watered the tulips" in answer or "watered tulips" in answer
        garden.another_day()
        answer = await paused(runs, garden)
        print(f"paused, and resumed: {answer}")
        assert "dug" in answer
        garden.another_day()
        status = await cancelled(runs, garden)
        print(f"cancelled: the run is {status.value}")
        assert status is AgentStatus.CANCELLED
    print("demo: ok")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
