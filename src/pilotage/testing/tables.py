"""The tables behind the in-memory ports, and the one step that writes into several of them.

A commit is decided completely before anything is written, and nothing here awaits: so it happens as a whole
or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalHead,
    JournalStage,
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

_Action = tuple[str, JournalStage, int]


@value
class _Receipt:
    """What a token's commit led to: the head after it, and the epoch of the run's owner then."""

    head: int
    epoch: int


@dataclass
class RunJournal:
    """The journal of one run: its rows, and what must be looked up in them."""

    rows: list[KeptRow] = field(default_factory=list[KeptRow])
    actions: set[_Action] = field(default_factory=set[_Action])
    receipts: dict[str, _Receipt] = field(default_factory=dict[str, _Receipt])
    epoch: int = 0

    @property
    def head(self) -> JournalHead | None:
        """Where the journal ends, or None before the first row."""
        return JournalHead(len(self.rows), self.epoch, self.rows[-1].digest) if self.rows else None


@value
class _Writes:
    """What a commit puts into the tables, ready to be written, and when."""

    now: datetime
    rows: Sequence[KeptRow]
    actions: Sequence[_Action]
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
        receipt = journal.receipts.get(commit.token)
        if receipt is not None and receipt.epoch == journal.epoch:
            return Committed(receipt.head)
        # A token of an earlier owner is known too: its rows are there, but it must not act on them any more.
        if receipt is not None or commit.expected_head != len(journal.rows):
            return HeadMoved(len(journal.rows), journal.epoch)
        try:
            writes = self._prepare(commit)
        except UnkeepableError as error:
            return CommitRefused(str(error))
        return self._objection(commit, writes.actions, journal) or self._write(commit, journal, writes)

    def run_of(self, tenant: str | None, run_id: str) -> RunKey:
        """The run with this id; without a tenant the one that any tenant has, or may come to have."""
        home = tenant or self.journals.home(run_id) or self.states.home(run_id)
        return RunKey(home or DEFAULT_TENANT, run_id)

    def is_journaled(self, run: RunKey) -> bool:
        """Whether the run has rows, so that only the journal may write about it."""
        journal = self.journals.find(run.tenant_id, run.run_id)
        return journal is not None and journal.head is not None

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
            [(row.action_id, row.stage, row.attempt) for row in commit.rows],
            self.kept_state(commit.state, now) if commit.state else None,
            [KeptEvidence.of(self.stamped_evidence(each)) for each in commit.evidence],
            [KeptEvent.of(each) for each in commit.outbox],
        )

    def _objection(
        self, commit: JournalCommit, actions: Sequence[_Action], journal: RunJournal
    ) -> CommitRefused | None:
        """Why the commit cannot be taken, or None."""
        reason = (
            _foreign_part(commit)
            or _repeated_action(commit, actions, journal.actions)
            or self._unavailable_signal(commit)
            or self._repeated_evidence(commit)
            or self._turns_elsewhere(commit)
        )
        return CommitRefused(reason) if reason else self._closed_parent(commit) or self._conflict(commit)

    def _closed_parent(self, commit: JournalCommit) -> CommitRefused | None:
        if commit.parent is None:
            return None
        kept = self.states.find(commit.parent.tenant_id, commit.parent.run_id)
        if kept is not None and not _starts_nothing(kept.bare.status):
            return None
        how = f"is {kept.bare.status.value}" if kept else "does not exist"
        words = f"run {commit.run.run_id!r} cannot start: its parent {commit.parent.run_id!r} {how}"
        return CommitRefused(words, CommitRefusal.PARENT_CLOSED)

    def _conflict(self, commit: JournalCommit) -> CommitRefused | None:
        """One run at a time holds a conversation; one that has ended holds none any more."""
        if commit.conversation is None:
            return None
        holder = self.conversations.find(commit.run.tenant_id, commit.conversation).holder
        kept = self.states.find(holder.tenant_id, holder.run_id) if holder else None
        if holder is None or (kept is not None and kept.bare.is_terminal):
            return None
        words = f"conversation {commit.conversation!r} is held by run {holder.run_id!r}, which has not ended"
        return CommitRefused(words, CommitRefusal.CONVERSATION_HELD)

    def _turns_elsewhere(self, commit: JournalCommit) -> str | None:
        if commit.turns is None or commit.turns.conversation_id == commit.conversation:
            return None
        named = commit.turns.conversation_id
        if self.conversations.find(commit.run.tenant_id, named).holder == commit.run:
            return None
        return f"run {commit.run.run_id!r} adds turns to conversation {named!r}, which it does not hold"

    def _unavailable_signal(self, commit: JournalCommit) -> str | None:
        if not commit.consumed_signals:
            return None
        pending = set(self.queues.get(commit.run, {}))
        for signal_id in commit.consumed_signals:
            if signal_id not in pending:
                return f"signal {signal_id!r} is unknown to run {commit.run.run_id!r} or was consumed already"
            pending.remove(signal_id)
        return None

    def _repeated_evidence(self, commit: JournalCommit) -> str | None:
        seen: set[str] = set()
        for each in commit.evidence:
            if each.id in seen or self.evidence.find(commit.run.tenant_id, each.id) is not None:
                return f"evidence {each.id!r} is recorded already"
            seen.add(each.id)
        return None

    def _write(self, commit: JournalCommit, journal: RunJournal, writes: _Writes) -> Committed:
        run, tenant = commit.run, commit.run.tenant_id
        journal.rows.extend(writes.rows)
        journal.actions.update(writes.actions)
        claims = [row.epoch for row in commit.rows if row.stage is JournalStage.CLAIMED]
        journal.epoch = claims[-1] if claims else journal.epoch
        journal.receipts[commit.token] = _Receipt(len(journal.rows), journal.epoch)
        self.journals.put(tenant, run.run_id, journal)
        if writes.state is not None:
            self.states.put(tenant, run.run_id, writes.state)
        for signal_id in commit.consumed_signals:
            del self.queues[run][signal_id]
        for each in writes.evidence:
            self.evidence.put(tenant, each.bare.id, each)
        if commit.parent is not None:
            self.parents[run] = commit.parent
        if commit.conversation is not None:
            self.conversations.hold(run, commit.conversation)
        if commit.turns is not None:
            self.conversations.append(tenant, commit.turns.conversation_id, commit.turns.turns, run)
        self.outbox.add(run, writes.outbox, writes.now)
        for settlement in commit.settled:
            self.spending.settle(commit.run.tenant_id, settlement, self.clock.now())
        self._pass_lease(commit)
        return Committed(len(journal.rows))

    def _pass_lease(self, commit: JournalCommit) -> None:
        """Who begins a run drives it; one that has ended nobody drives any more."""
        run, asked = commit.run, commit.lease
        if asked is not None:
            end = self.clock.now() + timedelta(seconds=asked.seconds)
            self.leases[run] = Lease(run, asked.owner, end, asked.seconds)
        if commit.state is not None and commit.state.is_terminal:
            self.leases.pop(run, None)


def _starts_nothing(status: AgentStatus) -> bool:
    return status.is_terminal or status is AgentStatus.CANCELLING


def _foreign_part(commit: JournalCommit) -> str | None:
    """A commit is about its own run; a part that names another one is a mistake of the writer."""
    run, state = commit.run, commit.state
    if state is not None and (state.tenant_id, state.id) != (run.tenant_id, run.run_id):
        return f"state {state.id!r} of tenant {state.tenant_id!r} is not the state of run {run.run_id!r}"
    for each in commit.evidence:
        if each.agent_state_id != run.run_id:
            return f"evidence {each.id!r} belongs to run {each.agent_state_id!r}, not to {run.run_id!r}"
    return None


def _repeated_action(commit: JournalCommit, actions: Sequence[_Action], present: set[_Action]) -> str | None:
    """An action has one row of each stage per attempt."""
    if present.isdisjoint(actions) and len(set(actions)) == len(actions):
        return None
    seen = set(present)
    for row, action in zip(commit.rows, actions, strict=True):
        if action in seen and row.stage.has_action:
            return f"row {row.seq} repeats {row.stage.value!r} of {row.action_id!r}, attempt {row.attempt}"
        seen.add(action)
    return None
