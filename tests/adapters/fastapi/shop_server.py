"""A server in a process of its own, which a test starts: an agent that pays slowly, over an SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    Pod,
    Progress,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.fastapi import HttpSettings, serve
from pilotage.agent import ToolApprovalRequirement

LEDGER, MAY_END = Path("ledger"), Path("may-end")


def _note(words: str) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{words} ")


def _may_end() -> bool:
    return MAY_END.exists()


@Pod
class Payments:
    """Pays as slowly as a test wants."""

    @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.NOT_REQUIRED)
    async def pay(self, amount: int) -> str:
        """Pay an amount; it ends when it may, and whoever interrupts it does not know what became of it."""
        _note("begun")
        while not _may_end():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.05)
        _note(f"paid {amount}")
        return "paid"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    """Pays."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, amount: int) -> AsyncGenerator[AgentYield[str], None]:
        """Pay twice."""
        yield Progress("paying")
        await self.payments.pay(amount)
        yield Final(await self.payments.pay(amount + 1))


def main() -> None:
    """Serve on a free port, which the log names."""
    app = Application("shop").add(Payer, Payments).load_plugins()
    serve(app, port=0, settings=HttpSettings(shutdown_seconds=120))


if __name__ == "__main__":
    main()
