"""The outbox port in memory: claims run out by the clock of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry, OutboxPage, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import CallerError
from pilotage.testing.tables import OutboxRow, OverTables


class MemoryOutbox(OverTables, IAgentOutbox):
    """The outbox in the tables of a store; `MemoryOutbox(store.tables)` for another process."""

    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        reject_blank("MemoryOutbox.claim", owner=owner)
        reject_not_positive("MemoryOutbox.claim", seconds=seconds, limit=limit)
        now, taken = self._tables.clock.now(), list[OutboxRow]()
        for run in self._tables.outbox.waiting_runs():
            taken += self._due(run, now)[: limit - len(taken)]
        for row in taken:
            row.claim(owner, now + timedelta(seconds=seconds))
        return [row.read() for row in taken]

    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            row = self._tables.outbox.of_run(entry.run)[entry.number - 1]
            row.status = OutboxStatus.DELIVERED
            row.give_back()

    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        row = self._tables.outbox.of_run(entry.run)[entry.number - 1]
        now = self._tables.clock.now()
        if row.owner != owner or not row.is_claimed(now):
            return
        row.failures, row.problem = row.failures + 1, problem
        row.retry_at = None if retry_in is None else now + timedelta(seconds=retry_in)
        if retry_in is None:
            row.status = OutboxStatus.PARKED
        row.give_back()
        await self.release(owner, entry.run)

    async def release(self, owner: str, run: RunKey) -> None:
        for row in self._tables.outbox.of_run(run):
            if row.owner == owner:
                row.give_back()

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[OutboxEntry]:
        for row in self._tables.outbox.of_run(run)[after:]:
            yield row.read()

    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        reject_not_positive("MemoryOutbox.list_parked", limit=limit)
        start = 0 if after is None else _position(after)
        found = [
            row
            for row in self._tables.outbox.rows
            if row.status is OutboxStatus.PARKED and row.run.tenant_id == tenant_id and row.position > start
        ]
        entries = tuple(row.read() for row in found[:limit])
        return OutboxPage(entries, str(found[limit - 1].position) if len(found) > limit else None)

    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        rows = self._tables.outbox.of_run(run)
        row = rows[number - 1] if 0 < number <= len(rows) else None
        if row is None or row.status is not OutboxStatus.PARKED:
            how = f"is {row.status.value}" if row else "does not exist"
            raise CallerError(
                f"entry {number} of run {run.run_id!r} {how}. Only a parked entry can be delivered again."
            )
        row.status, row.failures, row.retry_at = OutboxStatus.WAITING, 0, None
        return row.read()

    def _due(self, run: RunKey, now: datetime) -> list[OutboxRow]:
        """Return the first waiting entries of a run that may be tried now; none while one of them is claimed."""
        waiting = [row for row in self._tables.outbox.of_run(run) if row.is_waiting]
        if any(row.is_claimed(now) for row in waiting):
            return []
        late = next((index for index, row in enumerate(waiting) if not row.is_due(now)), len(waiting))
        return waiting[:late]


def _position(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit()):
        raise CallerError(f"there is no page after {cursor!r}. Give the cursor of an OutboxPage as `after`.")
    return int(cursor)
