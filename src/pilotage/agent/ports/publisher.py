"""The publisher port: where facts about runs go besides the subscribers in the application, such as a broker."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pilotage.agent.fact_types import AgentFact


class IAgentEventPublisher(ABC):
    """Passes facts on. Every pod of this type gets every fact.

    Every adapter guarantees: what `publish` returned for has reached the other side for good. It is called in order
    per run, and for several runs at once; a fact may come again, with the same `id`.
    """

    @abstractmethod
    async def publish(self, fact: AgentFact) -> None:
        """Pass a fact on; durable on the other side when this returns.

        Raises:
            Exception: whatever went wrong. The fact comes again after a while, and is parked after some tries; what
                happens to the run later waits behind it.
        """
