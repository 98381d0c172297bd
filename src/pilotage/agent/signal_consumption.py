"""Take pending signals out of a repository: one poll, no waiting.

For code that works on the repositories directly. A journaled run consumes signals in the transaction that
applies them, through the journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import (
    AgentSignalConsumptionBatch,
    AgentSignalKind,
    AgentSignalPollPoint,
    select_signals,
)
from pilotage.checks import reject_blank, reject_not_positive


async def consume_pending_agent_signals(
    repository: IAgentSignalRepository,
    state_id: str,
    *,
    poll_point: AgentSignalPollPoint = AgentSignalPollPoint.SAFE_BOUNDARY,
    accepted_signals: Sequence[AgentSignalKind] | None = None,
    max_signals: int | None = None,
) -> AgentSignalConsumptionBatch:
    """Consume what may be consumed now, by the rules of `select_signals`, and return it.

    Raises:
        AgentDefinitionError: `state_id` is blank or `max_signals` is not positive; nothing was read.
    """
    owner = "consume_pending_agent_signals"
    reject_blank(owner, state_id=state_id)
    reject_not_positive(owner, max_signals=max_signals)
    pending = await repository.list_pending(state_id)
    selected = select_signals(pending, accepted=accepted_signals, limit=max_signals)
    consumed = [await repository.mark_consumed(signal.id) for signal in selected]
    return AgentSignalConsumptionBatch(state_id, poll_point, tuple(consumed))
