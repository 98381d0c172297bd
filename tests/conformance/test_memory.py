"""The in-memory doubles pass the kits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilotage.agent.ports.blobs import IBlobs
from pilotage.agent.ports.journal import IAgentJournal, OutboxEvent
from pilotage.agent.ports.leases import IAgentWakeUps
from pilotage.agent.ports.observability import IAgentAuditLog
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing import (
    FaultyJournal,
    MemoryAuditLog,
    MemoryEvidenceRepository,
    MemorySignalRepository,
    MemoryStateRepository,
    MemoryStore,
    VirtualClock,
)
from pilotage.testing.conformance import (
    AuditLogConformance,
    BlobsConformance,
    EvidenceRepositoryConformance,
    JournalConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    StoreConformance,
    TenantRepositories,
)
from pilotage.testing.conformance.kit import PassTime
from pilotage.testing.conformance.transaction import ReadOutbox


class TestMemoryBlobs(BlobsConformance):
    @pytest.fixture
    def blobs(self, store: MemoryStore) -> IBlobs:
        return store.blobs

    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def foreign(store: MemoryStore) -> TenantRepositories:
    return repositories(store, "elsewhere")


def repositories(store: MemoryStore, tenant: str) -> TenantRepositories:
    """Return the repositories of one tenant."""
    return TenantRepositories(
        MemoryStateRepository(store, tenant),
        MemorySignalRepository(store, tenant),
        MemoryEvidenceRepository(store, tenant),
    )


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def second_store(self, store: MemoryStore) -> MemoryStore:
        return MemoryStore(tables=store.tables)

    @pytest.fixture
    def second_wake_ups(self, store: MemoryStore) -> IAgentWakeUps:
        return store.wake_ups

    @pytest.fixture
    def read_outbox(self, store: MemoryStore) -> ReadOutbox:
        async def read() -> Sequence[OutboxEvent]:
            return [event for _, event in store.outbox]

        return read

    @pytest.fixture
    def pass_time(self, clock: VirtualClock) -> PassTime:
        async def advance(seconds: float) -> None:
            clock.advance(seconds)

        return advance

    @pytest.fixture
    def set_time_of_day(self, clock: VirtualClock) -> PassTime:
        async def set_clock(seconds: float) -> None:
            clock.set_time_of_day(seconds)

        return set_clock


class TestMemoryRepositoriesOfOneTenant(
    StateRepositoryConformance, SignalRepositoryConformance, EvidenceRepositoryConformance
):
    @pytest.fixture
    def own(self, store: MemoryStore) -> TenantRepositories:
        return repositories(store, "default")

    @pytest.fixture
    def states(self, own: TenantRepositories) -> IAgentStateRepository:
        return own.states

    @pytest.fixture
    def foreign_states(self, foreign: TenantRepositories) -> IAgentStateRepository:
        return foreign.states

    @pytest.fixture
    def signals(self, own: TenantRepositories) -> IAgentSignalRepository:
        return own.signals

    @pytest.fixture
    def foreign_signals(self, foreign: TenantRepositories) -> IAgentSignalRepository:
        return foreign.signals

    @pytest.fixture
    def evidence(self, own: TenantRepositories) -> IAgentEvidenceRepository:
        return own.evidence

    @pytest.fixture
    def foreign_evidence(self, foreign: TenantRepositories) -> IAgentEvidenceRepository:
        return foreign.evidence


class TestFaultyJournalWithoutFault(JournalConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return FaultyJournal(store.journal)


class TestMemoryAuditLog(AuditLogConformance):
    @pytest.fixture
    def audit_log(self) -> IAgentAuditLog:
        return MemoryAuditLog()
