"""The store on SQLAlchemy passes the kits on every database."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, select

from pilotage.adapters.sqlalchemy.evidence import SqlAlchemyEvidenceRepository
from pilotage.adapters.sqlalchemy.mapping import event_of
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.states import SqlAlchemyStateRepository
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import outbox
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
from pilotage.testing.conformance import (
    AuditLogConformance,
    BacklogConformance,
    ConversationCommitConformance,
    EvidenceRepositoryConformance,
    JournalConformance,
    LeasesConformance,
    OutboxConformance,
    RetentionConformance,
    SignalCommitConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    SwitchesConformance,
    TaskStoreConformance,
    TransactionConformance,
    WakeUpsConformance,
)
from pilotage.testing.conformance.evidence import LateOutcomesConformance
from pilotage.testing.conformance.kit import PassTime
from pilotage.testing.conformance.leases import LeaseCommitConformance
from pilotage.testing.conformance.transaction import ReadOutbox


@pytest.fixture(params=["all tenants", "one tenant"])
def tenant(request: pytest.FixtureRequest) -> str | None:
    return "default" if request.param == "one tenant" else None


class TestSqlAlchemyJournal(JournalConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def second_journal(self, second_store: SqlAlchemyStore) -> IAgentJournal:
        return second_store.journal


class TestSqlAlchemyStateRepository(StateRepositoryConformance):
    @pytest.fixture
    def states(self, store: SqlAlchemyStore, tenant: str | None) -> IAgentStateRepository:
        return SqlAlchemyStateRepository(store.database, tenant)

    @pytest.fixture
    def foreign_states(self, store: SqlAlchemyStore) -> IAgentStateRepository:
        return SqlAlchemyStateRepository(store.database, "elsewhere")


class TestSqlAlchemySignalRepository(SignalRepositoryConformance):
    @pytest.fixture
    def signals(self, store: SqlAlchemyStore, tenant: str | None) -> IAgentSignalRepository:
        return SqlAlchemySignalRepository(store.database, tenant)

    @pytest.fixture
    def foreign_signals(self, store: SqlAlchemyStore) -> IAgentSignalRepository:
        return SqlAlchemySignalRepository(store.database, "elsewhere")


class TestSqlAlchemyEvidenceRepository(EvidenceRepositoryConformance):
    @pytest.fixture
    def evidence(self, store: SqlAlchemyStore, tenant: str | None) -> IAgentEvidenceRepository:
        return SqlAlchemyEvidenceRepository(store.database, tenant)

    @pytest.fixture
    def foreign_evidence(self, store: SqlAlchemyStore) -> IAgentEvidenceRepository:
        return SqlAlchemyEvidenceRepository(store.database, "elsewhere")


class TestSqlAlchemyStore(TransactionConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def states(self, store: SqlAlchemyStore) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def signals(self, store: SqlAlchemyStore) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def evidence(self, store: SqlAlchemyStore) -> IAgentEvidenceRepository:
        return store.evidence

    @pytest.fixture
    def read_outbox(self, store: SqlAlchemyStore) -> ReadOutbox:
        def look(connection: Connection) -> list[OutboxEvent]:
            found = connection.execute(select(outbox).order_by(outbox.c.position))
            return [event_of(values) for values in found.mappings()]

        async def read() -> Sequence[OutboxEvent]:
            return await store.database.read(look)

        return read


class TestSqlAlchemyStoreWithSignals(SignalCommitConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def states(self, store: SqlAlchemyStore) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def signals(self, store: SqlAlchemyStore) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def second_signals(self, second_store: SqlAlchemyStore) -> IAgentSignalRepository:
        return second_store.signals


class TestSqlAlchemyTaskStore(TaskStoreConformance):
    @pytest.fixture
    def conversations(self, store: SqlAlchemyStore) -> ITaskStore:
        return store.conversations


class TestSqlAlchemyStoreWithConversations(ConversationCommitConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def second_journal(self, second_store: SqlAlchemyStore) -> IAgentJournal:
        return second_store.journal

    @pytest.fixture
    def conversations(self, store: SqlAlchemyStore) -> ITaskStore:
        return store.conversations


class TestSqlAlchemyLeases(LeasesConformance):
    @pytest.fixture
    def leases(self, store: SqlAlchemyStore) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def second_leases(self, second_store: SqlAlchemyStore) -> IAgentLeases:
        return second_store.leases

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass

    @pytest.fixture
    def set_time_of_day(self, set_time_of_day: PassTime) -> PassTime:
        return set_time_of_day


class TestSqlAlchemyStoreWithLeases(LeaseCommitConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def leases(self, store: SqlAlchemyStore) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass


class TestSqlAlchemyWakeUps(WakeUpsConformance):
    @pytest.fixture
    def wake_ups(self, store: SqlAlchemyStore) -> IAgentWakeUps:
        return store.wake_ups

    @pytest.fixture
    def second_wake_ups(self, store: SqlAlchemyStore, second_store: SqlAlchemyStore) -> IAgentWakeUps:
        # Two processes on one file do not hear each other; they find out by looking.
        return store.wake_ups if store.database.is_sqlite else second_store.wake_ups


class TestSqlAlchemyRetention(RetentionConformance):
    @pytest.fixture
    def retention(self, store: SqlAlchemyStore) -> IAgentRetention:
        return store.retention

    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def states(self, store: SqlAlchemyStore) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def signals(self, store: SqlAlchemyStore) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def evidence(self, store: SqlAlchemyStore) -> IAgentEvidenceRepository:
        return store.evidence

    @pytest.fixture
    def conversations(self, store: SqlAlchemyStore) -> ITaskStore:
        return store.conversations


class TestSqlAlchemyOutbox(OutboxConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def outbox(self, store: SqlAlchemyStore) -> IAgentOutbox:
        return store.deliveries

    @pytest.fixture
    def second_outbox(self, second_store: SqlAlchemyStore) -> IAgentOutbox:
        return second_store.deliveries

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass


class TestSqlAlchemyBacklog(BacklogConformance):
    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def states(self, store: SqlAlchemyStore) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def signals(self, store: SqlAlchemyStore) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def leases(self, store: SqlAlchemyStore) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def backlog(self, store: SqlAlchemyStore) -> IAgentBacklog:
        return store.backlog

    @pytest.fixture
    def second_backlog(self, second_store: SqlAlchemyStore) -> IAgentBacklog:
        return second_store.backlog

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass


class TestSqlAlchemyLateOutcomes(LateOutcomesConformance):
    @pytest.fixture
    def late_outcomes(self, store: SqlAlchemyStore) -> IAgentLateOutcomes:
        return store.late_outcomes

    @pytest.fixture
    def second_late_outcomes(self, second_store: SqlAlchemyStore) -> IAgentLateOutcomes:
        return second_store.late_outcomes


class TestSqlAlchemySwitches(SwitchesConformance):
    @pytest.fixture
    def switches(self, store: SqlAlchemyStore) -> IAgentSwitches:
        return store.switches

    @pytest.fixture
    def second_switches(self, second_store: SqlAlchemyStore) -> IAgentSwitches:
        return second_store.switches


class TestSqlAlchemyAuditLog(AuditLogConformance):
    @pytest.fixture
    def audit_log(self, store: SqlAlchemyStore) -> IAgentAuditLog:
        return store.audit_log

    @pytest.fixture
    def second_audit_log(self, second_store: SqlAlchemyStore) -> IAgentAuditLog:
        return second_store.audit_log
