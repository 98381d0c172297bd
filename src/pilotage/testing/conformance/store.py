"""`StoreConformance`: the kits of all ports of a store as one class, from one fixture."""

from __future__ import annotations

from typing import Any, Protocol

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
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.testing.conformance.backlog import BacklogConformance
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance
from pilotage.testing.conformance.evidence import EvidenceRepositoryConformance, LateOutcomesConformance
from pilotage.testing.conformance.journal import JournalConformance
from pilotage.testing.conformance.lease_commits import LeaseCommitConformance
from pilotage.testing.conformance.leases import LeasesConformance
from pilotage.testing.conformance.outbox import OutboxConformance
from pilotage.testing.conformance.retention import RetentionConformance
from pilotage.testing.conformance.signal_commits import SignalCommitConformance
from pilotage.testing.conformance.signals import SignalRepositoryConformance
from pilotage.testing.conformance.spending import SpendingConformance
from pilotage.testing.conformance.states import StateRepositoryConformance
from pilotage.testing.conformance.switches import SwitchesConformance
from pilotage.testing.conformance.tool_pins import ToolPinsConformance
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
    @property
    def tool_pins(self) -> IToolPins: ...


@value
class TenantRepositories:
    """The repositories of a store that are bound to one tenant."""

    states: IAgentStateRepository
    signals: IAgentSignalRepository
    evidence: IAgentEvidenceRepository


def _port_of_store(name: str) -> Any:
    """Return a fixture: the port under this name of the store."""

    def port(self: object, store: StoreUnderTest) -> object:
        return getattr(store, name)

    return pytest.fixture(port)


def _port_of_second_store(name: str) -> Any:
    def port(self: object, second_store: StoreUnderTest) -> object:
        return getattr(second_store, name)

    return pytest.fixture(port)


def _foreign_repository(name: str) -> Any:
    def repository(self: object, foreign: TenantRepositories) -> object:
        return getattr(foreign, name)

    return pytest.fixture(repository)


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
    ToolPinsConformance,
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

    journal, second_journal = _port_of_store("journal"), _port_of_second_store("journal")
    states, foreign_states = _port_of_store("states"), _foreign_repository("states")
    signals, second_signals = _port_of_store("signals"), _port_of_second_store("signals")
    foreign_signals = _foreign_repository("signals")
    evidence, foreign_evidence = _port_of_store("evidence"), _foreign_repository("evidence")
    conversations, retention = _port_of_store("conversations"), _port_of_store("retention")
    leases, second_leases = _port_of_store("leases"), _port_of_second_store("leases")
    wake_ups, second_wake_ups = _port_of_store("wake_ups"), _port_of_second_store("wake_ups")
    late_outcomes, second_late_outcomes = (
        _port_of_store("late_outcomes"),
        _port_of_second_store("late_outcomes"),
    )
    outbox, second_outbox = _port_of_store("deliveries"), _port_of_second_store("deliveries")
    backlog, second_backlog = _port_of_store("backlog"), _port_of_second_store("backlog")
    switches, second_switches = _port_of_store("switches"), _port_of_second_store("switches")
    tool_pins, second_tool_pins = _port_of_store("tool_pins"), _port_of_second_store("tool_pins")
    spending, second_spending = _port_of_store("spending"), _port_of_second_store("spending")
