"""The outbox port: facts about runs on their way out, in order per run and at least once.

The journal writes the entries, in the commit that makes them true; this port gives them out and records their
delivery. An owner claims entries for a while, delivers them, and confirms it. If it dies in between, the next owner
delivers them again: a receiver may see a fact twice, with the same id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from enum import StrEnum

from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.ports.persistence import RunKey, persistence_port
from pilotage.checks import reject_naive, reject_negative, reject_not_positive
from pilotage.values import value


class OutboxStatus(StrEnum):
    """The status of an entry: PARKED after the last try, when a person must look at it."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    PARKED = "parked"


@value
class OutboxEntry:
    """A fact in the outbox: the run it is about, its number among the facts of that run, how its delivery went.

    Numbers begin at 1 and have no gaps; `created_at` is the store's clock. `failures` counts how often delivering
    failed, `problem` says why it did the last time.
    """

    run: RunKey
    number: int
    event: OutboxEvent
    created_at: datetime
    status: OutboxStatus = OutboxStatus.WAITING
    failures: int = 0
    problem: str | None = None

    def __post_init__(self) -> None:
        reject_not_positive(self, number=self.number)
        reject_negative(self, failures=self.failures)
        reject_naive(self, created_at=self.created_at)

    @property
    def id(self) -> str:
        """The same however often the fact is delivered, and that of no other fact."""
        return f"{self.run.tenant_id}/{self.run.run_id}/{self.number}"


@value
class OutboxPage:
    """Some entries of a longer list. `cursor` given as `after` leads to the next page; None says it is the last."""

    entries: tuple[OutboxEntry, ...]
    cursor: str | None = None


@persistence_port
class IAgentOutbox(ABC):
    """Gives entries to be delivered to one owner per run at a time.

    Every adapter guarantees: an entry is there as soon as the commit that carries it is, and not before; it stays
    there until `delivered` has returned, whatever crashes; the entries of one run are never out with two owners whose
    claims both hold. Time is the store's. Entries that were delivered stay readable.
    """

    @abstractmethod
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        """Take up to `limit` entries to deliver, for `seconds` from now; nothing where there is nothing to do.

        Of each run they are the first that wait, in order and without leaving one out. A run is passed over while
        any entry of it is claimed, by this owner or another, and while its first waiting entry is to be tried again
        later only. The runs that have waited longest come first.

        Raises:
            AgentDefinitionError: `owner` is blank, or `seconds` or `limit` is not positive.
            OSError: the store cannot be reached; what it may have claimed runs out by itself.
        """

    @abstractmethod
    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        """Record that entries were delivered; the caller need not hold their claim any more.

        Raises:
            OSError: the store cannot be reached; the entries come again.
        """

    @abstractmethod
    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        """Write down that an entry could not be delivered, and give the claim on its run back.

        The entry waits for `retry_in` seconds, and with it everything after it; None parks it, and what comes after it
        can be claimed at once. Nothing changes where the owner does not hold the claim any more.

        Raises:
            OSError: the store cannot be reached; the claim runs out by itself.
        """

    @abstractmethod
    async def release(self, owner: str, run: RunKey) -> None:
        """Give the claim on a run back, so that others need not wait for it to run out; another owner's is unchanged.

        Raises:
            OSError: the store cannot be reached; the claim runs out by itself.
        """

    @abstractmethod
    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[OutboxEntry]:
        """Yield the entries of a run in order, whatever became of them, from the one following `after`."""

    @abstractmethod
    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        """Return the parked entries of a tenant, in the order they were committed.

        Raises:
            CallerError: `after` is not the cursor of a page.
            AgentDefinitionError: `limit` is not positive.
        """

    @abstractmethod
    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        """Let a parked entry wait again, with no failures counted against it, ahead of what its run says later.

        Raises:
            CallerError: there is no such entry, or it is not parked.
        """
