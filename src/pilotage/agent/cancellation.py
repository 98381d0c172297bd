"""Cancellation: a run stops, cleans up what it had begun, and says how that went.

A cancel signal moves the run to CANCELLING; hooks for its open model streams, tools and delegates run
concurrently under one deadline; the report of their outcomes ends the run as CANCELLED or, if one failed, as
FAILED. Everything but running the hooks is pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.cancellation_cleanup import (
    AgentCancellationCleanupReport,
    AgentCancellationCleanupTask,
    check_cancel_signal,
    text_in,
)
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError


def begin_agent_cancellation(state: AgentState, signal: AgentSignal) -> AgentState:
    """The run on its way to being cancelled, with who asked for it and why.

    Raises:
        AgentDefinitionError: the signal does not cancel this run, or the run has ended.
    """
    check_cancel_signal(state, signal)
    return state.moved_to(
        AgentSituation.CANCELLING,
        metadata={
            "cancellation_signal_id": signal.id,
            "cancellation_reason": text_in(signal, "reason"),
            "cancellation_requested_by": text_in(signal, "requested_by"),
        },
    )


def complete_agent_cancellation(state: AgentState, report: AgentCancellationCleanupReport) -> AgentState:
    """The cancelled run: CANCELLED after a good cleanup, FAILED after a bad one.

    Raises:
        AgentDefinitionError: the report is about another run, or the run is not being cancelled.
    """
    if report.state_id != state.id:
        raise AgentDefinitionError(f"The cleanup report is about run {report.state_id!r}, not {state.id!r}.")
    if state.status is not AgentStatus.CANCELLING:
        raise AgentDefinitionError(
            f"run {state.id!r} is {state.status}, so its cancellation cannot end. "
            "Begin it first: begin_agent_cancellation(state, signal)."
        )
    succeeded = report.cleanup_succeeded
    situation = AgentSituation.CANCELLED if succeeded else AgentSituation.CANCELLATION_CLEANUP_FAILED
    return state.moved_to(situation, metadata={"cancellation_cleanup": report.to_payload()})


async def run_agent_cancellation_cleanup(
    *,
    state: AgentState,
    signal: AgentSignal,
    tasks: Sequence[AgentCancellationCleanupTask],
    deadline_seconds: float | None = None,
) -> AgentCancellationCleanupReport:
    """Run all hooks at once and report how each of them fared, in the order of the tasks.

    A hook that raises is a failed outcome. One that is past the deadline is cancelled and a failed outcome;
    one that ignores even that is waited for as long again and then left behind.

    Raises:
        AgentDefinitionError: the signal does not cancel this run, or the deadline is not positive.
    """
    check_cancel_signal(state, signal)
    reject_not_positive("run_agent_cancellation_cleanup", deadline_seconds=deadline_seconds)
    from pilotage.agent.cancellation_hooks import run_cleanup_hooks  # noqa: PLC0415 - asyncio is dear to import

    outcomes = await run_cleanup_hooks(state, signal, tasks, deadline_seconds)
    return AgentCancellationCleanupReport(state.id, signal.id, outcomes)
