"""The plugin `pilotage.adapters.sqlalchemy`, and its contribution to `agent`: the persistence ports in a database.

Nothing here loads SQLAlchemy. An application without durable agents never opens the database; one with a durable agent,
or whose settings name a database, opens it when it starts, so that problems are reported then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

from pilotage.adapters.sealing import SealingSettings, record_sealer
from pilotage.adapters.sqlalchemy.settings import DEFAULT_URL, URL, DatabaseSettings, sqlite_file
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.blobs import IBlobs
from pilotage.agent.ports.budget import ITenantSpending
from pilotage.agent.ports.conversations import ITaskStore
from pilotage.agent.ports.costs import IAgentCosts
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.memory import IAgentMemory
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
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.container.application import Application
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.plugins import is_installed
from pilotage.container.pod import Pod

T = TypeVar("T")

_PORTS = (
    IAgentJournal,
    IAgentStateRepository,
    IAgentSignalRepository,
    IAgentEvidenceRepository,
    ITaskStore,
    IAgentLeases,
    IAgentWakeUps,
    IAgentLateOutcomes,
    IAgentOutbox,
    IAgentBacklog,
    IAgentRetention,
)


class StoreOnDemand(ILifecycle):
    """The store of an application: opened when it is needed, closed when the application stops."""

    def __init__(self, app: Application, settings: DatabaseSettings) -> None:
        self._app, self._settings = app, settings
        self._lock = Lock()
        self._store: Any = None

    async def start(self) -> None:
        """Open the database if an agent is durable or the settings name it.

        Raises:
            DatabaseStartError: it cannot be used.
        """
        if self._settings.url != DEFAULT_URL or _has_durable_agent(self._app):
            await asyncio.to_thread(self.open)

    async def close(self) -> None:
        """Close the database if it is open."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            await asyncio.to_thread(store.close)

    def open(self) -> Any:
        """Return the open store, a `SqlAlchemyStore`.

        Raises:
            DatabaseStartError: it cannot be used.
        """
        from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore, open_database  # noqa: PLC0415 - loads SQLAlchemy

        with self._lock:
            if self._store is None:
                sealer = self._app.get_or_none(IRecordSealer)
                without = None if self._settings.opens_without_key else dict[str, bytes]()
                keys = without if sealer is None else sealer.record_keys()
                self._store = SqlAlchemyStore(open_database(self._settings, None, keys))
            return self._store

    def port(self, type_: Callable[..., T]) -> T:
        """Return a port of the open store.

        Raises:
            DatabaseStartError: the database cannot be used.
        """
        port: T = self.open().port(type_)
        return port


@Pod(order=-1000)
async def store_on_demand(app: Application, settings: DatabaseSettings) -> AsyncIterator[StoreOnDemand]:
    """Provide the store; made before its users, so that it is closed after them."""
    store = StoreOnDemand(app, settings)
    yield store
    await store.close()


@Pod
def database_settings() -> DatabaseSettings:
    """The settings in the environment."""
    return DatabaseSettings.from_environment()


@Pod(lazy=True)
def agent_journal(store: StoreOnDemand) -> IAgentJournal:
    """The journal in the database."""
    return store.port(IAgentJournal)


@Pod(lazy=True)
def agent_states(store: StoreOnDemand) -> IAgentStateRepository:
    """The states in the database."""
    return store.port(IAgentStateRepository)


@Pod(lazy=True)
def agent_signals(store: StoreOnDemand) -> IAgentSignalRepository:
    """The signals in the database."""
    return store.port(IAgentSignalRepository)


@Pod(lazy=True)
def agent_evidence(store: StoreOnDemand) -> IAgentEvidenceRepository:
    """The evidence in the database."""
    return store.port(IAgentEvidenceRepository)


@Pod(lazy=True)
def agent_conversations(store: StoreOnDemand) -> ITaskStore:
    """The conversations in the database."""
    return store.port(ITaskStore)


@Pod(lazy=True)
def agent_leases(store: StoreOnDemand) -> IAgentLeases:
    """The leases in the database."""
    return store.port(IAgentLeases)


@Pod(lazy=True)
def agent_wake_ups(store: StoreOnDemand) -> IAgentWakeUps:
    """The hints through the database."""
    return store.port(IAgentWakeUps)


@Pod(lazy=True)
def agent_late_outcomes(store: StoreOnDemand) -> IAgentLateOutcomes:
    """Late outcomes in the database."""
    return store.port(IAgentLateOutcomes)


@Pod(lazy=True)
def agent_outbox(store: StoreOnDemand) -> IAgentOutbox:
    """The outbox in the database."""
    return store.port(IAgentOutbox)


@Pod(lazy=True)
def agent_backlog(store: StoreOnDemand) -> IAgentBacklog:
    """The backlog of the database."""
    return store.port(IAgentBacklog)


@Pod(lazy=True)
def agent_retention(store: StoreOnDemand) -> IAgentRetention:
    """Retention in the database."""
    return store.port(IAgentRetention)


@Pod(lazy=True)
def tenant_spending(store: StoreOnDemand) -> ITenantSpending:
    """The spending of tenants, in the database."""
    return store.port(ITenantSpending)


@Pod(lazy=True)
def agent_blobs(store: StoreOnDemand) -> IBlobs:
    """The bytes of media in the database, or in files of a folder beside it."""
    return store.port(IBlobs)


@Pod(lazy=True)
def agent_costs(store: StoreOnDemand) -> IAgentCosts:
    """What runs cost, from the database."""
    return store.port(IAgentCosts)


@Pod(lazy=True)
def tool_pins(store: StoreOnDemand) -> IToolPins:
    """The accepted definitions of tools, in the database."""
    return store.port(IToolPins)


@Pod(lazy=True)
def sealer_beside_the_database(settings: DatabaseSettings) -> IRecordSealer:
    """The sealer of an embedded database: its key file is beside the database file, and made with it.

    Raises:
        DatabaseKeyError: the database was written with a key, and there is no key file.
    """
    from pilotage.adapters.sqlalchemy.known_keys import keys_of_file, missing_key  # noqa: PLC0415 - loads SQLAlchemy

    file = sqlite_file(settings.url) or Path(settings.url)
    key_file = key_beside(file)
    if not key_file.exists() and (known := keys_of_file(file)):
        raise missing_key(str(file), known)
    key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make = cast("Callable[[SealingSettings], IRecordSealer]", record_sealer)
    return make(SealingSettings(key_file, creates_key=True))


def key_beside(file: Path) -> Path:
    """Return the file with the key of an embedded database."""
    return file.with_suffix(".key")


@Pod(lazy=True)
def agent_switches(store: StoreOnDemand) -> IAgentSwitches:
    """Switches in the database, for applications that add this: every action of a run reads them."""
    return store.port(IAgentSwitches)


@Pod(lazy=True)
def agent_audit_log(store: StoreOnDemand) -> IAgentAuditLog:
    """The audit log in the database, for applications that add this."""
    return store.port(IAgentAuditLog)


@Pod(lazy=True)
def agent_memory(store: StoreOnDemand) -> IAgentMemory:
    """Memories in the database; contributed where an agent or a pod wants a memory."""
    return store.port(IAgentMemory)


_FACTORIES = (
    agent_journal,
    agent_states,
    agent_signals,
    agent_evidence,
    agent_conversations,
    agent_leases,
    agent_wake_ups,
    agent_late_outcomes,
    agent_outbox,
    agent_backlog,
    agent_retention,
    tenant_spending,
    agent_costs,
)


def initialize(app: Application) -> None:
    """Do nothing: `contribute` adds the ports to the agents of the application."""


def contribute(app: Application) -> None:
    """Register the ports, unless the extra is missing or the application has a store: two share no transaction."""
    if not is_installed("sqlalchemy") or any(app.contains(port) for port in _PORTS):
        return
    if not app.contains(DatabaseSettings):
        app.add(database_settings)
    app.add(store_on_demand, *_FACTORIES)
    if not app.contains(IBlobs):
        app.add(agent_blobs)
    if not app.contains(IToolPins):
        app.add(tool_pins)
    if not app.contains(IAgentMemory) and _wants_memory(app):
        app.add(agent_memory)
    if not app.contains(IRecordSealer) and _is_embedded(app) and is_installed("cryptography"):
        app.add(sealer_beside_the_database)


def _is_embedded(app: Application) -> bool:
    """Return whether the database is a file of this machine, as far as settings and environment say."""
    given = app.graph.given(DatabaseSettings)
    return sqlite_file(given.url if given else os.environ.get(URL) or DEFAULT_URL) is not None


def _wants_memory(app: Application) -> bool:
    """Return whether a memory would be used: otherwise ephemeral runs would open the database for it."""
    graph = app.graph
    for node in graph.nodes:
        if isinstance(node.pod, AgentDefinition) and node.pod.spec.memory is not None:
            return True
        for edge in graph.edges(node):
            if edge.dependency.type_ is IAgentMemory:
                return True
    return False


def _has_durable_agent(app: Application) -> bool:
    pods = [node.pod for node in app.graph.nodes]
    return any(isinstance(pod, AgentDefinition) and pod.spec.is_durable for pod in pods)
