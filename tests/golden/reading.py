"""What can be read of a run, as JSON: it is written into the manifest, and compared with what a later version reads."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage.agent import AgentState, JsonValue
from pilotage.errors import RunErasedError
from pilotage.runtime import AgentRuns
from tests.golden.cases import ADA

Read = dict[str, JsonValue]


async def all_runs(runs: AgentRuns) -> AsyncIterator[AgentState]:
    """Every run of the tenant, children too."""
    after: str | None = None
    while True:
        page = await runs.list(after=after, principal=ADA)
        for state in page.runs:
            yield state
        if (after := page.cursor) is None:
            return


async def read(runs: AgentRuns, run_id: str) -> Read:
    """How a run stands: its state, rows (checked), questions, events, evidence, prompts and result."""
    state = await runs.get(run_id)
    found: Read = {
        "agent": state.agent_type,
        "status": state.status.value,
        "transition": state.transition.value,
        "reason": state.reason.value if state.reason else None,
        "pending_signals": state.pending_signal_count,
        "rows": await runs.verify(run_id),
        "questions": [str(question.id) for question in await runs.questions(run_id)],
        "evidence": [each.kind.value for each in await runs.evidence(run_id)],
    }
    try:
        events: list[JsonValue] = [event.kind.value async for event in runs.events(run_id, follow=False)]
        prompts = len(await runs.prompts(run_id))
        return {**found, "events": events, "prompts": prompts, **await outcome(runs, run_id)}
    except RunErasedError:
        return {**found, "erased": True}


async def outcome(runs: AgentRuns, run_id: str) -> Read:
    """What came of a run."""
    try:
        result = await runs.result(run_id)
    except RunErasedError:
        return {"erased": True}
    error = result.error["code"] if result.error else None
    return {"status": result.status.value, "output": result.output, "error": error}  # type: ignore[dict-item]
