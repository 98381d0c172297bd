"""The tables of the in-memory store, and the commit that writes into several of them.

A commit is decided completely before anything is written, and nothing here awaits: so it is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.blobs import StoredBlob
from pilotage.agent.ports.commit_rules import (
    RunSnapshot,
    decide,
    makes_progress,
    parent_of,
    signal_ends,
    wanted_conversation,
)
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import CommitOutcome, CommitRefused, Committed, JournalCommit, JournalHead
from pilotage.agent.ports.leases import NO_CLAIMS, ClaimRecord, Lease
from pilotage.agent.ports.permissions import Switch, SwitchedOff
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.agent.signals import AgentSignal, AgentSignalEnd
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock
from pilotage.testing.encoded import (
    EncodedEvidence,
    EncodedOutboxEvent,
    EncodedRow,
    EncodedSignal,
    EncodedState,
    UnencodableError,
)
from pilotage.testing.outbox_table import OutboxTable
from pilotage.testing.tenant_spending import SpendingTable
from pilotage.values import value

T = TypeVar("T")


class TenantTable(Generic[T]):
    """Entries by tenant; without a tenant (None), those of all."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], T] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._tenants: dict[str, list[str]] = {}

    def put(self, tenant: str, entry_id: str, entry: T) -> None:
        """Add an entry, or put it in the place of the one with its id."""
        if (tenant, entry_id) not in self._entries:
            self._tenants.setdefault(entry_id, []).append(tenant)
            self._numbers[tenant, entry_id] = len(self._numbers) + 1
        self._entries[tenant, entry_id] = entry

    def find(self, tenant: str | None, entry_id: str) -> T | None:
        """Return the entry with this id, or None."""
        home = self.home(entry_id) if tenant is None else tenant
        return None if home is None else self._entries.get((home, entry_id))

    def home(self, entry_id: str) -> str | None:
        """Return the tenant that has an entry with this id, or None; `AgentDefinitionError` if several have one."""
        match self._tenants.get(entry_id, []):
            case []:
                return None
            case [tenant]:
                return tenant
            case tenants:
                raise AgentDefinitionError(
                    f"the id {entry_id!r} exists for several tenants ({', '.join(map(repr, tenants))}). "
                    "Use a repository of one tenant: MemoryStateRepository(store, tenant=...)."
                )

    def entries(self, tenant: str | None) -> Iterator[T]:
        """Return the entries of a tenant, or of all, in the order they were added."""
        return (entry for (owner, _), entry in self._entries.items() if tenant in (None, owner))

    def drop(self, tenant: str, entry_id: str) -> None:
        """Remove an entry; the numbers of the others stay."""
        if self._entries.pop((tenant, entry_id), None) is not None:
            self._tenants[entry_id].remove(tenant)

    def remove(self, tenant: str, is_selected: Callable[[T], bool]) -> None:
        """Remove the entries of a tenant that the function selects."""
        for owner, entry_id in [key for key, entry in self._entries.items() if is_selected(entry)]:
            if owner == tenant:
                self.drop(owner, entry_id)

    def newest_first(self, tenant: str, before: int | None = None) -> Iterator[tuple[int, T]]:
        """Yield the entries of a tenant, newest first, each with its number; or those before a number."""
        for key in reversed(self._entries):
            number = self._numbers[key]
            if key[0] == tenant and (before is None or number < before):
                yield number, self._entries[key]


class MediaTables:
    """The bytes of media, the times when they were put or held, and the digests that runs hold."""

    def __init__(self) -> None:
        self.contents: dict[tuple[str, str], StoredBlob] = {}
        self.touched: dict[tuple[str, str], datetime] = {}
        self.uses: dict[RunKey, set[str]] = {}

    def release(self, run: RunKey) -> None:
        """End the holding of a run, and remove what no run holds any more."""
        held = self.uses.pop(run, set[str]())
        self.remove_unused((run.tenant_id, digest) for digest in held)

    def remove_unused(self, keys: Iterable[tuple[str, str]]) -> int:
        """Remove those that no run holds, and return how many."""
        used = {(run.tenant_id, digest) for run, held in self.uses.items() for digest in held}
        unused = [key for key in keys if key not in used and key in self.contents]
        for key in unused:
            del self.contents[key], self.touched[key]
        return len(unused)

    def last_touched(self, run: RunKey) -> datetime:
        """Return when what a run holds was last put or held."""
        return max(self.touched[run.tenant_id, digest] for digest in self.uses[run])


@dataclass
class Conversation:
    """One conversation: its turns with their runs, and its last holder, ended or not."""

    turns: list[ConversationTurn] = field(default_factory=list[ConversationTurn])
    added_by: list[RunKey | None] = field(default_factory=list[RunKey | None])
    holder: RunKey | None = None


class ConversationTable:
    """The conversations of all tenants; an unknown one is empty."""

    def __init__(self) -> None:
        self._conversations = TenantTable[Conversation]()
        self._held: dict[RunKey, str] = {}

    def held_by(self, run: RunKey) -> str | None:
        """Return the conversation that a run holds, or held until it ended."""
        return self._held.get(run)

    def find(self, tenant_id: str, conversation_id: str) -> Conversation:
        """Return a conversation to read; an unknown one has no turns and no holder."""
        return self._conversations.find(tenant_id, conversation_id) or Conversation()

    def hold(self, run: RunKey, conversation_id: str) -> None:
        """Let a run hold a conversation."""
        self._conversation(run.tenant_id, conversation_id).holder = run
        self._held[run] = conversation_id

    def append(
        self,
        tenant_id: str,
        conversation_id: str,
        turns: Sequence[ConversationTurn],
        by: RunKey | None = None,
    ) -> None:
        """Add turns at the end, those of a run or of the application."""
        conversation = self._conversation(tenant_id, conversation_id)
        conversation.turns.extend(turns)
        conversation.added_by.extend([by] * len(turns))

    def let_go(self, run: RunKey) -> None:
        """Release the conversation of a pruned run."""
        self._held.pop(run, None)
        for conversation in self._conversations.entries(run.tenant_id):
            if conversation.holder == run:
                conversation.holder = None

    def put_in_place(self, run: RunKey, instead: Callable[[ConversationTurn], ConversationTurn]) -> None:
        """Replace the turns that a run has added."""
        for conversation in self._conversations.entries(run.tenant_id):
            turns = zip(conversation.turns, conversation.added_by, strict=True)
            conversation.turns = [instead(turn) if by == run else turn for turn, by in turns]

    def _conversation(self, tenant_id: str, conversation_id: str) -> Conversation:
        conversation = self.find(tenant_id, conversation_id)
        self._conversations.put(tenant_id, conversation_id, conversation)
        return conversation


@dataclass
class RunJournal(RunSnapshot):
    """The journal of one run: its rows, and the facts that decide a commit."""

    rows: list[EncodedRow] = field(default_factory=list[EncodedRow])
    digest: str = ""

    @property
    def end(self) -> JournalHead | None:
        """The end of the journal, or None before the first row."""
        return JournalHead(self.head, self.epoch, self.digest) if self.head else None


@value
class _Writes:
    """The encoded values of a commit, and its time."""

    now: datetime
    rows: Sequence[EncodedRow]
    state: EncodedState | None
    evidence: Sequence[EncodedEvidence]
    outbox: Sequence[EncodedOutboxEvent]


StoredPin: TypeAlias = tuple[str, "str | None", datetime]
"""The definition of a pin as canonical JSON, its person, its time."""


class MemoryTables:
    """The tables with the runs of all tenants."""

    def __init__(self, clock: IClock) -> None:
        self.clock = clock
        self._started = clock.now() - timedelta(seconds=clock.monotonic())
        self.journals = TenantTable[RunJournal]()
        self.states = TenantTable[EncodedState]()
        self.signals = TenantTable[EncodedSignal]()
        self.queues: dict[RunKey, dict[str, EncodedSignal]] = {}
        self.last_signals: dict[RunKey, int] = {}
        self.evidence = TenantTable[EncodedEvidence]()
        self.conversations = ConversationTable()
        self.parents: dict[RunKey, RunKey] = {}
        self.leases: dict[RunKey, Lease] = {}
        self.media = MediaTables()
        self.claims: dict[RunKey, ClaimRecord] = {}
        self.outbox = OutboxTable()
        self.late_outcomes: dict[tuple[RunKey, str, int, int], tuple[str, datetime]] = {}
        self.switches: dict[Switch, SwitchedOff] = {}
        self.pins: dict[tuple[str, str], StoredPin] = {}
        self.spending = SpendingTable()

    def commit(self, commit: JournalCommit) -> CommitOutcome:
        """Write a commit atomically."""
        journal = self.journals.find(commit.run.tenant_id, commit.run.run_id) or RunJournal()
        journal.last_signal = self.last_signals.get(commit.run, 0)
        decided = decide(commit, journal, self)
        if decided is not None:
            return decided
        try:
            writes = self._prepare(commit)
        except UnencodableError as error:
            return CommitRefused(str(error))
        return self._write(commit, journal, writes)

    def status_of(self, run: RunKey) -> AgentStatus | None:
        stored = self.states.find(run.tenant_id, run.run_id)
        return None if stored is None else stored.bare.status

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        holder = self.conversations.find(tenant_id, conversation_id).holder
        status = self.status_of(holder) if holder else None
        return None if holder is None or (status and status.is_terminal) else holder.run_id

    def turns_in(self, tenant_id: str, conversation_id: str) -> int:
        return len(self.conversations.find(tenant_id, conversation_id).turns)

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        return signal_id in self.queues.get(run, {})

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        return self.evidence.find(tenant_id, evidence_id) is not None

    def run_of(self, tenant: str | None, run_id: str) -> RunKey:
        """Return the run with this id; without a tenant that of any tenant."""
        home = tenant or self.journals.home(run_id) or self.states.home(run_id)
        return RunKey(home or DEFAULT_TENANT, run_id)

    def is_journaled(self, run: RunKey) -> bool:
        """Return whether the run has rows, so that only the journal may write about it."""
        journal = self.journals.find(run.tenant_id, run.run_id)
        return journal is not None and journal.head > 0

    def encoded_state(self, state: AgentState, now: datetime) -> EncodedState:
        """Return the encoded state with the store's timestamps: created when it was first stored, changed now."""
        present = self.states.find(state.tenant_id, state.id)
        made = present.bare.created_at if present else state.created_at
        return EncodedState.of(state, made or now, now)

    def stamped_signal(self, signal: AgentSignal) -> AgentSignal:
        """Return the signal with the store's time, unless it has one."""
        return replace(signal, created_at=signal.created_at or self.clock.now())

    def queue_signal(self, run: RunKey, signal: EncodedSignal) -> None:
        """Put a signal at the end of the queue of its run, with the next number."""
        self.store_signal(run, signal)
        self.queues.setdefault(run, {})[signal.bare.id] = signal

    def store_signal(self, run: RunKey, signal: EncodedSignal) -> None:
        """Store a signal with the next number of its run, outside of the queue."""
        self.signals.put(run.tenant_id, signal.bare.id, signal)
        self.last_signals[run] = self.last_signals.get(run, 0) + 1

    def end_signal(self, run: RunKey, signal_id: str, end: AgentSignalEnd) -> bool:
        """Remove a signal from the queue and store its end; return False if it is not pending."""
        signal = self.queues.get(run, {}).pop(signal_id, None)
        if signal is not None:
            self.signals.put(run.tenant_id, signal_id, signal.ended(end))
        return signal is not None

    def stamped_evidence(self, evidence: AgentEvidence) -> AgentEvidence:
        """Return the evidence with the store's time, unless it has one."""
        return replace(evidence, created_at=evidence.created_at or self.clock.now())

    def _prepare(self, commit: JournalCommit) -> _Writes:
        now = self.clock.now()
        return _Writes(
            now,
            [EncodedRow.of(row, row.created_at or now) for row in commit.rows],
            self.encoded_state(commit.state, now) if commit.state else None,
            [EncodedEvidence.of(self.stamped_evidence(each)) for each in commit.evidence],
            [EncodedOutboxEvent.of(each) for each in commit.outbox],
        )

    def _write(self, commit: JournalCommit, journal: RunJournal, writes: _Writes) -> Committed:
        run, tenant = commit.run, commit.run.tenant_id
        conversation = wanted_conversation(commit, journal)
        journal.rows.extend(writes.rows)
        journal.advance(commit)
        journal.digest = writes.rows[-1].digest
        self.journals.put(tenant, run.run_id, journal)
        if writes.state is not None:
            self.states.put(tenant, run.run_id, writes.state)
        for signal_id, end in signal_ends(commit):
            self.end_signal(run, signal_id, end)
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
        if run in self.claims and makes_progress(commit):
            self.claims[run] = replace(self.claims[run], count=0)
        return Committed(journal.head, journal.last_signal)

    def claims_of(self, run: RunKey) -> ClaimRecord:
        """Return the number of claims of a run that ended without progress."""
        return self.claims.get(run, NO_CLAIMS)

    def new_lease(self, run: RunKey, owner: str, seconds: float) -> Lease:
        """Return a lease from now on, by the monotonic clock."""
        return Lease(run, owner, self._lease_time() + timedelta(seconds=seconds), seconds)

    def lease_of(self, run: RunKey) -> Lease | None:
        """Return the lease of a run, unless it has expired."""
        held = self.leases.get(run)
        return held if held is not None and held.expires_at > self._lease_time() else None

    def _lease_time(self) -> datetime:
        return self._started + timedelta(seconds=self.clock.monotonic())

    def _pass_lease(self, commit: JournalCommit) -> None:
        """Give the lease to the owner that begins a run; remove that of a run that has ended."""
        run, requested = commit.run, commit.lease
        if requested is not None:
            self.leases[run] = self.new_lease(run, requested.owner, requested.seconds)
        if commit.state is not None and commit.state.is_terminal:
            self.leases.pop(run, None)


class OverTables:
    """A port over the tables of a store; another instance is that of another process."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
