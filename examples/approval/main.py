"""A refund desk asks a person before it pays: yes, less than that, or no.

Every question outlives the process that asked it: the run is in a database, and whoever answers does so from another
process. The store is an SQLite file in a folder that goes away with this program.

Run it: python examples/approval/main.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import Agent, AgentRuns, Application, Idempotency, OfflineModel, Pod, ToolEffects, agent_tool
from pilotage.adapters.sqlalchemy import DatabaseSettings


class Bank:
    """The outside world."""

    def __init__(self) -> None:
        self.paid: list[Decimal] = []


@Pod
class Payments:
    """Pays through the bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def pay(self, amount: Decimal) -> str:
        """Pay an amount back."""
        self.bank.paid.append(amount)
        return f"paid {amount}"


@Agent(durable=True)
class RefundDesk:
    """Refund what the customer is owed."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


class Office:
    """What is there before the first process and after the last one: a folder and a bank."""

    def __init__(self, folder: Path) -> None:
        self.bank = Bank()
        self._database = DatabaseSettings(f"sqlite:///{folder}/runs.db")

    def process(self) -> Application:
        """A process: everything else is made anew."""
        app = Application("shop").add(RefundDesk, Payments, self.bank, OfflineModel, self._database)
        return app.load_plugins()

    async def ask(self, request: str) -> str:
        """A process that starts a run, and ends when the run waits for a person."""
        async with self.process() as app:
            run = await app.get(AgentRuns).start(RefundDesk, request)
            await run.result()
            return run.id

    async def answer(self, run_id: str, decide: Callable[[AgentRuns, str], Awaitable[None]]) -> str:
        """Another process, in which the person answers; how the run ends."""
        async with self.process() as app:
            runs = app.get(AgentRuns)
            (question,) = await runs.questions(run_id)
            print(f"{question.prompt} {dict(question.arguments)}")
            await decide(runs, question.id)
            state = (await (await runs.resume(run_id)).result()).state
            print(f"    the run is {state.status.value}, paid so far: {list(map(str, self.bank.paid))}")
            return state.status.value


async def main(folder: Path) -> None:
    """Three requests, three answers."""
    office = Office(folder)
    first, second, third = [await office.ask(f"pay amount={amount}") for amount in ("12.50", "99", "1000")]
    assert office.bank.paid == []
    assert await office.answer(first, lambda runs, it: runs.approve(it)) == "completed"
    assert await office.answer(second, lambda runs, it: runs.modify(it, {"amount": "50"})) == "completed"
    assert await office.answer(third, lambda runs, it: runs.reject(it, comment="too much")) == "failed"
    assert office.bank.paid == [Decimal("12.50"), Decimal(50)]
    print("demo: ok")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
