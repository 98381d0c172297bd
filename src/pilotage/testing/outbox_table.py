"""The facts of the in-memory store, each with the claim of the relay that is about to deliver it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pilotage.agent.ports.outbox import OutboxEntry, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.testing.encoded import EncodedOutboxEvent


@dataclass
class OutboxRow:
    """One stored entry; `position` is its place among those of all runs."""

    position: int
    run: RunKey
    number: int
    event: EncodedOutboxEvent
    created_at: datetime
    status: OutboxStatus = OutboxStatus.WAITING
    failures: int = 0
    problem: str | None = None
    owner: str | None = None
    claimed_until: datetime | None = None
    retry_at: datetime | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it must still be delivered."""
        return self.status is OutboxStatus.WAITING

    def is_claimed(self, now: datetime) -> bool:
        """Return whether it is claimed."""
        return self.is_waiting and self.claimed_until is not None and self.claimed_until > now

    def is_due(self, now: datetime) -> bool:
        """Return whether it may be tried."""
        return self.retry_at is None or self.retry_at <= now

    def claim(self, owner: str, until: datetime) -> None:
        """Claim it."""
        self.owner, self.claimed_until = owner, until

    def give_back(self) -> None:
        """Release its claim."""
        self.owner = self.claimed_until = None

    def read(self) -> OutboxEntry:
        """Return the decoded entry."""
        facts = (self.status, self.failures, self.problem)
        return OutboxEntry(self.run, self.number, self.event.read(), self.created_at, *facts)


class OutboxTable:
    """The entries of all runs in the order they were committed."""

    def __init__(self) -> None:
        self.rows: list[OutboxRow] = []
        self._next = 1
        self._by_run: dict[RunKey, list[OutboxRow]] = {}

    def add(self, run: RunKey, events: Sequence[EncodedOutboxEvent], now: datetime) -> None:
        """Add the events of a commit."""
        if not events:
            return
        rows = self._by_run.setdefault(run, [])
        for event in events:
            row = OutboxRow(self._next, run, len(rows) + 1, event, now)
            self._next += 1
            self.rows.append(row)
            rows.append(row)

    def remove(self, run: RunKey) -> None:
        """Remove the entries of a run; the places of others do not change."""
        self._by_run.pop(run, None)
        self.rows = [row for row in self.rows if row.run != run]

    def of_run(self, run: RunKey) -> Sequence[OutboxRow]:
        """Return the entries of a run, in order."""
        return self._by_run.get(run, ())

    def waiting_runs(self) -> list[RunKey]:
        """Return the runs that have something to deliver, the one whose first entry is oldest first."""
        return list(dict.fromkeys(row.run for row in self.rows if row.is_waiting))

    def read(self) -> Iterator[OutboxEntry]:
        """Return all entries."""
        return (row.read() for row in self.rows)
