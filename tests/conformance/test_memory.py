"""The in-memory doubles pass the kits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilotage.agent.ports.conversations import ITaskStore
from pilotage.agent.ports.journal import IAgentJournal, OutboxEvent
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.observability import IAgentAuditLog
from pilotage.agent.ports.outbox import IAgentOutbox
from pilotage.agent.ports.permissions import IAgentSwitches
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentRetention,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing import (
    FaultyJournal,
    MemoryAuditLog,
    MemoryEvidenceRepository,
    MemoryJournal,
    MemorySignalRepository,
    MemoryStateRepository,
    MemoryStore,
    MemorySwitches,
    VirtualClock,
)
from pilotage.testing.conformance import (
    AuditLogConformance,
    BacklogConformance,
    EvidenceRepositoryConformance,
    JournalConformance,
    OutboxConformance,
    RetentionConformance,
    SignalCommitConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    SwitchesConformance,
    TransactionConformance,
)
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance
from pilotage.testing.conformance.evidence import LateOutcomesConformance
from pilotage.testing.conformance.kit import PassTime
from pilotage.testing.conformance.leases import LeaseCommitConformance, LeasesConformance
from pilotage.testing.conformance.transaction import ReadOutbox
from pilotage.testing.conformance.wakeups import WakeUpsConformance
from pilotage.testing.coordination import MemoryBacklog, MemoryLeases
from pilotage.testing.memory import MemoryLateOutcomes
from pilotage.testing.outbox import MemoryOutbox


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def pass_time(clock: VirtualClock) -> PassTime:
    async def advance(seconds: float) -> None:
        clock.advance(seconds)

    return advance


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


class TestMemoryStoreWithSignals(SignalCommitConformance):
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
    def second_signals(self, store: MemoryStore) -> IAgentSignalRepository:
        return store.signals


class TestMemoryTaskStore(TaskStoreConformance):
    @pytest.fixture
    def conversations(self, store: MemoryStore) -> ITaskStore:
        return store.conversations


class TestMemoryStoreWithConversations(ConversationCommitConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def second_journal(self, store: MemoryStore) -> IAgentJournal:
        return MemoryJournal(store)

    @pytest.fixture
    def conversations(self, store: MemoryStore) -> ITaskStore:
        return store.conversations


class TestMemoryLeases(LeasesConformance):
    @pytest.fixture
    def leases(self, store: MemoryStore) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def second_leases(self, store: MemoryStore) -> IAgentLeases:
        return MemoryLeases(store.tables)

    @pytest.fixture
    def set_time_of_day(self, clock: VirtualClock) -> PassTime:
        async def set_clock(seconds: float) -> None:
            clock.set_time_of_day(seconds)

        return set_clock


class TestMemoryStoreWithLeases(LeaseCommitConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def leases(self, store: MemoryStore) -> IAgentLeases:
        return store.leases


class TestMemoryWakeUps(WakeUpsConformance):
    @pytest.fixture
    def wake_ups(self, store: MemoryStore) -> IAgentWakeUps:
        return store.wake_ups


class TestMemoryOutbox(OutboxConformance):
    @pytest.fixture
    def journal(self, store: MemoryStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def outbox(self, store: MemoryStore) -> IAgentOutbox:
        return store.deliveries

    @pytest.fixture
    def second_outbox(self, store: MemoryStore) -> IAgentOutbox:
        return MemoryOutbox(store.tables)


class TestMemoryBacklog(BacklogConformance):
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
    def leases(self, store: MemoryStore) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def backlog(self, store: MemoryStore) -> IAgentBacklog:
        return store.backlog

    @pytest.fixture
    def second_backlog(self, store: MemoryStore) -> IAgentBacklog:
        return MemoryBacklog(store.tables)


class TestMemoryRetention(RetentionConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def retention(self, store: MemoryStore) -> IAgentRetention:
        return store.retention

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
    def conversations(self, store: MemoryStore) -> ITaskStore:
        return store.conversations


class TestMemoryLateOutcomes(LateOutcomesConformance):
    @pytest.fixture
    def late_outcomes(self, store: MemoryStore) -> IAgentLateOutcomes:
        return store.late_outcomes

    @pytest.fixture
    def second_late_outcomes(self, store: MemoryStore) -> IAgentLateOutcomes:
        return MemoryLateOutcomes(store.tables)


class TestMemoryAuditLog(AuditLogConformance):
    @pytest.fixture
    def audit_log(self) -> IAgentAuditLog:
        return MemoryAuditLog()


class TestMemorySwitches(SwitchesConformance):
    @pytest.fixture
    def switches(self, store: MemoryStore) -> IAgentSwitches:
        return store.switches

    @pytest.fixture
    def second_switches(self, store: MemoryStore) -> IAgentSwitches:
        return MemorySwitches(store.tables)
