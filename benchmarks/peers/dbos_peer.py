"""Pydantic AI with DBOS, durable in an SQLite file, with a fake model."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["DBOS__CLOUD"] = ""

from benchmarks.floor import INSTRUCTIONS
from benchmarks.peers.measuring import tell
from benchmarks.peers.pydantic_ai_peer import UNBOUNDED, ask
from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSAgent
from pydantic_ai.models.function import FunctionModel


@DBOS.step()
async def look_up(page: int) -> str:
    """Look a page up."""
    from benchmarks import floor

    return await floor.look_up(page)


_plain = Agent(FunctionModel(ask), instructions=INSTRUCTIONS, tools=[look_up], name="asking")


def main() -> None:
    """Measure with a file of its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "dbos.sqlite"
        DBOS(config={"name": "benchmark", "system_database_url": f"sqlite:///{file}", "log_level": "ERROR"})
        agent = DBOSAgent(_plain)
        DBOS.launch()

        async def run(turns: int) -> None:
            await agent.run(str(turns), usage_limits=UNBOUNDED)

        tell("dbos", run, kind="durable ")
        DBOS.destroy()


if __name__ == "__main__":
    main()
