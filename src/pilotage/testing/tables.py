"""The tables behind the in-memory ports, and the one step that writes into several of them.

A commit is decided completely before anything is written, and nothing here awaits: so it happens as a whole
or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.commit_rules import RunSnapshot, decide, parent_of, wanted_conversation
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    Committed,
    JournalCommit,
    JournalHead,
    RunKey,
)
from pilotage.agent.ports.leases import Lease
from pilotage.agent.ports.switches import Switch, SwitchedOff
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.ids import IClock
from pilotage.testing.conversations import ConversationTable
from pilotage.testing.kept import KeptEvent, KeptEvidence, KeptRow, KeptSignal, KeptState, UnkeepableError
from pilotage.testing.outbox_table import OutboxTable
from pilotage.testing.tenant_spending import SpendingTable
from pilotage.testing.tenant_table import TenantTable
from pilotage.values import value


@dataclass
class RunJournal(RunSnapshot):
    """The journal of one run: its rows, and what a commit is decided by."""

    rows: list[KeptRow] = field(default_factory=list[KeptRow])

    @property
    def end(self) -> JournalHead | None:
        """Where the journal ends, or None before the first row."""
        return JournalHead(self.head, self.epoch, self.rows[-1].digest) if self.rows else None


@value
class _Writes:
    """What a commit puts into the tables, ready to be written, and when."""

    now: datetime
    rows: Sequence[KeptRow]
    state: KeptState | None
    evidence: Sequence[KeptEvidence]
    outbox: Sequence[KeptEvent]


class MemoryTables:
    """What is kept of the runs of all tenants, table by table."""

    def __init__(self, clock: IClock) -> None:
        self.clock = clock
        self.journals = TenantTable[RunJournal]()
        self.states = TenantTable[KeptState]()
        self.signals = TenantTable[KeptSignal]()
        self.queues: dict[RunKey, dict[str, KeptSignal]] = {}
        self.evidence = TenantTable[KeptEvidence]()
        self.conversations = ConversationTable()
        self.parents: dict[RunKey, RunKey] = {}
        self.leases: dict[RunKey, Lease] = {}
        self.outbox = OutboxTable()
        self.late_outcomes: dict[tuple[RunKey, str, int, int], tuple[str, datetime]] = {}
        self.switches: dict[Switch, SwitchedOff] = {}
        self.spending = SpendingTable()

    def commit(self, commit: JournalCommit) -> CommitOutcome:
        """Write all of a commit, or nothing of it."""
        journal = self.journals.find(commit.run.tenant_id, commit.run.run_id) or RunJournal()
        decided = decide(commit, journal, self)
        if decided is not None:
            return decided
        try:
            writes = self._prepare(commit)
        except UnkeepableError as error:
            return CommitRefused(str(error))
        return self._write(commit, journal, writes)

    def status_of(self, run: RunKey) -> AgentStatus | None:
        kept = self.states.find(run.tenant_id, run.run_id)
        return None if kept is None else kept.bare.status

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        holder = self.conversations.find(tenant_id, conversation_id).holder
        status = self.status_of(holder) if holder else None
        return None if holder is None or (status and status.is_terminal) else holder.run_id

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        return signal_id in self.queues.get(run, {})

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        return self.evidence.find(tenant_id, evidence_id) is not None

    def run_of(self, tenant: str | None, run_id: str) -> RunKey:
        """The run with this id; without a tenant the one that any tenant has, or may come to have."""
        home = tenant or self.journals.home(run_id) or self.states.home(run_id)
        return RunKey(home or DEFAULT_TENANT, run_id)

    def is_journaled(self, run: RunKey) -> bool:
        """Whether the run has rows, so that only the journal may write about it."""
        journal = self.journals.find(run.tenant_id, run.run_id)
        return journal is not None and journal.head > 0

    def kept_state(self, state: AgentState, now: datetime) -> KeptState:
        """The state as it is kept, with the store's timestamps: made when it was first stored, changed now."""
        present = self.states.find(state.tenant_id, state.id)
        made = present.bare.created_at if present else state.created_at
        return KeptState.of(state, made or now, now)

    def stamped_signal(self, signal: AgentSignal) -> AgentSignal:
        """The signal with the store's time, where it came without one."""
        return replace(signal, created_at=signal.created_at or self.clock.now())

    def stamped_evidence(self, evidence: AgentEvidence) -> AgentEvidence:
        """The evidence with the store's time, where it came without one."""
        return replace(evidence, created_at=evidence.created_at or self.clock.now())

    def _prepare(self, commit: JournalCommit) -> _Writes:
        now = self.clock.now()
        return _Writes(
            now,
            [KeptRow.of(row, now) for row in commit.rows],
            self.kept_state(commit.state, now) if commit.state else None,
            [KeptEvidence.of(self.stamped_evidence(each)) for each in commit.evidence],
            [KeptEvent.of(each) for each in commit.outbox],
        )

    def _write(self, commit: JournalCommit, journal: RunJournal, writes: _Writes) -> Committed:
        run, tenant = commit.run, commit.run.tenant_id
        conversation = wanted_conversation(commit, journal)
        journal.rows.extend(writes.rows)
        journal.advance(commit)
        self.journals.put(tenant, run.run_id, journal)
        if writes.state is not None:
            self.states.put(tenant, run.run_id, writes.state)
        for signal_id in commit.consumed_signals:
            del self.queues[run][signal_id]
        for each in writes.evidence:
            self.evidence.put(tenant, each.bare.id, each)
        if (parent := parent_of(commit)) is not None:
            self.parents.setdefault(run, RunKey(tenant, parent))
        if conversation is not None:
            self.conversations.hold(run, conversation)
        if commit.turns is not None:
            self.conversations.append(tenant, commit.turns.conversation_id, commit.turns.turns, run)
        self.outbox.add(run, writes.outbox, writes.now)
        for settlement in commit.settled:
            self.spending.settle(commit.run.tenant_id, settlement, self.clock.now())
        self._pass_lease(commit)
        return Committed(journal.head)

    def _pass_lease(self, commit: JournalCommit) -> None:
        """Who begins a run drives it; one that has ended nobody drives any more."""
        run, asked = commit.run, commit.lease
        if asked is not None:
            end = self.clock.now() + timedelta(seconds=asked.seconds)
            self.leases[run] = Lease(run, asked.owner, end, asked.seconds)
        if commit.state is not None and commit.state.is_terminal:
            self.leases.pop(run, None)
