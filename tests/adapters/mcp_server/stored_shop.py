"""An application over a database that a process of its own serves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pilotage import Agent, Application, Pod, ToolApprovalRequirement, ToolEffects, agent_tool
from pilotage.adapters.mcp_server import exported_tools


@Pod
class Till:
    """The outside world: a file."""

    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int) -> int:
        """Pay an amount."""
        note(amount)
        return amount

    @agent_tool(effects=ToolEffects.read_only())
    async def whoami(self) -> int:
        """Return the process."""
        return os.getpid()


def note(amount: int) -> None:
    """Write a payment down; die before or after it, where a file says so."""
    counter = Path(os.environ["COUNTER"])
    order = counter.with_name("die")
    place = order.read_text() if order.exists() else ""
    order.unlink(missing_ok=True)
    if place == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    with counter.open("a") as paid:
        paid.write(f"{amount}\n")
    if place == "after":
        os.kill(os.getpid(), signal.SIGKILL)


@Agent(durable=True)
class Payer:
    """Pay twice."""

    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, first: int, second: int) -> int:
        return await self.till.pay(first) + await self.till.pay(second)


@Agent(durable=True)
class Noisy:
    """Write to standard output, which belongs to the protocol."""

    async def execute(self) -> str:
        print("not for the client")
        return "quiet"


app = Application("stored shop").add(Till, Payer, Noisy, *exported_tools(Till)).load_plugins()
