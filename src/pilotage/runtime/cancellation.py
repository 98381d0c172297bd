"""Ending a run that was cancelled: recorded first, then the work is stopped, then the run is over.

A call that was under way gets a result that says its outcome is unknown; unknown is not failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.cancellation import begin_agent_cancellation, complete_agent_cancellation
from pilotage.agent.cancellation_cleanup import AgentCancellationCleanupReport
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.action import Action
from pilotage.runtime.ledger import Ledger

UNKNOWN = "the outcome is unknown: the run was cancelled while the call was under way"


async def begin_cancellation(ledger: Ledger, signal: AgentSignal) -> None:
    """Write down that the run is being cancelled, and take the signal in with it."""
    state = ledger.state
    if state.status is AgentStatus.CREATED:
        state = state.moved_to(AgentSituation.RUNNING)
    ledger.move(begin_agent_cancellation(state, signal))
    ledger.consume(signal.id)
    await ledger.barrier()


async def finish_cancellation(ledger: Ledger, under_way: Iterable[tuple[Action, int]]) -> AgentState:
    """Close what was under way and end the run; safe to do again after a crash in between."""
    record: JsonObject = {"error": UNKNOWN}
    for action, attempt in under_way:
        ledger.append(action, JournalStage.AFTER, attempt, record, record)
    signal_id = str(ledger.state.metadata.get("cancellation_signal_id") or "cancellation")
    report = AgentCancellationCleanupReport(ledger.state.id, signal_id)
    ledger.move(complete_agent_cancellation(ledger.state, report))
    await ledger.barrier()
    return ledger.state
