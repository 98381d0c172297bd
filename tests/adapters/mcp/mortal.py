"""A process that a test kills: it drives one run over an SQLite file, whose call hangs at the server.

`python -m tests.adapters.mcp.mortal FOLDER KIND PORT TOOL`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pilotage import AgentRuns, Application
from pilotage.adapters.mcp import McpServer
from tests.adapters.mcp.bank import Bank, Teller, script


def process(bank: Bank, tool: str) -> Application:
    """Return the application of one process; `PILOTAGE_DATABASE_URL` names the database."""
    return Application("bank").add(Teller, McpServer(bank.settings()), script(tool)).load_plugins()


async def main(bank: Bank, tool: str) -> None:
    """Drive the run until the process is killed."""
    async with process(bank, tool) as app:
        run = await app.get(AgentRuns).start(Teller, "go")
        sys.stdout.write(f"{run.id}\n")
        sys.stdout.flush()
        await run.result()
        await asyncio.Event().wait()


if __name__ == "__main__":
    folder, kind, port, name = sys.argv[1:]
    used = Bank(Path(folder), kind)
    used.port = int(port)
    asyncio.run(main(used, name))
