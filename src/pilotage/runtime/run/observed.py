"""Attempts that hooks and telemetry observe: a span around the run, and the hooks after its end."""

from __future__ import annotations

from collections.abc import Awaitable

from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.start_record import trace_position


async def observed(run: Run, driving: Awaitable[RunResult]) -> RunResult:
    """Return the result of an attempt, once its observers know how it ended."""
    result = await (driving if run.telemetry.is_idle else _in_span(run, driving))
    if result.state.status is AgentStatus.ACTIVE:
        return result
    agent = run.source.attribution.agent_id
    run.telemetry.count("agent.run.ended", status=result.status, agent=agent)
    if run.hooks is not None:
        await run.hooks.after_run(run.context, result.state)
    return result


async def _in_span(run: Run, driving: Awaitable[RunResult]) -> RunResult:
    by = run.source.attribution
    with run.telemetry.span(
        "agent.run",
        agent=by.agent_id,
        run_id=by.run_id,
        conversation=by.conversation_id,
        tenant=run.context.tenant_id,
        epoch=run.ledger.epoch,
    ):
        position = run.telemetry.follow(run.earlier_trace)
        if position is not None:
            run.ledger.claim(trace_position(position), trace_position(position))
        result = await driving
        run.telemetry.annotate(status=result.status, **_error_code(result))
    return result


def _error_code(result: RunResult) -> dict[str, str]:
    code = result.error.get("code") if result.error is not None else None
    return {"error": code} if isinstance(code, str) else {}
