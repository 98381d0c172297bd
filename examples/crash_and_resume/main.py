"""A payment is made, its process is killed with SIGKILL before it can write that down, and nobody pays twice.

This program starts itself a second time as a worker. The worker kills itself in the middle of the payment, the first
time it makes one. This program then takes the run up: it asks the bank by the idempotency key what became of the
payment, and finishes.

Run it: python examples/crash_and_resume/main.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import (
    Agent,
    AgentRuns,
    AgentToolRuntimeContext,
    Application,
    Idempotency,
    LeaseSettings,
    OfflineModel,
    Pod,
    RunHandle,
    ToolApprovalRequirement,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.errors import RunConflictError


class Bank:
    """The outside world: a file that outlives every process and knows each payment by its key."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "payments.txt"

    def pay(self, key: str, amount: int) -> None:
        """Take a payment."""
        with self._file.open("a") as payments:
            payments.write(f"{key} {amount}\n")

    def payments(self) -> dict[str, int]:
        """All payments, by their keys."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        assert len({line.split()[0] for line in lines}) == len(lines), "somebody paid twice"
        return {key: int(amount) for key, amount in (line.split() for line in lines)}


@Pod
class Payments:
    """Pays through the bank, and dies of its first payment."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reconcile="find_payment",
    )
    async def pay(self, amount: int, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay an amount."""
        self.bank.pay(runtime_context.idempotency_key, amount)
        os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {amount}"

    async def find_payment(self, idempotency_key: str) -> str | None:
        """What became of an earlier attempt; None if it never arrived."""
        amount = self.bank.payments().get(idempotency_key)
        return None if amount is None else f"the bank has it: {amount}"


@Agent(durable=True)
class Cashier:
    """Pay what is asked for."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


def process(folder: Path) -> Application:
    """What every process does first. A dead one holds its run until its lease is over: here a second."""
    database = DatabaseSettings(f"sqlite:///{folder}/runs.db")
    pods = (Cashier, Payments, Bank(folder), OfflineModel, database, LeaseSettings(seconds=1))
    return Application("shop").add(*pods).load_plugins()


async def work(folder: Path) -> None:
    """The process that dies."""
    async with process(folder) as app:
        await (await app.get(AgentRuns).start(Cashier, "pay 12")).result()


async def take_up(folder: Path) -> str:
    """The process that goes on; the answer of the run."""
    async with process(folder) as app:
        runs = app.get(AgentRuns)
        (left,) = (await runs.list()).runs
        result = await (await _resumed(runs, left.id)).result()
        print(f"{await runs.verify(left.id)} rows, verified")
        return str(result.output)


async def _resumed(runs: AgentRuns, run_id: str) -> RunHandle:
    while True:
        try:
            return await runs.resume(run_id)
        except RunConflictError:
            await asyncio.sleep(0.1)


def main(folder: Path) -> None:
    """A process, its death, and the one after it."""
    died = subprocess.run([sys.executable, __file__, "work", str(folder)], check=False)  # noqa: S603 - ourselves
    print(f"the first process ended with {signal.Signals(-died.returncode).name}")
    assert list(Bank(folder).payments().values()) == [12]
    answer = asyncio.run(take_up(folder))
    print(answer)
    assert "pay(12) gave the bank has it: 12" in answer
    assert list(Bank(folder).payments().values()) == [12]
    print("demo: ok")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        asyncio.run(work(Path(sys.argv[2])))
    else:
        with TemporaryDirectory() as folder:
            main(Path(folder))
