"""A process that a test kills: it drives one run over an SQLite file, and says when a tool has begun.

`python -m tests.crash.mortal FOLDER TOOL`: the tool notes that it began and waits for the end of the process.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pilotage import Agent, AgentExecutionSpec, Application, Pod, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement
from pilotage.container.application import Application as Started
from pilotage.runtime import AgentRuns, LeaseSettings, WorkerSettings
from pilotage.testing import ScriptedModel, calls, says

FREE = ToolApprovalRequirement.NOT_REQUIRED


@Pod
class Ledger:
    """Notes what was begun and done in a file, and waits between the two while it is told to."""

    def __init__(self, folder: Path, *, waits: bool) -> None:
        self.path = folder / "ledger"
        self.waits = waits
        self.reached = asyncio.Event()

    async def _do(self, words: str) -> str:
        with self.path.open("a") as ledger:
            ledger.write(f"{words}\n")
        self.reached.set()
        if self.waits:
            await asyncio.Event().wait()
        return "done"

    @agent_tool(effects=ToolEffects.read_only(), approval=FREE)
    async def look(self) -> str:
        """Look something up."""
        return await self._do("look")

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=FREE)
    async def pay(self) -> str:
        """Pay."""
        return await self._do("pay")


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    """Pays."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


def process(folder: Path, tool: str, *, waits: bool, works: bool = False) -> Started:
    """Return the application of one process."""
    model = ScriptedModel([calls(tool), says("Done.")])
    app = Application("ledger").add(Payer, Ledger(folder, waits=waits), model)
    return app.add(WorkerSettings(poll_seconds=0.1)) if works else app


async def main(folder: Path, tool: str) -> None:
    """Drive the run until the process is killed, under a lease that no test outlives."""
    app = process(folder, tool, waits=True).add(LeaseSettings(seconds=3600))
    async with app.load_plugins():
        run = await app.get(AgentRuns).start(Payer, "Go", id="the-run")
        await app.get(Ledger).reached.wait()
        sys.stdout.write(f"{run.id}\n")
        sys.stdout.flush()
        await run.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
