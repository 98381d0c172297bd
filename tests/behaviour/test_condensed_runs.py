"""A context that grows too large is condensed in the run, through the gate, once, and the same in replay."""

from __future__ import annotations

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import (
    AgentEvidenceKind,
    AgentStatus,
    HookVerdict,
    IAgentHooks,
    ModelRequest,
    Proceed,
    RunContext,
    Veto,
)
from pilotage.agent.context import ContextTokenBudget
from pilotage.context import SummariseOldTurns
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

BUDGET = ContextTokenBudget(max_tokens=700, reserved_output_tokens=100)


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=BUDGET,
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


class Watchful(IAgentHooks):
    """Sees every request, and may refuse those for a summary."""

    def __init__(self, *, refuses: bool) -> None:
        self.summaries = 0
        self._refuses = refuses

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        is_summary = request.tool_calling is None
        self.summaries += is_summary
        return Veto("no summaries") if is_summary and self._refuses else Proceed()


async def read(hook: Watchful, model: ScriptedModel) -> tuple[MemoryStore, str, str]:
    store = MemoryStore()
    app = Application("library").add(Reader, model, hook, *store.ports)
    initialize(app)
    async with app:
        handle = await app.get(AgentRuns).start(Reader, "read three pages")
        result = await handle.result()
    return store, result.state.id, result.status


async def kinds(store: MemoryStore, run_id: str) -> list[AgentEvidenceKind]:
    return [each.kind for each in await store.evidence.list_by_state(run_id)]


async def test_what_is_too_much_is_summarised_behind_the_gate_and_put_on_record() -> None:
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says("Pages 1 and 2 are full of words."), says("Read.")])
    hook = Watchful(refuses=False)
    store, run_id, status = await read(hook, model)
    assert status is AgentStatus.COMPLETED
    assert hook.summaries == 1
    assert AgentEvidenceKind.CONTEXT_DIGEST in await kinds(store, run_id)
    model.assert_complete()


async def test_a_summary_that_a_hook_refuses_is_not_made_and_the_run_goes_on() -> None:
    model = ScriptedModel([*(calls("page", number=number) for number in (1, 2, 3)), says("Read.")])
    hook = Watchful(refuses=True)
    store, run_id, status = await read(hook, model)
    assert status is AgentStatus.COMPLETED
    assert hook.summaries == 1
    assert AgentEvidenceKind.CONTEXT_DIGEST not in await kinds(store, run_id)
    model.assert_complete()
