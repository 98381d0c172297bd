"""The lease port in memory: leases run out by the clock of the store."""

from __future__ import annotations

from datetime import timedelta

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.checks import reject_not_positive
from pilotage.testing.tables import MemoryTables


class MemoryLeases(IAgentLeases):
    """Leases in the tables of a store: `MemoryLeases(store.tables)` is what another process has of them."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease, held = self._lease(run, owner, seconds), self._current(run)
        return self._grant(lease) if held is None or held.owner == owner else None

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease, held = self._lease(run, owner, seconds), self._current(run)
        return self._grant(lease) if held is not None and held.owner == owner else None

    async def release(self, run: RunKey, owner: str) -> None:
        held = self._tables.leases.get(run)
        if held is not None and held.owner == owner:
            del self._tables.leases[run]

    async def holder(self, run: RunKey) -> Lease | None:
        return self._current(run)

    def _current(self, run: RunKey) -> Lease | None:
        held = self._tables.leases.get(run)
        return held if held is not None and held.expires_at > self._tables.clock.now() else None

    def _lease(self, run: RunKey, owner: str, seconds: float) -> Lease:
        reject_not_positive("MemoryLeases", seconds=seconds)
        return Lease(run, owner, self._tables.clock.now() + timedelta(seconds=seconds), seconds)

    def _grant(self, lease: Lease) -> Lease:
        self._tables.leases[lease.run] = lease
        return lease
