"""Coordination of processes in memory: leases that run out by the clock of the store, the backlog, wake-up hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from pilotage.agent.ports.leases import (
    BacklogEntry,
    ClaimRecord,
    IAgentBacklog,
    IAgentLeases,
    IAgentWakeUps,
    IWakeUpSubscription,
    Lease,
    checked_delay,
    has_something_to_do,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.testing.encoded import EncodedState
from pilotage.testing.tables import OverTables

_CAPACITY = 1000


class MemoryLeases(OverTables, IAgentLeases):
    """Leases in the tables of a store; `MemoryLeases(store.tables)` for another process."""

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease, held = self._lease(run, owner, seconds), self._current(run)
        return self._grant(lease) if held is None or held.owner == owner else None

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease, held = self._lease(run, owner, seconds), self._current(run)
        return self._grant(lease) if held is not None and held.owner == owner else None

    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        held = [(self._lease(run, owner, seconds), self._current(run)) for run in runs]
        own = {self._grant(lease).run for lease, now in held if now is not None and now.owner == owner}
        return frozenset(runs) - own

    async def release(self, run: RunKey, owner: str) -> None:
        held = self._tables.leases.get(run)
        if held is not None and held.owner == owner:
            del self._tables.leases[run]

    async def holder(self, run: RunKey) -> Lease | None:
        return self._current(run)

    async def owners(self) -> frozenset[str]:
        current = [self._current(run) for run in self._tables.leases]
        return frozenset(lease.owner for lease in current if lease is not None)

    async def release_all(self, owner: str) -> None:
        leases = self._tables.leases
        for run in [run for run, lease in leases.items() if lease.owner == owner]:
            del leases[run]

    def _current(self, run: RunKey) -> Lease | None:
        return self._tables.lease_of(run)

    def _lease(self, run: RunKey, owner: str, seconds: float) -> Lease:
        reject_not_positive("MemoryLeases", seconds=seconds)
        return self._tables.new_lease(run, owner, seconds)

    def _grant(self, lease: Lease) -> Lease:
        self._tables.leases[lease.run] = lease
        return lease


class MemoryBacklog(OverTables, IAgentBacklog):
    """The backlog of a store; `MemoryBacklog(store.tables)` for another process."""

    async def claim(
        self,
        owner: str,
        seconds: float,
        limit: int,
        *,
        agents: Collection[str],
        leaving: Collection[RunKey] = (),
        suspects: bool = False,
    ) -> Sequence[BacklogEntry]:
        reject_blank("MemoryBacklog.claim", owner=owner)
        reject_not_positive("MemoryBacklog.claim", seconds=seconds, limit=limit)
        tables = self._tables
        found = [_key(state) for state in self._free() if state.agent_type in agents]
        free = [run for run in found if run not in leaving]
        given = [run for run in free if not tables.claims_of(run).is_suspect][:limit]
        given += [run for run in free if suspects and tables.claims_of(run).is_suspect][:1]
        leases = [tables.new_lease(run, owner, seconds) for run in given]
        tables.leases.update({lease.run: lease for lease in leases})
        return [BacklogEntry(lease, tables.claims_of(lease.run)) for lease in leases]

    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        delay, now = checked_delay("MemoryBacklog.begin", delay_seconds), self._tables.clock.now()
        known = self._tables.claims_of(run)
        self._tables.claims[run] = replace(
            known, count=known.count + 1, last_claim=now, next_claim=now + delay
        )

    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        delay, known = checked_delay("MemoryBacklog.settle", delay_seconds), self._tables.claims_of(run)
        self._tables.claims[run] = replace(
            known,
            count=known.count if counts else max(known.count - 1, 0),
            problem=problem or known.problem,
            next_claim=self._tables.clock.now() + delay if delay else None,
        )

    async def forget(self, run: RunKey) -> None:
        self._tables.claims.pop(run, None)

    async def claims_of(self, run: RunKey) -> ClaimRecord:
        return self._tables.claims_of(run)

    async def agents(self) -> frozenset[str]:
        return frozenset(state.agent_type for state in self._free())

    def _free(self) -> Iterator[AgentState]:
        """Return the runs that need an owner, the longest unchanged first."""
        states = [stored.read() for stored in self._tables.states.entries(None) if self._is_left(stored)]
        return iter(sorted(states, key=lambda state: state.updated_at or self._tables.clock.now()))

    def _is_left(self, stored: EncodedState) -> bool:
        run, now = _key(stored.bare), self._tables.clock.now()
        if not self._tables.is_journaled(run) or self._tables.lease_of(run) is not None:
            return False
        if not self._tables.claims_of(run).is_due(now):
            return False
        pending = {signal.bare.kind for signal in self._tables.queues.get(run, {}).values()}
        state = stored.read()
        return has_something_to_do(state, pending, now, self._status_above(state))

    def _status_above(self, state: AgentState) -> AgentStatus | None:
        parent = state.metadata.get("parent")
        above = self._tables.states.find(state.tenant_id, str(parent)) if parent is not None else None
        return above.bare.status if above is not None else None


def _key(state: AgentState) -> RunKey:
    return RunKey(state.tenant_id, state.id)


class MemoryWakeUps(IAgentWakeUps):
    """Hints to all listeners; each has room for `capacity` runs, further ones are dropped."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        reject_not_positive(self, capacity=capacity)
        self._capacity = capacity
        self._listeners: set[MemoryWakeUpSubscription] = set()

    async def notify(self, run_id: str) -> None:
        for listener in self._listeners:
            listener.add(run_id)

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        listener = MemoryWakeUpSubscription(self._capacity)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)


class MemoryWakeUpSubscription(IWakeUpSubscription):
    """The hints of one listener, in the order they came, each run once."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pending: dict[str, None] = {}
        self._has_hints = asyncio.Event()

    def add(self, run_id: str) -> None:
        """Add a hint, unless it is there already or there is no room."""
        if len(self._pending) < self._capacity:
            self._pending[run_id] = None
            self._has_hints.set()

    async def next(self) -> str:
        # Removed only after the wait: a cancelled call leaves the hint to the next one.
        while not self._pending:
            self._has_hints.clear()
            await self._has_hints.wait()
        run_id = next(iter(self._pending))
        del self._pending[run_id]
        return run_id
