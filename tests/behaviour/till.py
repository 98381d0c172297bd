"""An application for the command line: durable and fleeting agents, tools that ask, hang and break, in a file of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = '''
import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pilotage import (
    Agent, AgentExecutionSpec, AgentYield, Application, Final, Idempotency, Pod, Progress, RecoveryStrategy, Token,
    ToolEffects, agent_tool,
)
from pilotage.agent import MaskingPolicy, PII, SensitiveField, ToolApprovalRequirement
from pilotage.models import OfflineModel

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Pod
class Payments:
    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, of: str) -> int:
        """The balance of an account."""
        return 7

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def pay(
        self, to: Annotated[str, SensitiveField(PII.ACCOUNT_ID, masking=MaskingPolicy.LAST_FOUR)], amount: int
    ) -> str:
        """Pay an amount to an account."""
        with Path("ledger").open("a") as ledger:
            ledger.write(f"{to} {amount}\\n")
        return f"paid {amount}"

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def wire(self, amount: int) -> str:
        """Wire an amount."""
        raise RuntimeError("the line went dead")

    @agent_tool(effects=ToolEffects.read_only())
    async def wait(self) -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"


@Agent(spec=AgentExecutionSpec(name="desk", recovery=DURABLE))
class Desk:
    """Help people with money."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


@Agent(spec=AgentExecutionSpec(name="clerk"))
class Clerk:
    """Answer at once, and keep nothing."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


@dataclass(frozen=True)
class Order:
    number: str
    pieces: int


@Agent(spec=AgentExecutionSpec(name="packer"))
class Packer:
    async def execute(self, order: Order) -> AsyncGenerator[AgentYield[Any], None]:
        yield Progress("Packing")
        yield Final({"order": order.number, "boxes": order.pieces // 2})


@Agent(spec=AgentExecutionSpec(name="parrot"))
class Parrot:
    async def execute(self, text: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Token(text)
        yield Final(text)


app = Application("till").add(Desk, Clerk, Packer, Parrot, Payments, OfflineModel()).load_plugins()
'''

_ID = re.compile(r"\b[0-9a-f]{32}\b")


class Till:
    """A folder with the application in it, and commands that are called there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "till.py").write_text(SOURCE)

    def call(
        self, *words: str, given: str | None = None, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call `pilotage` with pipes around it."""
        return subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "pilotage.cli.main", *words],
            cwd=self.folder,
            env={**os.environ, "PILOTAGE_APP": "till:app", "PILOTAGE_AS": "ada", **(environ or {})},
            input=given or "",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def waiting_run(self, text: str = "pay to DE-0815-4711 amount 5") -> str:
        """The id of a run that waits for an answer."""
        done = self.call("run", "Desk", text)
        assert done.returncode == 3, done.stderr
        found = _ID.search(done.stderr)
        assert found
        return found[0]

    @property
    def ledger(self) -> list[str]:
        """What was paid."""
        file = self.folder / "ledger"
        return file.read_text().splitlines() if file.exists() else []
