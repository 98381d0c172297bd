"""An application over a database that a process of its own serves."""

from __future__ import annotations

import os
from pathlib import Path

from pilotage import Agent, Application, Pod, ToolApprovalRequirement, agent_tool
from pilotage.adapters.mcp_server import exported_tools


@Pod
class Till:
    """The outside world: a file."""

    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int) -> int:
        """Pay an amount."""
        self._note(amount)
        return amount

    @staticmethod
    def _note(amount: int) -> None:
        with Path(os.environ["COUNTER"]).open("a") as paid:
            paid.write(f"{amount}\n")


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
