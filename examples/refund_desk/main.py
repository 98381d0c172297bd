"""A refund desk that asks a person, is killed at the worst moment, and pays once.

Three processes share a store and a bank. The first one pauses for an approval. The second one is killed when the
journal says that the payment began. The third one finds out by the idempotency key what became of it, and finishes.

Run it: python examples/refund_desk/main.py
"""

from __future__ import annotations

import asyncio
from decimal import Decimal

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    RunPausedEvent,
    RunResult,
    ToolCallStartEvent,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import IAgentJournal
from pilotage.runtime import AgentRuns, RunHandle
from pilotage.testing import (
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    calls,
    says,
)


class Bank:
    """The outside world: it outlives every process and knows each payment by its key."""

    def __init__(self) -> None:
        self.payments: dict[str, Decimal] = {}


@Pod
class Payments:
    """Pays through the bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reconcile="find_payment",
    )
    async def pay(self, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay an amount back."""
        self.bank.payments[runtime_context.idempotency_key] = amount
        return f"paid {amount}"

    async def find_payment(self, idempotency_key: str) -> str | None:
        """What became of an earlier attempt; None if it never arrived."""
        amount = self.bank.payments.get(idempotency_key)
        return None if amount is None else f"paid {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class RefundDesk:
    """Refund what the customer is owed, and say so in one sentence."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


class Office:
    """What is there before the first process and after the last one."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.bank = Bank()
        self.model = ScriptedModel([calls("pay", amount="12.50"), says("You get 12.50 back.")])

    def process(self, journal: IAgentJournal) -> Application:
        """A process: everything is made anew, but for the store and the bank."""
        _, *ports = self.store.ports
        self.model = self.model.restarted()
        app = Application("shop").add(RefundDesk, Payments, self.bank, self.model, journal, *ports)
        return app.load_plugins()


async def show(run: RunHandle) -> RunResult:
    """Print what the run does; how it stands in the end."""
    async for event in run.events():
        match event:
            case ToolCallStartEvent(tool_name=name):
                print(f"    calls {name}")
            case RunPausedEvent(prompt=prompt):
                print(f"    waits: {prompt}")
            case _:
                pass
    return await run.result()


async def first_process(office: Office) -> str:
    """Start the run; it pauses."""
    print("process 1 starts the run")
    async with office.process(office.store.journal) as app:
        run = await app.get(AgentRuns).start(RefundDesk, "Order A-17 arrived broken: 12.50 back, please.")
        await show(run)
        return run.id


async def second_process(office: Office, run_id: str) -> None:
    """Approve and resume, and be killed behind the commit that says that the payment begins."""
    print("process 2 approves it, and is killed")
    async with office.process(FaultyJournal(office.store.journal, StopAfter(2))) as app:
        runs = app.get(AgentRuns)
        (request,) = await runs.approvals(run_id)
        await runs.approve(request.id, comment="ok")
        await show(await runs.resume(run_id))


async def third_process(office: Office, run_id: str) -> str:
    """Resume; what the tool finds out decides whether it pays."""
    print("process 3 resumes it")
    async with office.process(office.store.journal) as app:
        runs = app.get(AgentRuns)
        result = await show(await runs.resume(run_id))
        print(f"    {await runs.verify(run_id)} rows, verified")
        return str(result.output)


def main() -> None:
    """Three processes, one payment."""
    office = Office()
    run_id = asyncio.run(first_process(office))
    try:
        asyncio.run(second_process(office, run_id))
    except ProcessStopped as death:
        print(f"    {death}")
    answer = asyncio.run(third_process(office, run_id))
    print(f"    {answer}")
    assert answer == "You get 12.50 back."
    assert list(office.bank.payments.values()) == [Decimal("12.50")]
    print("demo: ok")


if __name__ == "__main__":
    main()
