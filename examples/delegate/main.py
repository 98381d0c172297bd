"""An editor has facts researched before it prints: agents call agents as components do, and each call is a run.

Run it: python examples/delegate/main.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentRuns,
    AgentTeammate,
    Application,
    OfflineModel,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.agent import (
    AgentDelegateTarget,
    DelegationBudget,
    DelegationPacket,
    DelegationReturnPolicy,
    IAgentDelegate,
)


@Agent(spec=AgentExecutionSpec(name="researcher", objective="Finds facts."))
class Researcher:
    """Find facts."""

    @agent_tool(effects=ToolEffects.read_only())
    async def facts(self, topic: str) -> list[str]:
        """Find facts about a topic."""
        return [f"{topic} float", f"{topic} are old"]

    async def execute(self, task: str) -> list[str]:
        return await self.facts(task)


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY, teammates=[AgentTeammate("researcher", pod=Researcher)]
    )
)
class Editor:
    """Have things researched before you write."""


@Agent(durable=True, spec=AgentExecutionSpec(delegation_allowed=True))
class Publisher:
    """Written by hand: it says in a packet what the child gets, and how much it may spend."""

    def __init__(self, delegate: IAgentDelegate) -> None:
        self.delegate = delegate

    async def execute(self, topic: str) -> str:
        packet = DelegationPacket(
            id="facts",
            parent_agent_state_id=get_run_context().run_id or "",
            target=AgentDelegateTarget("researcher"),
            task={"task": topic},
            budget=DelegationBudget(max_steps=3, timeout_seconds=30),
            allowed_capabilities=("facts",),
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        return f"Printed: {(await self.delegate.delegate_tool_result(packet)).output}"


async def main(folder: Path) -> None:
    """The model decides to delegate; then a program does."""
    database = DatabaseSettings(f"sqlite:///{folder}/runs.db")
    agents = (Researcher, Editor, Publisher)
    async with Application("press").add(*agents, OfflineModel, database).load_plugins() as app:
        runs = app.get(AgentRuns)
        for agent, request in ((Editor, "ask_researcher task=Ships"), (Publisher, "Ships")):
            run = await runs.start(agent, request)
            told = [f"{event.attribution.agent_id} {event.kind.value}" async for event in run.events()]
            output = str((await run.result()).output)
            print(f"{agent.__name__}: {output}")
            assert "Ships float" in output
            assert "researcher run_finished" in told
        children = [each for each in (await runs.list()).runs if each.metadata.get("parent")]
        assert len(children) == 2
    print("demo: ok")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
