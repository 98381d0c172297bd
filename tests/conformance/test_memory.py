"""The in-memory doubles pass the kits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilotage.agent.ports.journal import IAgentJournal, OutboxEvent
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing import (
    FaultyJournal,
    MemoryEvidenceRepository,
    MemoryJournal,
    MemorySignalRepository,
    MemoryStateRepository,
    MemoryStore,
)
from pilotage.testing.conformance import (
    EvidenceRepositoryConformance,
    JournalConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    TransactionConformance,
)
from pilotage.testing.conformance.transaction import ReadOutbox


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(params=["all tenants", "one tenant"])
def tenant(request: pytest.FixtureRequest) -> str | None:
    return "default" if request.param == "one tenant" else None


class TestMemoryJournal(JournalConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def second_journal(self, store: MemoryStore) -> IAgentJournal:
        return MemoryJournal(store)


class TestFaultyJournalWithoutFault(JournalConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return FaultyJournal(store.journal)


class TestMemoryStateRepository(StateRepositoryConformance):
    @pytest.fixture
    def states(self, store: MemoryStore, tenant: str | None) -> IAgentStateRepository:
        return MemoryStateRepository(store, tenant)

    @pytest.fixture
    def foreign_states(self, store: MemoryStore) -> IAgentStateRepository:
        return MemoryStateRepository(store, "elsewhere")


class TestMemorySignalRepository(SignalRepositoryConformance):
    @pytest.fixture
    def signals(self, store: MemoryStore, tenant: str | None) -> IAgentSignalRepository:
        return MemorySignalRepository(store, tenant)

    @pytest.fixture
    def foreign_signals(self, store: MemoryStore) -> IAgentSignalRepository:
        return MemorySignalRepository(store, "elsewhere")


class TestMemoryEvidenceRepository(EvidenceRepositoryConformance):
    @pytest.fixture
    def evidence(self, store: MemoryStore, tenant: str | None) -> IAgentEvidenceRepository:
        return MemoryEvidenceRepository(store, tenant)

    @pytest.fixture
    def foreign_evidence(self, store: MemoryStore) -> IAgentEvidenceRepository:
        return MemoryEvidenceRepository(store, "elsewhere")


class TestMemoryStore(TransactionConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def states(self, store: MemoryStore) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def signals(self, store: MemoryStore) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def evidence(self, store: MemoryStore) -> IAgentEvidenceRepository:
        return store.evidence

    @pytest.fixture
    def read_outbox(self, store: MemoryStore) -> ReadOutbox:
        async def read() -> Sequence[OutboxEvent]:
            return [event for _, event in store.outbox]

        return read
