"""The store on SQLAlchemy passes the kits on every database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from pilotage.adapters.sqlalchemy.evidence import SqlAlchemyEvidenceRepository
from pilotage.adapters.sqlalchemy.mapping import event_of
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.states import SqlAlchemyStateRepository
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import outbox
from pilotage.agent.ports.blobs import IBlobs
from pilotage.agent.ports.journal import IAgentJournal, OutboxEvent
from pilotage.agent.ports.leases import IAgentWakeUps
from pilotage.agent.ports.observability import IAgentAuditLog
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing.conformance import (
    AuditLogConformance,
    BlobsConformance,
    EvidenceRepositoryConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    StoreConformance,
    TenantRepositories,
)
from pilotage.testing.conformance.kit import PassTime
from pilotage.testing.conformance.transaction import ReadOutbox


@pytest.fixture
def foreign(store: SqlAlchemyStore) -> TenantRepositories:
    return repositories(store, "elsewhere")


def repositories(store: SqlAlchemyStore, tenant: str) -> TenantRepositories:
    """Return the repositories of one tenant."""
    return TenantRepositories(
        SqlAlchemyStateRepository(store.database, tenant),
        SqlAlchemySignalRepository(store.database, tenant),
        SqlAlchemyEvidenceRepository(store.database, tenant),
    )


class TestSqlAlchemyStore(StoreConformance):
    @pytest.fixture
    def second_store(self, second_store: SqlAlchemyStore) -> SqlAlchemyStore:
        return second_store

    @pytest.fixture
    def second_wake_ups(self, store: SqlAlchemyStore, second_store: SqlAlchemyStore) -> IAgentWakeUps:
        # Two processes on one file do not hear each other; they find out by looking.
        return store.wake_ups if store.database.dialect.name == "sqlite" else second_store.wake_ups

    @pytest.fixture
    def read_outbox(self, store: SqlAlchemyStore) -> ReadOutbox:
        def look(connection: Connection) -> list[OutboxEvent]:
            found = connection.execute(select(outbox).order_by(outbox.c.position))
            return [event_of(values) for values in found.mappings()]

        async def read() -> Sequence[OutboxEvent]:
            return await store.database.read(look)

        return read

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass

    @pytest.fixture
    def set_time_of_day(self, set_time_of_day: PassTime) -> PassTime:
        return set_time_of_day


class TestSqlAlchemyRepositoriesOfOneTenant(
    StateRepositoryConformance, SignalRepositoryConformance, EvidenceRepositoryConformance
):
    @pytest.fixture
    def own(self, store: SqlAlchemyStore) -> TenantRepositories:
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


class TestSqlAlchemyBlobs(BlobsConformance):
    @pytest.fixture
    def blobs(self, store: SqlAlchemyStore) -> IBlobs:
        return store.blobs

    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal


class TestBlobsInAFolder(BlobsConformance):
    @pytest.fixture
    def folder_store(self, tmp_path: Path) -> Iterator[SqlAlchemyStore]:
        settings = DatabaseSettings(f"sqlite:///{tmp_path / 'runs.db'}", blobs_folder=str(tmp_path / "blobs"))
        with SqlAlchemyStore.open(settings) as store:
            yield store

    @pytest.fixture
    def blobs(self, folder_store: SqlAlchemyStore) -> IBlobs:
        return folder_store.blobs

    @pytest.fixture
    def journal(self, folder_store: SqlAlchemyStore) -> IAgentJournal:
        return folder_store.journal


class TestSqlAlchemyAuditLog(AuditLogConformance):
    @pytest.fixture
    def audit_log(self, store: SqlAlchemyStore) -> IAgentAuditLog:
        return store.audit_log

    @pytest.fixture
    def second_audit_log(self, second_store: SqlAlchemyStore) -> IAgentAuditLog:
        return second_store.audit_log
