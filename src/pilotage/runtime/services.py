"""The ports and definitions of an application that its runs use, looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.blobs import IBlobs, IMediaSource
from pilotage.agent.ports.budget import IAgentPricing
from pilotage.agent.ports.conversations import ITaskStore
from pilotage.agent.ports.costs import IAgentCosts
from pilotage.agent.ports.handlers import (
    AgentOutputGuardProfile,
    IAgentCancellationCleanup,
    IAgentContextHandler,
    IAgentContextObserver,
    IAgentContextProvider,
    IAgentOutputGuard,
    IAgentToolHandler,
)
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.model import IAgentModel, IAgentModelResolver
from pilotage.agent.ports.observability import IAgentAuditLog, IAgentTelemetry, NoTelemetry
from pilotage.agent.ports.outbox import IAgentOutbox
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.signals import AgentSignal
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, AgentPersistenceConfigurationError
from pilotage.ids import IClock, IIds, SystemClock, SystemIds
from pilotage.runtime.catalogs import Catalogs
from pilotage.runtime.costs import CostsByRun
from pilotage.runtime.door.admission import NO_PORTS, GatePorts, admission_of, open_admission
from pilotage.runtime.door.hooks import Hooks, PortCaller
from pilotage.runtime.door.model import models_held_by
from pilotage.runtime.door.model_retry import MODEL_RETRY_DEFAULTS, ModelRetrySettings
from pilotage.runtime.door.run import Admission
from pilotage.runtime.door.run_source import RunPorts
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.secret_stream import HandedOutSecrets
from pilotage.runtime.journal.chain import Chain, ChainKey
from pilotage.runtime.journal.commits import JournalWriter, OutboxNotifier
from pilotage.runtime.journal.lease import HeldLease, LeaseSettings, Leasing, owner_name
from pilotage.runtime.journal.media import MediaStore
from pilotage.runtime.journal.seals import Seals, SignalSeals
from pilotage.values import value

T = TypeVar("T")


@value
class Provided:
    """The ports that architectures may read; None if not provided, or provided by the built-in no-op."""

    stages: GatePorts = GatePorts()
    memory: IAgentMemory | None = None
    telemetry: IAgentTelemetry | None = None
    audit_log: IAgentAuditLog | None = None


def _optional(port: Callable[..., T]) -> cached_property[T | None]:
    """Return a property with the application's adapter of a port, None where it has none."""
    return cached_property(lambda services: services.app.get_or_none(port))


class Services:
    """The ports of one application as its runs use them."""

    evidence = _optional(IAgentEvidenceRepository)
    outbox = _optional(IAgentOutbox)
    backlog = _optional(IAgentBacklog)
    conversations = _optional(ITaskStore)
    leases = _optional(IAgentLeases)
    late_outcomes = _optional(IAgentLateOutcomes)
    wake_ups = _optional(IAgentWakeUps)
    pricing = _optional(IAgentPricing)
    secrets = _optional(ISecrets)
    tool_handler = _optional(IAgentToolHandler)
    output_guard = _optional(IAgentOutputGuard)
    context_handler = _optional(IAgentContextHandler)
    context_provider = _optional(IAgentContextProvider)
    sealer = _optional(IRecordSealer)
    model_resolver = _optional(IAgentModelResolver)
    blobs = _optional(IBlobs)
    media_source = _optional(IMediaSource)

    def __init__(self, app: Application) -> None:
        self.app = app
        self.driven: set[str] = set()
        """The ids of agents that were checked to have a model."""
        self._leasing: Leasing | None = None
        self._on_leasing: Callable[[Leasing], None] | None = None
        self._admissions: dict[tuple[str, bool], Admission] = {}
        self._handed_out: dict[str, HandedOutSecrets] = {}

    @cached_property
    def clock(self) -> IClock:
        return self.app.get_or_none(IClock) or SystemClock()

    @cached_property
    def ids(self) -> IIds:
        return self.app.get_or_none(IIds) or SystemIds()

    def output_guard_profile(self, definition: AgentDefinition) -> AgentOutputGuardProfile | None:
        """Return the output guards that the spec of an agent names; None where it names none.

        Raises:
            PodNotFoundError: the application has no such profile.
        """
        name = definition.spec.output_guard
        return None if name is None else self.app.get(AgentOutputGuardProfile, name)

    @cached_property
    def journal(self) -> IAgentJournal:
        """Return the journal of durable runs.

        Raises:
            AgentPersistenceConfigurationError: the application has no journal.
        """
        return _required(self.app.get_or_none(IAgentJournal))

    @cached_property
    def states(self) -> IAgentStateRepository:
        return _required(self.app.get_or_none(IAgentStateRepository))

    @cached_property
    def signals(self) -> IAgentSignalRepository:
        return _required(self.app.get_or_none(IAgentSignalRepository))

    @cached_property
    def costs(self) -> IAgentCosts:
        """Return the reports of costs: those of the store, or made from its journals."""
        return self.app.get_or_none(IAgentCosts) or CostsByRun(self.states, self.journal)

    @cached_property
    def writer(self) -> JournalWriter:
        return JournalWriter(self.journal, self.outbox_notifier)

    @cached_property
    def outbox_notifier(self) -> OutboxNotifier:
        """Return the notifier for commits of this process that contain facts."""
        return OutboxNotifier()

    @cached_property
    def lease_settings(self) -> LeaseSettings:
        return self.app.get_or_none(LeaseSettings) or LeaseSettings()

    @cached_property
    def owner(self) -> str:
        """Return the name of this process as an owner of leases."""
        return owner_name(self.ids.uid())

    def new_lease(self, run: RunKey) -> HeldLease | None:
        """Return a lease on a run that is not acquired yet; None if the application has no leases."""
        if self._leasing is None and self.leases is not None:
            self._leasing = Leasing(self.leases, self.owner, self.clock, self.lease_settings)
            if self._on_leasing is not None:
                self._on_leasing(self._leasing)
        return None if self._leasing is None else HeldLease(self._leasing, run)

    async def acquire_lease(self, run: RunKey) -> HeldLease | None:
        """Acquire the lease on a run and return it; None if the application has no leases.

        Raises:
            RunConflictError: another process has the lease.
        """
        lease = self.new_lease(run)
        if lease is not None:
            await lease.acquire()
        return lease

    def watch_leasing(self, watch: Callable[[Leasing], None]) -> None:
        """Call `watch` when this process takes its first lease, or now if it has taken one."""
        self._on_leasing = watch
        if self._leasing is not None:
            watch(self._leasing)

    async def stop_idle_renewer(self) -> None:
        """Stop renewing leases, unless this process still has one."""
        if self._leasing is not None:
            await self._leasing.renewer.stop_if_idle()

    @cached_property
    def gate(self) -> GatePorts:
        return GatePorts.of(self.app)

    @cached_property
    def hooks(self) -> Hooks | None:
        return Hooks(self.gate.hooks, self.port_caller) if self.gate.hooks else None

    @cached_property
    def port_caller(self) -> PortCaller:
        """Return the caller of ports, which enforces the application's time limit."""
        return PortCaller(self.gate.settings)

    def admission(self, definition: AgentDefinition, *, has_deadline: bool) -> Admission:
        """Return the admission of an agent's effects, composed once."""
        key = (definition.agent_id, has_deadline)
        known = self._admissions.get(key)
        if known is None:
            known = self._admissions[key] = (
                open_admission(has_deadline=has_deadline)
                if self.gate == NO_PORTS
                else admission_of(self.gate, self.hooks, key[0], self.port_caller, has_deadline=has_deadline)
            )
        return known

    @cached_property
    def run_ports(self) -> RunPorts:
        """Return the ports that the effects of runs use."""
        gate = self.gate
        return RunPorts(
            clock=self.clock,
            ids=self.ids,
            caller=self.port_caller,
            secrets=self.secrets,
            tool_handler=self.tool_handler,
            recovery_handler=gate.recovery,
            model_retries=self.app.get_or_none(ModelRetrySettings) or MODEL_RETRY_DEFAULTS,
            media=self.media,
        )

    @cached_property
    def media(self) -> MediaStore:
        return MediaStore(lambda: self.blobs, lambda: self.media_source, lambda: self.sealer)

    @cached_property
    def cleanups(self) -> tuple[IAgentCancellationCleanup, ...]:
        return tuple(self.app.get_all(IAgentCancellationCleanup))

    @cached_property
    def context_observers(self) -> tuple[IAgentContextObserver, ...]:
        return tuple(self.app.get_all(IAgentContextObserver))

    @cached_property
    def has_context_ports(self) -> bool:
        """Return whether the application has a say in what models are shown."""
        return bool(self.context_provider or self.context_handler or self.context_observers)

    @cached_property
    def provided(self) -> Provided:
        telemetry = self.app.get_or_none(IAgentTelemetry)
        return Provided(
            self.gate,
            self.app.get_or_none(IAgentMemory),
            None if type(telemetry) is NoTelemetry else telemetry,
            self.app.get_or_none(IAgentAuditLog),
        )

    def handed_out(self, tenant: str) -> HandedOutSecrets | None:
        """Return the secrets that this process has handed out in a tenant; None where nothing provides ISecrets."""
        if self.secrets is None:
            return None
        found = self._handed_out.get(tenant)
        if found is None:
            found = self._handed_out[tenant] = HandedOutSecrets()
        return found

    def redactor(self, definition: AgentDefinition, tenant: str) -> Redactor:
        """Return a redactor for the runs of an agent in a tenant."""
        return Redactor(definition.spec.redaction, self.handed_out(tenant))

    @cached_property
    def record_keys(self) -> tuple[ChainKey, ...]:
        """Return the keys that authenticate records, the current one first; none in an application without a key."""
        return () if self.sealer is None else tuple(map(ChainKey.of, self.sealer.record_keys().values()))

    @property
    def salt_key(self) -> str:
        """Return the tag of the key that salts the fingerprints of runs that begin now; empty without a key."""
        return self.record_keys[0].tag if self.record_keys else ""

    def chain(self, run: RunKey, agent_type: str) -> Chain:
        """Return the chain of a run's rows."""
        return Chain.of(run, agent_type, self.record_keys)

    def seals(self, run: RunKey) -> Seals:
        """Return the sealing and unsealing of a run's records."""
        return Seals(self.sealer, run)

    @cached_property
    def model(self) -> IAgentModel:
        """Return the model of agents that inject none.

        Raises:
            PodNotFoundError: the application has none, or several.
        """
        return self.app.get(IAgentModel)

    def signal_seals(self, run: RunKey) -> SignalSeals:
        """Return the sealing and unsealing of a run's signals."""
        return SignalSeals(self.sealer, run)

    async def pending_signals(self, run: RunKey) -> list[AgentSignal]:
        """Return the pending signals of a run, unsealed.

        Raises:
            RecordSealError: the application's key does not unseal a signal.
        """
        pending, _ = await self.queued_signals(run)
        return pending

    async def queued_signals(self, run: RunKey) -> tuple[list[AgentSignal], list[AgentSignal]]:
        """Return the pending signals of a run, unsealed, and those in its queue that the store refuses.

        Raises:
            RecordSealError: the application's key does not unseal a signal.
        """
        seals, queued = self.signal_seals(run), await self.signals.list_pending(run.run_id)
        refused = [signal for signal in queued if signal.end is not None]
        return [seals.opened(signal) for signal in queued if signal.end is None], refused

    def model_of(self, instance: object) -> IAgentModel:
        """Return the model of a declarative agent: the one it injects, else the application's.

        Raises:
            PodNotFoundError: it injects none, and the application has none or several.
        """
        return next(iter(models_held_by(instance)), None) or self.model

    def instance_of(self, definition: AgentDefinition) -> object:
        """Return the instance of an agent."""
        return self.app.get(definition.target, definition.name)

    def definition_of(self, agent: AgentRef) -> AgentDefinition:
        """Return the definition of an agent of this application, by class or by id.

        Raises:
            AgentDefinitionError: it is no agent, or not one of this application.
        """
        known = None if isinstance(agent, str) else AgentDefinition.get_or_none(agent)
        agent_id = known.agent_id if known else str(getattr(agent, "__name__", agent))
        if agent_id not in self._definitions:
            raise AgentDefinitionError(
                f"agent {agent_id!r} is not part of application {self.app.name!r}. Add it: app.add(...)."
            )
        return self._definitions[agent_id]

    @property
    def agent_ids(self) -> frozenset[str]:
        """Return the ids of the application's agents."""
        return frozenset(self._definitions)

    def tool(self, identity: str) -> AgentToolDescriptor | None:
        """Return the tool of this identity among the pods of the application."""
        return self._tools.get(identity) or self.catalogs.tool(identity)

    def tools_named(self, name: str | None) -> Iterator[AgentToolDescriptor]:
        """Return the tools of a name among the pods and catalogs of the application."""
        yield from (tool for tool in self._tools.values() if tool.schema.name == name)
        yield from self.catalogs.named(name)

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.app)

    @cached_property
    def _tools(self) -> dict[str, AgentToolDescriptor]:
        owners = {node.pod.type_ for node in self.app.graph.nodes if isinstance(node.pod.type_, type)}
        found = [tool for owner in owners for tool in discover_agent_tools(owner).descriptors]
        return {tool.identity.key: tool for tool in found}

    @cached_property
    def _definitions(self) -> dict[str, AgentDefinition]:
        """Return the agents of the application by id; they do not change after the start."""
        pods = [node.pod for node in self.app.graph.nodes]
        return {pod.agent_id: pod for pod in pods if isinstance(pod, AgentDefinition)}


def _required(port: T | None) -> T:
    if port is None:
        raise AgentPersistenceConfigurationError
    return port
