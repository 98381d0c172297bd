"""A real process that is killed in the middle of its second step: `python -m tests.acceptance.dying SAFE|UNSAFE`.

What the steps do is written into a file, which is the outside world. The second one kills its own process the first
time, after it has done what it does and before anybody could write that down.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns, LeaseSettings

LEDGER = Path("ledger.txt")
FREE = ToolApprovalRequirement.NOT_REQUIRED
WRITES = ToolEffects.write_state()


def write(line: str) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{line}\n")
    return line


def die_the_first_time() -> None:
    if LEDGER.read_text().count("post") == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@Pod
class Desk:
    @agent_tool(effects=WRITES, idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE)
    async def book(self) -> str:
        """Book it."""
        return write("booked")

    @agent_tool(effects=WRITES, idempotency=Idempotency.IDEMPOTENT, approval=FREE)
    async def post_safely(self) -> str:
        """Post it; twice does no harm."""
        written = write("posted safely")
        die_the_first_time()
        return written

    @agent_tool(effects=WRITES, idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE)
    async def post_once(self) -> str:
        """Post it; never twice."""
        written = write("posted once")
        die_the_first_time()
        return written


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Book and post."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


def process() -> Application:
    return Application("office").add(Clerk, Desk, OfflineModel, LeaseSettings(seconds=0.5)).load_plugins()


async def main(command: str) -> None:
    async with process() as app:
        await (await app.get(AgentRuns).start(Clerk, command)).result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
