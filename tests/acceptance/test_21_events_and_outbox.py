"""Use case 21: what runs do is told as facts, from the outbox of the same transaction, to subscribers and brokers."""

from __future__ import annotations

import asyncio

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
from pilotage.agent import (
    AgentActionCompleted,
    AgentFact,
    AgentRunCompleted,
    IAgentEventPublisher,
    ToolApprovalRequirement,
    on_event,
)
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Book things."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def book(self, what: str) -> str:
        """Book something."""
        return f"booked {what}"


@Pod
class Office:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_done = asyncio.Event()

    @on_event(AgentActionCompleted)
    async def count(self, fact: AgentActionCompleted) -> None:
        self.heard.append(f"{fact.action} is {fact.outcome}")

    @on_event(AgentRunCompleted)
    async def close(self, fact: AgentRunCompleted) -> None:
        self.heard.append(f"{fact.agent} is done")
        self.is_done.set()


@Pod
class Broker(IAgentEventPublisher):
    def __init__(self) -> None:
        self.published: list[AgentFact] = []
        self.is_done = asyncio.Event()

    async def publish(self, fact: AgentFact) -> None:
        self.published.append(fact)
        if isinstance(fact, AgentRunCompleted):
            self.is_done.set()


async def test_subscribers_and_brokers_hear_of_every_step_in_order(ports: tuple[object, ...]) -> None:
    async with Application("office").add(Clerk, Office, Broker, OfflineModel, *ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Clerk, "book a room")
        office, broker = app.get(Office), app.get(Broker)
        async with asyncio.timeout(120):
            await office.is_done.wait()
            await broker.is_done.wait()
    assert office.heard == ["book is done", "Clerk is done"]
    names = [type(fact).__name__ for fact in broker.published]
    assert names == ["AgentRunStarted", "AgentActionCompleted", "AgentRunCompleted"]
    assert {fact.run_id for fact in broker.published} == {run.id}


async def test_what_nobody_heard_of_is_told_by_the_next_process(ports: tuple[object, ...]) -> None:
    async with Application("office").add(Clerk, OfflineModel, *ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Clerk, "book a room")
        await run.result()
    async with Application("office").add(Clerk, Office, OfflineModel, *ports).load_plugins() as app:
        async with asyncio.timeout(120):
            await app.get(Office).is_done.wait()
        assert app.get(Office).heard == ["book is done", "Clerk is done"]
