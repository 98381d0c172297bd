"""`StoreConformance`: the kits of all ports of a store as one class, from one fixture."""

from __future__ import annotations

from typing import Protocol

import pytest

from pilotage.agent.ports.budget import ITenantSpending
from pilotage.agent.ports.conversations import ITaskStore
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.outbox import IAgentOutbox
from pilotage.agent.ports.permissions import IAgentSwitches
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentRetention,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.testing.conformance.backlog import BacklogConformance
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance
from pilotage.testing.conformance.evidence import EvidenceRepositoryConformance, LateOutcomesConformance
from pilotage.testing.conformance.journal import JournalConformance
from pilotage.testing.conformance.leases import LeaseCommitConformance, LeasesConformance
from pilotage.testing.conformance.outbox import OutboxConformance
from pilotage.testing.conformance.repositories import SignalRepositoryConformance, StateRepositoryConformance
from pilotage.testing.conformance.retention import RetentionConformance
from pilotage.testing.conformance.signal_commits import SignalCommitConformance
from pilotage.testing.conformance.spending import SpendingConformance
from pilotage.testing.conformance.switches import SwitchesConformance
from pilotage.testing.conformance.transaction import TransactionConformance
from pilotage.testing.conformance.wakeups import WakeUpsConformance
from pilotage.values import value


class StoreUnderTest(Protocol):
    """The ports of a store, under the names that `StoreConformance` asks for."""

    @property
    def journal(self) -> IAgentJournal: ...
    @property
    def states(self) -> IAgentStateRepository: ...
    @property
    def signals(self) -> IAgentSignalRepository: ...
    @property
    def evidence(self) -> IAgentEvidenceRepository: ...
    @property
    def conversations(self) -> ITaskStore: ...
    @property
    def leases(self) -> IAgentLeases: ...
    @property
    def wake_ups(self) -> IAgentWakeUps: ...
    @property
    def late_outcomes(self) -> IAgentLateOutcomes: ...
    @property
    def deliveries(self) -> IAgentOutbox: ...
    @property
    def backlog(self) -> IAgentBacklog: ...
    @property
    def retention(self) -> IAgentRetention: ...
    @property
    def switches(self) -> IAgentSwitches: ...
    @property
    def spending(self) -> ITenantSpending: ...


@value
class TenantRepositories:
    """The repositories of a store that are bound to one tenant."""

    states: IAgentStateRepository
    signals: IAgentSignalRepository
    evidence: IAgentEvidenceRepository


class StoreConformance(
    LeasesConformance,
    LeaseCommitConformance,
    JournalConformance,
    TransactionConformance,
    SignalCommitConformance,
    StateRepositoryConformance,
    SignalRepositoryConformance,
    EvidenceRepositoryConformance,
    TaskStoreConformance,
    ConversationCommitConformance,
    BacklogConformance,
    WakeUpsConformance,
    OutboxConformance,
    RetentionConformance,
    LateOutcomesConformance,
    SwitchesConformance,
    SpendingConformance,
):
    """Conformance tests of a store that has all ports of durable runs.

    Fixtures to give: `store`, an empty `StoreUnderTest`; `foreign`, its `TenantRepositories` for
    the tenant "elsewhere"; `read_outbox`, an async function that returns the events of all runs in the order of their
    commits; `pass_time`, an async function after which the store's clock has gone on by that many seconds; and, where
    a store can be opened twice, `second_store`: the same store as a second process has it. A fixture of one port
    (`second_wake_ups`, `set_time_of_day`, ...) may be given as its own kit says.

    `AuditLogConformance` and `MemoryConformance` are kits of their own, because these ports often have their own store.
    """

    @pytest.fixture
    def second_store(self, store: StoreUnderTest) -> StoreUnderTest:
        return store

    @pytest.fixture
    def journal(self, store: StoreUnderTest) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def second_journal(self, second_store: StoreUnderTest) -> IAgentJournal:
        return second_store.journal

    @pytest.fixture
    def states(self, store: StoreUnderTest) -> IAgentStateRepository:
        return store.states

    @pytest.fixture
    def foreign_states(self, foreign: TenantRepositories) -> IAgentStateRepository:
        return foreign.states

    @pytest.fixture
    def signals(self, store: StoreUnderTest) -> IAgentSignalRepository:
        return store.signals

    @pytest.fixture
    def second_signals(self, second_store: StoreUnderTest) -> IAgentSignalRepository:
        return second_store.signals

    @pytest.fixture
    def foreign_signals(self, foreign: TenantRepositories) -> IAgentSignalRepository:
        return foreign.signals

    @pytest.fixture
    def evidence(self, store: StoreUnderTest) -> IAgentEvidenceRepository:
        return store.evidence

    @pytest.fixture
    def foreign_evidence(self, foreign: TenantRepositories) -> IAgentEvidenceRepository:
        return foreign.evidence

    @pytest.fixture
    def conversations(self, store: StoreUnderTest) -> ITaskStore:
        return store.conversations

    @pytest.fixture
    def leases(self, store: StoreUnderTest) -> IAgentLeases:
        return store.leases

    @pytest.fixture
    def second_leases(self, second_store: StoreUnderTest) -> IAgentLeases:
        return second_store.leases

    @pytest.fixture
    def wake_ups(self, store: StoreUnderTest) -> IAgentWakeUps:
        return store.wake_ups

    @pytest.fixture
    def second_wake_ups(self, second_store: StoreUnderTest) -> IAgentWakeUps:
        return second_store.wake_ups

    @pytest.fixture
    def late_outcomes(self, store: StoreUnderTest) -> IAgentLateOutcomes:
        return store.late_outcomes

    @pytest.fixture
    def second_late_outcomes(self, second_store: StoreUnderTest) -> IAgentLateOutcomes:
        return second_store.late_outcomes

    @pytest.fixture
    def outbox(self, store: StoreUnderTest) -> IAgentOutbox:
        return store.deliveries

    @pytest.fixture
    def second_outbox(self, second_store: StoreUnderTest) -> IAgentOutbox:
        return second_store.deliveries

    @pytest.fixture
    def backlog(self, store: StoreUnderTest) -> IAgentBacklog:
        return store.backlog

    @pytest.fixture
    def second_backlog(self, second_store: StoreUnderTest) -> IAgentBacklog:
        return second_store.backlog

    @pytest.fixture
    def retention(self, store: StoreUnderTest) -> IAgentRetention:
        return store.retention

    @pytest.fixture
    def switches(self, store: StoreUnderTest) -> IAgentSwitches:
        return store.switches

    @pytest.fixture
    def second_switches(self, second_store: StoreUnderTest) -> IAgentSwitches:
        return second_store.switches

    @pytest.fixture
    def spending(self, store: StoreUnderTest) -> ITenantSpending:
        return store.spending

    @pytest.fixture
    def second_spending(self, second_store: StoreUnderTest) -> ITenantSpending:
        return second_store.spending
