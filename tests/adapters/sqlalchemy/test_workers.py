"""Two processes over one database: one starts a run and asks, the other takes it up when somebody has answered."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.agent.facts import AgentRunCompleted
from pilotage.agent.handlers import on_event
from pilotage.runtime import AgentRuns
from pilotage.runtime.delivery.worker import WorkerSettings


@Pod
class Payments:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def refund(self, amount: Decimal) -> str:
        """Give money back."""
        return f"refunded {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Refunds:
    def __init__(self, payments: Payments) -> None:
        self.payments = payments

    async def execute(self, amount: Decimal) -> str:
        return await self.payments.refund(amount)


@Pod
class Desk:
    """Wants to hear of runs that are done."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[AgentRunCompleted] = asyncio.Queue()

    @on_event(AgentRunCompleted)
    async def done(self, fact: AgentRunCompleted) -> None:
        await self.heard.put(fact)


async def test_a_worker_takes_up_what_was_approved_elsewhere_and_its_facts_are_delivered(
    database_settings: DatabaseSettings,
) -> None:
    front = Application("front").add(Refunds, Payments, database_settings).load_plugins()
    back = (
        Application("back")
        .add(Refunds, Payments, Desk, WorkerSettings(poll_seconds=0.05), database_settings)
        .load_plugins()
    )
    async with front, back:
        runs = front.get(AgentRuns)
        run = await runs.start(Refunds, Decimal("12.50"))
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        (request,) = await runs.questions(run.id)
        await runs.approve(request.id)
        fact = await asyncio.wait_for(back.get(Desk).heard.get(), 120)
        assert fact.run_id == run.id
        assert (await runs.result(run.id)).output == "refunded 12.50"
        await runs.verify(run.id)
