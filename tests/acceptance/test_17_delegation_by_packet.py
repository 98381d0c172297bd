"""Use case 17: a bounded task goes to another agent in a packet; its result comes back, and both are on record."""

from __future__ import annotations

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.agent import (
    AgentDelegateTarget,
    AgentEvidenceKind,
    DelegationBudget,
    DelegationPacket,
    DelegationReturnPolicy,
    IAgentDelegate,
)
from pilotage.errors import ToolError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns


@Agent
class Librarian:
    """Find books."""

    async def execute(self, title: str) -> str:
        found = await self.find(title)
        try:
            return f"{found}, lent to {await self.borrowers(title)}"
        except ToolError as error:
            return f"{found} ({error})"

    @agent_tool(effects=ToolEffects.read_only())
    async def find(self, title: str) -> str:
        """Find a book."""
        return f"{title}: shelf 3"

    @agent_tool(effects=ToolEffects.read_only())
    async def borrowers(self, title: str) -> str:
        """Who has a book."""
        return "Ada"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, delegation_allowed=True))
class Reader:
    def __init__(self, delegate: IAgentDelegate) -> None:
        self.delegate = delegate

    async def execute(self, title: str) -> str:
        packet = DelegationPacket(
            id="find-the-book",
            parent_agent_state_id=get_run_context().run_id or "",
            target=AgentDelegateTarget("Librarian"),
            task={"title": title},
            budget=DelegationBudget(max_steps=5, timeout_seconds=30),
            allowed_capabilities=("find",),
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        return str((await self.delegate.delegate_tool_result(packet)).output)


async def test_the_packet_says_what_the_child_may_do_and_the_parent_has_the_evidence(
    ports: tuple[object, ...],
) -> None:
    async with Application("library").add(Librarian, Reader, OfflineModel, *ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Reader, "Emma")
        told = [event.attribution async for event in run.events()]
        output = (await run.result()).output
        assert output.startswith("Emma: shelf 3 (")
        assert "was not given the tool 'borrowers'" in output
        child, parent = (await runs.list()).runs
        assert (child.metadata["parent"], child.status) == (parent.id, AgentStatus.COMPLETED)
        assert {each.agent_id for each in told} == {"Reader", "Librarian"}
        assert {each.parent_run_id for each in told if each.agent_id == "Librarian"} == {parent.id}
        kinds = [each.kind for each in await runs.evidence(parent.id)]
        assert AgentEvidenceKind.DELEGATION in kinds
        await runs.verify(parent.id)
        await runs.verify(child.id)
