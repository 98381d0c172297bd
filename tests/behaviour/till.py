"""An application for the command line: durable and fleeting agents, tools that ask, hang and break, in a file of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from pilotage.cli.main import main

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


@Agent(spec=AgentExecutionSpec(name="cashier"))
class Cashier:
    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, to: str) -> str:
        return await self.payments.pay(to, 5)


@Agent(spec=AgentExecutionSpec(name="boss", recovery=DURABLE))
class Boss:
    def __init__(self, cashier: Cashier) -> None:
        self.cashier = cashier

    async def execute(self, text: str) -> str:
        return ", ".join(await asyncio.gather(*(self.cashier.execute(each) for each in text.split())))


app = Application("till").add(Desk, Clerk, Packer, Parrot, Cashier, Boss, Payments, OfflineModel()).load_plugins()
'''

_ID = re.compile(r"\b[0-9a-f]{32}\b")
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\b\d\d:\d\d:\d\d\b|\b[\d.]+ (ms|s|min)\b( ago)?|just now"
)


@dataclass(frozen=True)
class Called:
    """What became of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value that was said."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON values that were said, one a line."""
        return [json.loads(each) for each in self.out.splitlines()]


class Till:
    """A folder with the application in it, and commands that are called there, each like a process of its own."""

    def __init__(self, folder: Path, template: Path | None = None) -> None:
        """Make the application; `template` is a folder with a database whose tables are empty, to begin with it."""
        self.folder = folder
        (folder / "till.py").write_text(SOURCE)
        if template is not None:
            shutil.copytree(template, folder / ".pilotage")

    def call(self, *words: str, given: str = "", environ: Mapping[str, str] | None = None) -> Called:
        """Call `pilotage` with pipes around it."""
        around = {"PILOTAGE_APP": "till:app", "PILOTAGE_AS": "ada", **(environ or {})}
        out, err = StringIO(), StringIO()
        with ExitStack() as stack:
            stack.enter_context(chdir(self.folder))
            stack.enter_context(mock.patch.dict(os.environ, around))
            stack.callback(self._forget_modules)
            stack.enter_context(mock.patch.object(sys, "path", [str(self.folder), *sys.path]))
            stack.enter_context(mock.patch.object(sys, "stdin", StringIO(given)))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            code = main(words)
        return Called(code, out.getvalue(), err.getvalue())

    def _forget_modules(self) -> None:
        """An application starts once: the next command finds a new one."""
        own = [name for name, each in sys.modules.items() if self._is_own(getattr(each, "__file__", None))]
        for name in own:
            del sys.modules[name]

    def _is_own(self, file: str | None) -> bool:
        return file is not None and Path(file).is_relative_to(self.folder)

    def waiting_run(self, text: str = "pay to DE-0815-4711 amount 5") -> str:
        """The id of a run that waits for an answer."""
        called = self.call("run", "Desk", text)
        assert called.code == 3, called.err
        found = _ID.search(called.err)
        assert found
        return found[0]

    @property
    def ledger(self) -> list[str]:
        """What was paid."""
        file = self.folder / "ledger"
        return file.read_text().splitlines() if file.exists() else []


def steady(text: str, **ids: str) -> str:
    """The text without what is different every time: ids by the names they are given, times as dots."""
    for name, each in ids.items():
        text = text.replace(each, name).replace(each[:12], name)
    return re.sub(r"[ ]+(?=\n)", "", _TIMES.sub("...", text))
