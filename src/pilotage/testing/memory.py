"""The persistence ports in memory, for tests: one store, and the ports over it.

The other ports see a commit of the journal at once and as a whole. A test of a crash reuses the store and makes
everything else anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.blobs import IBlobs
from pilotage.agent.ports.budget import ITenantSpending
from pilotage.agent.ports.commit_rules import refuse_after_end, refuse_empty
from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead, OutboxEvent
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.observability import AuditEntry, IAgentAuditLog
from pilotage.agent.ports.outbox import IAgentOutbox
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.ports.repositories import (
    EvidencePage,
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentRetention,
    IAgentSignalRepository,
    IAgentStateRepository,
    LateOutcome,
    RunPage,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.agent.principal import DEFAULT_TENANT, Principal
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_blank, reject_naive, reject_negative, reject_not_positive
from pilotage.errors import (
    AgentDefinitionError,
    CallerError,
    EvidenceNotFoundError,
    RunNotFoundError,
    SignalNotFoundError,
)
from pilotage.ids import IClock, SystemClock
from pilotage.jsonvalue import as_object, canonical_json, parsed
from pilotage.testing.blobs import MemoryBlobs
from pilotage.testing.coordination import MemoryBacklog, MemoryLeases, MemoryWakeUps
from pilotage.testing.encoded import EncodedEvidence, EncodedSignal, EncodedState, UnencodableError
from pilotage.testing.operations import MemorySwitches, MemoryToolPins
from pilotage.testing.outbox import MemoryOutbox
from pilotage.testing.retention import MemoryRetention
from pilotage.testing.sealer import MemorySealer
from pilotage.testing.tables import ConversationTable, MemoryTables, OverTables
from pilotage.testing.tenant_spending import MemoryTenantSpending

_RESUMABLE = frozenset({AgentStatus.ACTIVE, AgentStatus.INTERRUPTED, AgentStatus.CANCELLING})


class MemoryStore:
    """One store in memory, and its ports over the runs of all tenants.

    Timestamps come from the clock it is given. `Application.add(*store.ports)` makes the ports pods. With the `tables`
    of another store it is that store as a second process has it.
    """

    def __init__(self, clock: IClock | None = None, *, tables: MemoryTables | None = None) -> None:
        self.tables = MemoryTables(clock or SystemClock()) if tables is None else tables
        self.journal = MemoryJournal(self)
        self.states = MemoryStateRepository(self)
        self.signals = MemorySignalRepository(self)
        self.evidence = MemoryEvidenceRepository(self)
        self.conversations = MemoryTaskStore(self.tables.conversations)
        self.leases = MemoryLeases(self.tables)
        self.late_outcomes = MemoryLateOutcomes(self.tables)
        self.wake_ups = MemoryWakeUps()
        self.deliveries = MemoryOutbox(self.tables)
        self.backlog = MemoryBacklog(self.tables)
        self.retention = MemoryRetention(self.tables)
        self.sealer = MemorySealer()
        self.switches = MemorySwitches(self.tables)
        self.tool_pins = MemoryToolPins(self.tables)
        self.blobs = MemoryBlobs(self.tables)
        self.spending = MemoryTenantSpending(self.tables.spending, self.tables.clock)

    @property
    def ports(
        self,
    ) -> tuple[
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
        IRecordSealer,
        ITenantSpending,
        IBlobs,
        IToolPins,
    ]:
        """All ports, for `Application.add`."""
        repositories = (self.states, self.signals, self.evidence)
        work = (self.leases, self.wake_ups, self.late_outcomes, self.deliveries, self.backlog, self.retention)
        beside = (self.sealer, self.spending, self.blobs, self.tool_pins)
        return self.journal, *repositories, self.conversations, *work, *beside

    @property
    def outbox(self) -> tuple[tuple[RunKey, OutboxEvent], ...]:
        """The outbox events of all commits in order, each with the run it comes from."""
        return tuple((entry.run, entry.event) for entry in self.tables.outbox.read())


class MemoryJournal(IAgentJournal):
    """The journal in memory; it refuses what a database would refuse."""

    def __init__(self, store: MemoryStore) -> None:
        self._tables = store.tables

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self._tables.commit(commit) for commit in commits]

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        journal = self._tables.journals.find(run.tenant_id, run.run_id)
        if journal is None:
            return
        # The row `n` has the index `n - 1`, unless a test has removed one.
        is_whole = len(journal.rows) == journal.head
        for row in journal.rows[after:] if is_whole else journal.rows:
            if is_whole or row.seq > after:
                yield row.read()

    async def head(self, run: RunKey) -> JournalHead | None:
        journal = self._tables.journals.find(run.tenant_id, run.run_id)
        return journal.end if journal else None


_NO_HEAD = JournalHead(0, 0, "")


class MemoryStateRepository(IAgentStateRepository):
    """States in memory. With a `tenant` it has only that tenant's runs, without one those of all."""

    def __init__(self, store: MemoryStore, tenant: str | None = None) -> None:
        self._tables, self._tenant = store.tables, tenant

    async def get(self, state_id: str) -> AgentState:
        state = await self.get_or_none(state_id)
        if state is None:
            raise RunNotFoundError(f"there is no run {state_id!r}.")
        return state

    async def get_or_none(self, state_id: str) -> AgentState | None:
        stored = self._tables.states.find(self._tenant, state_id)
        return self._read(stored) if stored else None

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead] | None:
        state = await self.get_or_none(state_id)
        if state is None:
            return None
        journal = self._tables.journals.find(state.tenant_id, state_id)
        return state, (journal.end if journal else None) or _NO_HEAD

    async def save(self, state: AgentState) -> AgentState:
        run = RunKey(state.tenant_id, state.id)
        if self._tenant not in (None, state.tenant_id):
            raise RunNotFoundError(f"there is no run {state.id!r}.")
        _refuse_if_journaled(self._tables, run, "MemoryStateRepository.save")
        try:
            stored = self._tables.encoded_state(state, self._tables.clock.now())
        except UnencodableError as error:
            raise AgentDefinitionError(f"MemoryStateRepository.save: {error}.") from error
        self._tables.states.put(run.tenant_id, run.run_id, stored)
        return self._read(stored)

    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        return self._list(frozenset({status}))

    async def list_resume_candidates(self) -> Sequence[AgentState]:
        return self._list(_RESUMABLE)

    async def list_runs(
        self,
        tenant_id: str,
        *,
        statuses: Collection[AgentStatus] = (),
        agent_type: str | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        reject_not_positive("MemoryStateRepository.list_runs", limit=limit)
        reject_naive("MemoryStateRepository.list_runs", since=since, until=until)
        before = None if after is None else _number_of(after)
        if self._tenant not in (None, tenant_id):
            return RunPage(())
        found = [
            (number, stored)
            for number, stored in self._tables.states.newest_first(tenant_id, before)
            if (not statuses or stored.bare.status in statuses)
            and agent_type in (None, stored.bare.agent_type)
            if conversation_id
            in (None, self._tables.conversations.held_by(RunKey(tenant_id, stored.bare.id)))
            if _lies_between(since, stored.bare.created_at, until)
        ]
        runs = tuple(self._read(stored) for _, stored in found[:limit])
        return RunPage(runs, str(found[limit - 1][0]) if len(found) > limit else None)

    def _list(self, statuses: frozenset[AgentStatus]) -> Sequence[AgentState]:
        stored = self._tables.states.entries(self._tenant)
        return [self._read(each) for each in stored if each.bare.status in statuses]

    def _read(self, stored: EncodedState) -> AgentState:
        queue = self._tables.queues.get(RunKey(stored.bare.tenant_id, stored.bare.id), {})
        return replace(stored.read(), pending_signal_count=len(queue))


class MemorySignalRepository(IAgentSignalRepository):
    """Signals in memory. With a `tenant` it has only that tenant's signals, without one those of all."""

    def __init__(self, store: MemoryStore, tenant: str | None = None) -> None:
        self._tables, self._tenant = store.tables, tenant

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return (await self.append_all([signal]))[signal.id]

    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        runs = {each.id: self._tables.run_of(self._tenant, each.agent_state_id) for each in signals}
        found = {each: self._tables.signals.find(run.tenant_id, each) for each, run in runs.items()}
        present = {each: stored.read() for each, stored in found.items() if stored is not None}
        if present:
            return present
        for run in runs.values():
            refuse_after_end(run, self._tables.status_of(run))
        for each in signals:
            refuse_empty(each)
        try:
            stamped = [EncodedSignal.of(self._tables.stamped_signal(each)) for each in signals]
        except UnencodableError as error:
            raise AgentDefinitionError(f"MemorySignalRepository.append: {error}.") from error
        for stored in stamped:
            self._tables.queue_signal(runs[stored.bare.id], stored)
        return {stored.bare.id: stored.read() for stored in stamped}

    async def record_refused(self, signal: AgentSignal) -> AgentSignal:
        run = self._tables.run_of(self._tenant, signal.agent_state_id)
        present = self._tables.signals.find(run.tenant_id, signal.id)
        if present is not None:
            return present.read()
        try:
            stored = EncodedSignal.of(self._tables.stamped_signal(signal)).ended(AgentSignalEnd.REFUSED)
        except UnencodableError as error:
            raise AgentDefinitionError(f"MemorySignalRepository.record_refused: {error}.") from error
        self._tables.store_signal(run, stored)
        return stored.read()

    async def list_answers(self, state_id: str) -> Sequence[AgentSignal]:
        return self._listed(state_id, AgentSignalKind.APPROVAL_DECISION)

    async def list_steering(self, state_id: str) -> Sequence[AgentSignal]:
        return self._listed(state_id, AgentSignalKind.STEERING_INSTRUCTION)

    def _listed(self, state_id: str, kind: AgentSignalKind) -> Sequence[AgentSignal]:
        tenant = self._tables.run_of(self._tenant, state_id).tenant_id
        stored = self._tables.signals.entries(tenant)
        return [
            each.read() for each in stored if each.bare.agent_state_id == state_id and each.bare.kind is kind
        ]

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        queue = self._tables.queues.get(self._tables.run_of(self._tenant, state_id), {})
        return [signal.read() for signal in queue.values()]

    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        queues = {run: queue for run, queue in self._tables.queues.items() if queue and run in runs}
        return {run: next(reversed(queues[run])) for run in queues if self._tenant in (None, run.tenant_id)}

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        signal = self._tables.signals.find(self._tenant, signal_id)
        tenant = self._tenant or self._tables.signals.home(signal_id)
        if signal is None or tenant is None:
            raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
        run = RunKey(tenant, signal.bare.agent_state_id)
        _refuse_if_journaled(self._tables, run, "MemorySignalRepository.mark_consumed")
        if not self._tables.end_signal(run, signal_id, AgentSignalEnd.TAKEN):
            raise SignalNotFoundError(f"there is no pending signal {signal_id!r}.")
        return signal.read()


class MemoryEvidenceRepository(IAgentEvidenceRepository):
    """Evidence in memory. With a `tenant` it has only that tenant's evidence, without one that of all."""

    def __init__(self, store: MemoryStore, tenant: str | None = None) -> None:
        self._tables, self._tenant = store.tables, tenant

    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        run = self._tables.run_of(self._tenant, evidence.agent_state_id)
        if evidence.kind is not AgentEvidenceKind.EVALUATION:
            _refuse_if_journaled(self._tables, run, "MemoryEvidenceRepository.append")
        if self._tables.evidence.find(run.tenant_id, evidence.id) is not None:
            raise AgentDefinitionError(
                f"MemoryEvidenceRepository.append: evidence {evidence.id!r} is recorded already, and what is "
                "recorded does not change. Give the new record an id of its own."
            )
        try:
            stored = EncodedEvidence.of(self._tables.stamped_evidence(evidence))
        except UnencodableError as error:
            raise AgentDefinitionError(f"MemoryEvidenceRepository.append: {error}.") from error
        self._tables.evidence.put(run.tenant_id, evidence.id, stored)
        return stored.read()

    async def get(self, evidence_id: str) -> AgentEvidence:
        stored = self._tables.evidence.find(self._tenant, evidence_id)
        if stored is None:
            raise EvidenceNotFoundError(f"there is no evidence {evidence_id!r}.")
        return stored.read()

    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        tenant = self._tables.run_of(self._tenant, state_id).tenant_id
        stored = self._tables.evidence.entries(tenant)
        return [each.read() for each in stored if each.bare.agent_state_id == state_id]

    async def page_by_state(
        self, state_id: str, *, after: str | None = None, limit: int = 50
    ) -> EvidencePage:
        reject_not_positive("MemoryEvidenceRepository.page_by_state", limit=limit)
        begin = 0 if after is None else _number_of(after)
        found = await self.list_by_state(state_id)
        end = begin + limit
        return EvidencePage(tuple(found[begin:end]), str(end) if len(found) > end else None)

    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        stored = self._tables.evidence.entries(self._tenant)
        return [each.read() for each in stored if each.bare.manifest_ref == manifest_ref]


class MemoryLateOutcomes(OverTables, IAgentLateOutcomes):
    """Late outcomes in the tables of a store, as every process over it has them."""

    async def append(self, outcome: LateOutcome) -> None:
        key = (outcome.run, outcome.action_id, outcome.attempt, outcome.epoch)
        try:
            text = canonical_json(outcome.view)
        except (TypeError, ValueError) as error:
            raise AgentDefinitionError(f"MemoryLateOutcomes.append: {error}.") from error
        self._tables.late_outcomes.setdefault(key, (text, self._tables.clock.now()))

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        return [
            LateOutcome(*key, as_object(parsed(text)), at)
            for key, (text, at) in self._tables.late_outcomes.items()
            if key[:2] == (run, action_id)
        ]


class MemoryAuditLog(IAgentAuditLog):
    """Audit entries in a list; they outlive the "processes" of a test if the log does."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        known = {(each.principal.tenant, each.run_id, each.evidence_ref) for each in self.entries}
        if (
            entry.evidence_ref is None
            or (entry.principal.tenant, entry.run_id, entry.evidence_ref) not in known
        ):
            self.entries.append(entry)

    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        return [
            entry
            for entry in self.entries
            if entry.run_id == run_id and entry.principal.tenant == principal.tenant
        ]


class MemoryTaskStore(ITaskStore):
    """The turns of a store's conversations: `MemoryTaskStore(store.tables.conversations)`."""

    is_journaled = keeps_trust = True

    def __init__(self, conversations: ConversationTable) -> None:
        self._conversations = conversations

    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        return await self.tenant_history(DEFAULT_TENANT, conversation_id)

    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        await self.append_tenant_turns(DEFAULT_TENANT, conversation_id, turns)

    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        reject_negative("MemoryTaskStore.tenant_history", up_to=up_to)
        return self._conversations.find(tenant_id, conversation_id).turns[:up_to]

    async def append_tenant_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        owner = "MemoryTaskStore.append_tenant_turns"
        reject_blank(owner, tenant_id=tenant_id, conversation_id=conversation_id)
        self._conversations.append(tenant_id, conversation_id, turns)


def _lies_between(since: datetime | None, moment: datetime | None, until: datetime | None) -> bool:
    return moment is None or ((since is None or since <= moment) and (until is None or moment < until))


def _number_of(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit()):
        raise CallerError(f"there is no page after {cursor!r}. Give the cursor of a page as `after`.")
    return int(cursor)


def _refuse_if_journaled(tables: MemoryTables, run: RunKey, method: str) -> None:
    if tables.is_journaled(run):
        raise AgentDefinitionError(
            f"{method}: run {run.run_id!r} has a journal, and then only the journal writes about it. "
            "Put the change into a JournalCommit."
        )
