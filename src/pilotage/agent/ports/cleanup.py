"""The cleanup port: what the outside world is told when a run is cancelled while something was under way."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pilotage.agent.cancellation_cleanup import AgentCancellationCleanupResult, AgentCancellationRequest
from pilotage.agent.principal import RunContext


class IAgentCancellationCleanup(ABC):
    """Looks after one thing that a cancelled run had begun: a tool call, a model stream, a delegation.

    All cleanups of a run are asked at once, about everything that was under way, under one deadline. One that raises
    or comes too late has failed, and the run then ends as FAILED. After a crash they are asked again: cleaning up
    twice must do no harm.
    """

    @abstractmethod
    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        """How it went; None where this cleanup has nothing to do with it."""
