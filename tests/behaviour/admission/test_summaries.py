"""Summaries of a context are requests to the model: how many of them a person could be asked about."""

from __future__ import annotations

from collections import Counter

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    RecoveryStrategy,
    RunContext,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    ApprovalSubject,
    ContextTokenBudget,
    HookVerdict,
    IAgentApprovalHandler,
    IAgentHooks,
    ModelRequest,
    Proceed,
    RunKey,
    Veto,
)
from pilotage.context import SummariseOldTurns
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

REQUESTS = 5


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


class NoSummaries(IAgentHooks):
    """Lets every request pass but the one for a summary, which offers no tools."""

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return Proceed() if request.tool_calling else Veto("no summaries")


class Boundaries(IAgentApprovalHandler):
    """Counts what it is asked about, and lets everything go on."""

    def __init__(self) -> None:
        self.seen: Counter[AgentApprovalBoundaryKind] = Counter()

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        self.seen[subject.boundary] += 1
        return None


async def test_the_approval_handler_is_asked_about_every_request() -> None:
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says("Pages 1 and 2 are full of words."), says("Read.")])
    handler = Boundaries()
    app = Application("library").add(Reader, model, handler, *MemoryStore().ports).load_plugins(["runtime"])
    async with app:
        result = await (await app.get(AgentRuns).start(Reader, "read three pages")).result()
    assert (result.status, len(model.requests)) == (AgentStatus.COMPLETED, 5)
    assert handler.seen[AgentApprovalBoundaryKind.MODEL_CALL] == REQUESTS
    assert handler.seen[AgentApprovalBoundaryKind.CONTEXT_TRANSFORMATION] == 1


async def test_the_record_of_a_context_says_nothing_spent_for_a_summary_that_was_refused() -> None:
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model, store = ScriptedModel([*pages, says("Read.")]), MemoryStore()
    app = Application("library").add(Reader, model, NoSummaries(), *store.ports).load_plugins(["runtime"])
    async with app:
        result = await (await app.get(AgentRuns).start(Reader, "read three pages")).result()
    assert (result.status, result.spent.steps) == (AgentStatus.COMPLETED, 4)
    rows = [row async for row in store.journal.read(RunKey("default", result.state.id))]
    records = [row.record for row in rows if row.action_id.endswith("/condensed")]
    assert records == [{"steps": []}]
