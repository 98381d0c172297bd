"""Every method of every port of a store, called for another tenant: nothing is found, nothing leaks, nothing changes.

The methods are read from the ports: a new one has no probe, and fails here until it has. `make attack` tries all of
them on PostgreSQL too, `make test` one.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from pilotage.adapters.sqlalchemy.evidence import SqlAlchemyEvidenceRepository
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.states import SqlAlchemyStateRepository
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.blobs import StoredBlob
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetWindow,
)
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import Committed, OutboxEvent
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.agent.ports.observability import AuditEntry
from pilotage.agent.ports.permissions import Switch
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import LateOutcome
from pilotage.agent.principal import Principal
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import CallerError, StartupError
from pilotage.ids import SystemClock
from pilotage.safety.trust import TrustLabel
from pilotage.testing.conformance.kit import claim, commit_of, row
from tests.adapters.sqlalchemy.databases import BACKENDS

pytestmark = [
    pytest.mark.attack("tenants"),
    pytest.mark.parametrize("database_settings", BACKENDS, indirect=True),
]

CANARY = "canary-7f3a"
HOME, ELSEWHERE = "acme", "globex"
RUN_ID, CONVERSATION, SIGNAL, EVIDENCE, MANIFEST = "run-1", "talk-1", "signal-1", "evidence-1", "manifest-1"
OURS, THEIRS = RunKey(HOME, RUN_ID), RunKey(ELSEWHERE, RUN_ID)
USER = "ada"
MEDIA = "5" * 64
NOW = SystemClock().now

FOR_ALL_TENANTS = {
    ("IAgentJournal", "entry_counts"): "the counts of all tenants, for the one who compares the database",
    ("IAgentBacklog", "agents"): "the ids of agents with work, for the worker of the application",
    ("IAgentBacklog", "claim"): "the worker of the application drives the runs of all tenants",
    ("IAgentOutbox", "claim"): "the relay of the application delivers the facts of all tenants",
    ("IAgentWakeUps", "notify"): "a hint that carries an id and nothing else",
    ("IAgentWakeUps", "subscribe"): "hints for the process",
    ("IAgentSwitches", "list_off"): "the switches of the operator",
    ("IAgentSwitches", "turn_off"): "the switches of the operator",
    ("IAgentSwitches", "turn_on"): "the switches of the operator",
    **dict.fromkeys(
        [("IToolPins", name) for name in ("pins_of", "list_pins", "accept", "accept_first", "withdraw")],
        "the tools that the operator accepted for all tenants",
    ),
}
"""Methods that are for the application itself, and why."""


EMPTY = ["pilotage_blobs"]
"""Tables that the tenant at home has nothing in."""


def _state(tenant: str) -> AgentState:
    situation = AgentSituation.WAITING_FOR_APPROVAL.value
    return AgentState(RUN_ID, "clerk", *situation, tenant_id=tenant, current_activity=CANARY)


def _evidence(evidence_id: str = EVIDENCE) -> AgentEvidence:
    return AgentEvidence(
        evidence_id, RUN_ID, AgentEvidenceKind.CONTEXT, {"text": CANARY}, manifest_ref=MANIFEST
    )


def _signal(signal_id: str, kind: AgentSignalKind = AgentSignalKind.APPROVAL_DECISION) -> AgentSignal:
    return AgentSignal(signal_id, RUN_ID, kind, {"text": CANARY})


def _memory(tenant: str) -> MemoryScope:
    return MemoryScope(tenant, USER)


def _item() -> MemoryItem:
    return MemoryItem("item-1", MemoryKind.FACT, CANARY, TrustLabel())


def _reserved() -> BudgetReservation:
    return BudgetReservation("reservation-1", BudgetAmount(steps=3))


async def furnish(store: SqlAlchemyStore) -> None:
    """Give the tenant at home something in every table."""
    first = commit_of(claim(1, 1), row(2, record={"text": CANARY}, view={"text": CANARY}), run=OURS)
    fact = OutboxEvent("AgentRunPaused", 1, {"text": CANARY})
    whole = replace(
        first, state=_state(HOME), evidence=(_evidence(),), outbox=(fact,), conversation=CONVERSATION
    )
    (written,) = await store.journal.commit([whole])
    assert isinstance(written, Committed), written
    signals = SqlAlchemySignalRepository(store.database, HOME)
    await signals.append(_signal(SIGNAL))
    await signals.record_refused(_signal("refused"))
    assert await store.leases.acquire(OURS, "owner", 60)
    await store.backlog.begin(OURS, 60)
    await store.late_outcomes.append(LateOutcome(OURS, "root/pay#2", 1, 1, {"text": CANARY}))
    await store.conversations.append_tenant_turns(HOME, CONVERSATION, [ConversationTurn("user", CANARY)])
    await store.memory.remember(_memory(HOME), _item())
    await store.audit_log.record(AuditEntry(RUN_ID, Principal(USER, HOME), CANARY, "done", NOW()))
    for held in (_reserved(), replace(_reserved(), id="reservation-2")):
        await store.spending.hold(HOME, held, [BudgetWindow(BudgetPeriod.DAY, max_steps=50)], seconds=60)
    await store.blobs.put(HOME, MEDIA, StoredBlob(CANARY.encode()), held_by=OURS)
    await store.spending.settle(HOME, BudgetSettlement(_reserved(), BudgetAmount(steps=7)))


def ports_of(store: SqlAlchemyStore) -> SimpleNamespace:
    """The ports as somebody of another tenant has them."""
    database = store.database
    return SimpleNamespace(
        states=SqlAlchemyStateRepository(database, ELSEWHERE),
        signals=SqlAlchemySignalRepository(database, ELSEWHERE),
        evidence=SqlAlchemyEvidenceRepository(database, ELSEWHERE),
        store=store,
    )


def content(store: SqlAlchemyStore) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the tenant at home, by table."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with store.database.engines.writing.begin() as connection:
        for table in metadata.sorted_tables:
            if "tenant_id" in table.c:
                wanted = select(table).where(table.c.tenant_id == HOME).order_by(*table.primary_key)
                found[table.name] = [tuple(each) for each in connection.execute(wanted)]
    return found


Probe = Callable[[SimpleNamespace], Any]

PROBES: dict[tuple[str, str], Probe] = {
    ("IAgentStateRepository", "get"): lambda at: at.states.get(RUN_ID),
    ("IAgentStateRepository", "get_or_none"): lambda at: at.states.get_or_none(RUN_ID),
    ("IAgentStateRepository", "get_with_head"): lambda at: at.states.get_with_head(RUN_ID),
    ("IAgentStateRepository", "save"): lambda at: at.states.save(
        AgentState(RUN_ID, "clerk", AgentStatus.ACTIVE, tenant_id=ELSEWHERE)
    ),
    ("IAgentStateRepository", "list_by_status"): lambda at: at.states.list_by_status(AgentStatus.INTERRUPTED),
    ("IAgentStateRepository", "list_resume_candidates"): lambda at: at.states.list_resume_candidates(),
    ("IAgentStateRepository", "list_runs"): lambda at: at.states.list_runs(ELSEWHERE),
    ("IAgentSignalRepository", "append"): lambda at: at.signals.append(
        AgentSignal(SIGNAL, RUN_ID, AgentSignalKind.CANCEL)
    ),
    ("IAgentSignalRepository", "append_all"): lambda at: at.signals.append_all(
        [AgentSignal(SIGNAL, RUN_ID, AgentSignalKind.CANCEL)]
    ),
    ("IAgentSignalRepository", "record_refused"): lambda at: at.signals.record_refused(
        AgentSignal(SIGNAL, RUN_ID, AgentSignalKind.CANCEL)
    ),
    ("IAgentSignalRepository", "list_answers"): lambda at: at.signals.list_answers(RUN_ID),
    ("IAgentSignalRepository", "list_pending"): lambda at: at.signals.list_pending(RUN_ID),
    ("IAgentSignalRepository", "newest_pending"): lambda at: at.signals.newest_pending({THEIRS}),
    ("IAgentSignalRepository", "list_steering"): lambda at: at.signals.list_steering(RUN_ID),
    ("IAgentSignalRepository", "mark_consumed"): lambda at: at.signals.mark_consumed(SIGNAL),
    ("IAgentEvidenceRepository", "append"): lambda at: at.evidence.append(
        AgentEvidence(EVIDENCE, RUN_ID, AgentEvidenceKind.CONTEXT, {})
    ),
    ("IAgentEvidenceRepository", "get"): lambda at: at.evidence.get(EVIDENCE),
    ("IAgentEvidenceRepository", "list_by_state"): lambda at: at.evidence.list_by_state(RUN_ID),
    ("IAgentEvidenceRepository", "page_by_state"): lambda at: at.evidence.page_by_state(RUN_ID),
    ("IAgentEvidenceRepository", "list_by_manifest_ref"): lambda at: at.evidence.list_by_manifest_ref(
        MANIFEST
    ),
    ("IAgentLateOutcomes", "append"): lambda at: at.store.late_outcomes.append(
        LateOutcome(THEIRS, "root/pay#2", 1, 1, {})
    ),
    ("IAgentLateOutcomes", "list_by_action"): lambda at: at.store.late_outcomes.list_by_action(
        THEIRS, "root/pay#2"
    ),
    ("IAgentRetention", "erase"): lambda at: at.store.retention.erase(THEIRS),
    ("IAgentRetention", "prune"): lambda at: at.store.retention.prune(
        ELSEWHERE, ended_before=NOW() + timedelta(days=365)
    ),
    ("IAgentJournal", "commit"): lambda at: at.store.journal.commit([commit_of(row(3), run=THEIRS)]),
    ("IAgentJournal", "damage"): lambda at: at.store.journal.damage(THEIRS),
    ("IAgentJournal", "head"): lambda at: at.store.journal.head(THEIRS),
    ("IAgentJournal", "read"): lambda at: at.store.journal.read(THEIRS),
    ("IAgentLeases", "acquire"): lambda at: at.store.leases.acquire(THEIRS, "thief", 60),
    ("IAgentLeases", "holder"): lambda at: at.store.leases.holder(THEIRS),
    ("IAgentLeases", "release"): lambda at: at.store.leases.release(THEIRS, "owner"),
    ("IAgentLeases", "renew"): lambda at: at.store.leases.renew(THEIRS, "owner", 60),
    ("IAgentLeases", "renew_all"): lambda at: at.store.leases.renew_all([THEIRS], "owner", 60),
    # These two are for the worker, and about processes: it gets their names, and those alone.
    ("IAgentLeases", "owners"): lambda at: at.store.leases.owners(),
    ("IAgentLeases", "release_all"): lambda at: _released(at.store),
    ("IAgentBacklog", "begin"): lambda at: at.store.backlog.begin(THEIRS, 0),
    ("IAgentBacklog", "claims_of"): lambda at: at.store.backlog.claims_of(THEIRS),
    ("IAgentBacklog", "forget"): lambda at: at.store.backlog.forget(THEIRS),
    ("IAgentBacklog", "settle"): lambda at: at.store.backlog.settle(THEIRS, counts=False),
    # These two are about the default tenant, which is neither home nor elsewhere.
    ("ITaskStore", "append_turns"): lambda at: at.store.conversations.append_turns(
        CONVERSATION, [ConversationTurn("user", "x")]
    ),
    ("ITaskStore", "load_history"): lambda at: at.store.conversations.load_history(CONVERSATION),
    ("ITaskStore", "append_tenant_turns"): lambda at: at.store.conversations.append_tenant_turns(
        ELSEWHERE, CONVERSATION, [ConversationTurn("user", "x")]
    ),
    ("ITaskStore", "tenant_history"): lambda at: at.store.conversations.tenant_history(
        ELSEWHERE, CONVERSATION
    ),
    ("IAgentMemory", "export"): lambda at: at.store.memory.export(_memory(ELSEWHERE)),
    ("IAgentMemory", "forget"): lambda at: at.store.memory.forget(_memory(ELSEWHERE)),
    ("IAgentMemory", "trim"): lambda at: at.store.memory.trim(_memory(ELSEWHERE), 0),
    ("IAgentMemory", "remember_if_agreed"): lambda at: at.store.memory.remember_if_agreed(
        _memory(ELSEWHERE), MemoryItem("item-2", MemoryKind.FACT, "x", TrustLabel()), "an attack"
    ),
    ("IAgentMemory", "recall"): lambda at: at.store.memory.recall(_memory(ELSEWHERE), CANARY),
    ("IAgentMemory", "remember"): lambda at: at.store.memory.remember(
        _memory(ELSEWHERE), MemoryItem("item-1", MemoryKind.FACT, "x", TrustLabel())
    ),
    ("IAgentOutbox", "list_parked"): lambda at: at.store.deliveries.list_parked(ELSEWHERE),
    ("IAgentOutbox", "read"): lambda at: at.store.deliveries.read(THEIRS),
    ("IAgentOutbox", "redeliver"): lambda at: at.store.deliveries.redeliver(THEIRS, 1),
    ("IAgentOutbox", "release"): lambda at: at.store.deliveries.release("owner", THEIRS),
    ("IAgentOutbox", "delivered"): lambda at: _delivered(at.store),
    ("IAgentOutbox", "failed"): lambda at: _failed(at.store),
    ("IAgentAuditLog", "list_by_run"): lambda at: at.store.audit_log.list_by_run(
        Principal(USER, ELSEWHERE), RUN_ID
    ),
    ("IAgentAuditLog", "record"): lambda at: at.store.audit_log.record(
        AuditEntry(RUN_ID, Principal(USER, ELSEWHERE), "x", "done", NOW())
    ),
    ("IAgentSwitches", "first_off"): lambda at: _switch_of_home(at.store),
    ("IBlobs", "put"): lambda at: at.store.blobs.put(ELSEWHERE, MEDIA, StoredBlob(b"x"), held_by=THEIRS),
    ("IBlobs", "hold"): lambda at: at.store.blobs.hold(THEIRS, [MEDIA]),
    ("IBlobs", "get"): lambda at: at.store.blobs.get(ELSEWHERE, MEDIA),
    ("IBlobs", "held"): lambda at: at.store.blobs.held(THEIRS),
    ("IBlobs", "release"): lambda at: at.store.blobs.release(THEIRS),
    ("IBlobs", "prune"): lambda at: at.store.blobs.prune(ELSEWHERE, unused_since=NOW() + timedelta(days=365)),
    ("IAgentCosts", "entries"): lambda at: at.store.costs.entries(ELSEWHERE),
    ("ITenantSpending", "hold"): lambda at: at.store.spending.hold(
        ELSEWHERE, _reserved(), [BudgetWindow(BudgetPeriod.DAY, max_steps=5)], seconds=60
    ),
    ("ITenantSpending", "settle"): lambda at: at.store.spending.settle(
        ELSEWHERE, BudgetSettlement(_reserved(), BudgetAmount(steps=1))
    ),
    ("ITenantSpending", "spent"): lambda at: at.store.spending.spent(ELSEWHERE, BudgetPeriod.DAY),
}


async def _released(store: SqlAlchemyStore) -> None:
    assert await store.leases.acquire(THEIRS, "thief", 60)
    await store.leases.release_all("thief")
    assert await store.leases.holder(THEIRS) is None


async def _entry_elsewhere(store: SqlAlchemyStore) -> Any:
    """The fact at home, with its run in the other tenant."""
    (entry,) = [each async for each in store.deliveries.read(OURS)]
    return replace(entry, run=THEIRS)


async def _delivered(store: SqlAlchemyStore) -> None:
    await store.deliveries.delivered("owner", [await _entry_elsewhere(store)])


async def _failed(store: SqlAlchemyStore) -> None:
    await store.deliveries.failed("owner", await _entry_elsewhere(store), "x", None)


async def _switch_of_home(store: SqlAlchemyStore) -> object:
    await store.switches.turn_off(Switch.tenant(HOME), reason=CANARY)
    return await store.switches.first_off([Switch.tenant(ELSEWHERE)])


def methods_of(port: object) -> Iterator[tuple[str, str]]:
    """The methods of the ports that an adapter implements."""
    for kind in type(port).__mro__:
        if kind.__module__.startswith("pilotage.agent.ports") and inspect.isabstract(kind):
            for name, _ in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    yield kind.__name__, name


def all_methods(store: SqlAlchemyStore) -> set[tuple[str, str]]:
    ports = (*store.ports, store.switches, store.audit_log, store.memory)
    return {method for port in ports for method in methods_of(port)}


def test_every_method_of_every_port_is_probed(store: SqlAlchemyStore) -> None:
    assert PROBES.keys() | FOR_ALL_TENANTS.keys() == all_methods(store)
    assert not PROBES.keys() & FOR_ALL_TENANTS.keys()


async def _result(probed: Awaitable[object] | AsyncIterator[object]) -> object:
    return [each async for each in probed] if isinstance(probed, AsyncIterator) else await probed


@pytest.mark.parametrize("method", PROBES, ids=".".join)
async def test_another_tenant_finds_changes_and_learns_nothing(
    request: pytest.FixtureRequest,
    method: tuple[str, str],
    database_settings: DatabaseSettings,
    exhaustive: bool,
) -> None:
    is_on_server = not database_settings.url.startswith("sqlite")
    if is_on_server and not exhaustive and method != ("IAgentSignalRepository", "list_answers"):
        pytest.skip("make attack tries it on PostgreSQL")
    store: SqlAlchemyStore = request.getfixturevalue("store")
    await furnish(store)
    before = content(store)
    assert [table for table, rows in before.items() if not rows] == EMPTY
    try:
        said = repr(await _result(PROBES[method](ports_of(store))))
    except (CallerError, StartupError) as refused:
        said = str(refused)
    assert CANARY not in said
    assert HOME not in said
    assert content(store) == before
