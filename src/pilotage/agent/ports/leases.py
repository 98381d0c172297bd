"""The lease port: which owner tries to drive a run.

A lease saves work, it keeps nothing safe: two owners that both believe in theirs are told apart by the journal,
where one of them loses. So a lease may be lost, doubled or late without harm. It runs out by the store's clock,
the only one that all owners share. An owner counts `granted_seconds` on its own monotonic clock from the moment
it asked, and so stops before the store would let somebody else try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.providers import persistence_port
from pilotage.checks import reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class Lease:
    """An owner may try to drive a run for `granted_seconds`, which is until `expires_at` by the store's clock."""

    run: RunKey
    owner: str
    expires_at: datetime
    granted_seconds: float

    def __post_init__(self) -> None:
        if not self.owner.strip():
            raise AgentDefinitionError("Lease.owner is blank. Give it at least one visible character.")
        reject_naive(self, expires_at=self.expires_at)
        reject_not_positive(self, granted_seconds=self.granted_seconds)


@persistence_port
class IAgentLeases(ABC):
    """Grants leases on runs, one at a time each.

    Every adapter guarantees: of several owners that ask at once exactly one gets the lease; time is the store's
    and nobody else's; a lease needs no run, so it can be taken before the run's first commit. A lease that has run
    out counts as none, whether or not anything cleared it away. A lease that the first commit of a run took is like any
    other, and the commit that ends a run takes its lease away (see `IAgentJournal`).
    """

    @abstractmethod
    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        """Take the lease for `seconds` from now; None where another owner has one that has not run out.

        Who has the lease already gets it anew, from now on.

        Raises:
            AgentDefinitionError: `owner` is blank or `seconds` is not positive.
            OSError: the store cannot be reached; whether the lease was taken is unknown.
        """

    @abstractmethod
    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        """Keep a lease for `seconds` from now; None where it has run out or is another owner's.

        Unlike `acquire` it never takes a lease that is free: an owner that comes too late must hear of it.

        Raises:
            AgentDefinitionError: `owner` is blank or `seconds` is not positive.
            OSError: the store cannot be reached; whether the lease was renewed is unknown.
        """

    @abstractmethod
    async def release(self, run: RunKey, owner: str) -> None:
        """Give a lease back, so that others need not wait for it to run out; another owner's is left alone.

        Raises:
            OSError: the store cannot be reached; the lease runs out by itself.
        """

    @abstractmethod
    async def holder(self, run: RunKey) -> Lease | None:
        """The lease that has not run out, or None.

        Raises:
            OSError: the store cannot be reached.
        """
