"""The retention port: letting go of what nobody needs any more, and of what nobody may keep any more.

Both concern runs that have ended. A run that may still be resumed is never touched, and neither is a child whose parent
may still come back to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.providers import persistence_port


@persistence_port
class IAgentRetention(ABC):
    """Removes runs, or what they said.

    Every adapter guarantees: whatever is removed of a run is removed at once; a run that has not ended, or whose parent
    has not, stays whole.
    """

    @abstractmethod
    async def prune(self, tenant_id: str, *, ended_before: datetime, limit: int = 1000) -> int:
        """Remove up to `limit` runs that ended before a moment, oldest first, with everything about them.

        That is their rows, states, signals, evidence and facts, also facts that nobody took delivery of in all that
        time. Turns of conversations stay, for later runs were told them. Gives the number of runs removed: less than
        `limit` says that none is left.

        Raises:
            AgentDefinitionError: `limit` is not positive, or the moment has no time zone.
            OSError: the store cannot be reached; some may have been removed.
        """

    @abstractmethod
    async def erase(self, run: RunKey) -> None:
        """Remove what a run said and was told: payloads of rows, signals, evidence, the turns it added.

        That it took place, when, what it did by name and how it ended stays. The rows keep the digests of their
        payloads, so the chain holds, and nobody can guess from them what was said. Erasing again does nothing.

        Raises:
            RunNotFoundError: there is no such run.
            CallerError: it has not ended. Cancel it first.
            OSError: the store cannot be reached; whether it is erased is unknown.
        """
