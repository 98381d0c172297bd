"""What becomes of commits that come together, given what is known of their runs. Pure: no I/O.

Each commit sees what those before it in the batch have done. What is taken is gathered as columns, ready to be
written; what is not leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pilotage.adapters.sqlalchemy.mapping import (
    NO_STATE,
    UnstorableError,
    Values,
    event_values,
    evidence_values,
    state_values,
)
from pilotage.adapters.sqlalchemy.rows import row_values, take_out_blobs
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalStage,
    RunKey,
)
from pilotage.agent.state import AgentStatus

Action = tuple[str, str, int]
"""What an action has one row for: its id, the stage and the attempt."""

# Made for every run: calling `dict[str, int]` takes seven times as long as calling `dict`.
_no_receipts: Callable[[], dict[str, tuple[int, int]]] = dict
_no_actions: Callable[[], set[Action]] = set


@dataclass
class Standing:
    """How a run stands: as it was stored, and as the commits of the batch leave it.

    `receipts` has the head and the epoch behind each token that is known. `actions` are those that are recorded
    already, as far as anybody looked: most of the time nobody does, because the unique key of the table says so too.
    """

    stored_head: int = 0
    head: int = 0
    epoch: int = 0
    digest: str = ""
    status: AgentStatus | None = None
    conversation: str | None = None
    parent: str | None = None
    facts: int = 0
    is_stored: bool = False
    state: Mapping[str, Any] = field(default_factory=lambda: NO_STATE)
    receipts: dict[str, tuple[int, int]] = field(default_factory=_no_receipts)
    actions: set[Action] = field(default_factory=_no_actions)

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows any more."""
        return self.status is not None and self.status.is_terminal


class Known:
    """What has to be known to decide: of runs and parents, signals, conversations, and evidence that is looked for."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, Standing] = {}
        self.pending: set[tuple[RunKey, str]] = set()
        self.holders: dict[tuple[str, str], str] = {}
        self.evidence: set[tuple[str, str]] = set()


class Writes:
    """What is to be written, by table."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, Standing] = {}
        self.journal: list[Values] = []
        self.blobs: list[Values] = []
        self.consumed: list[Values] = []
        self.evidence: list[Values] = []
        self.outbox: list[Values] = []
        self.turns: list[tuple[RunKey, ConversationTurns]] = []
        self.settled: list[tuple[str, BudgetSettlement]] = []
        self.leases: dict[RunKey, Values] = {}
        self.ended: list[Values] = []


class Batch:
    """Decides commits one after the other, and gathers what they write."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.writes = Writes()

    def take(self, commit: JournalCommit) -> CommitOutcome:
        """What becomes of a commit: whose token it is, whether the head is where it expects it, whether it is right."""
        run = self.known.runs.get(commit.run) or Standing()
        receipt = run.receipts.get(commit.token)
        if receipt is not None and receipt[1] == run.epoch:
            return Committed(receipt[0])
        # A token of an earlier owner is known too: its rows are there, but it must not act on them any more.
        if receipt is not None or commit.expected_head != run.head:
            return HeadMoved(run.head, run.epoch)
        actions = [(row.action_id, row.stage, row.attempt) for row in commit.rows]
        if (refused := self._objection(commit, run, actions)) is not None:
            return refused
        try:
            drafted = _drafted(commit)
        except UnstorableError as error:
            return CommitRefused(str(error))
        run.actions.update(actions)
        return self._accept(commit, run, *drafted)

    def runs(self) -> list[Values]:
        """The runs that are written about, as columns, in the order in which they are to be locked."""
        return [_as_columns(key, run) for key, run in sorted(self.writes.runs.items(), key=_order)]

    def _objection(
        self, commit: JournalCommit, run: Standing, actions: Sequence[Action]
    ) -> CommitRefused | None:
        reason = (
            _without_row(commit)
            or _foreign_part(commit)
            or _repeated_action(commit, actions, run.actions)
            or self._unavailable_signal(commit)
            or self._repeated_evidence(commit)
            or _turns_elsewhere(commit, run)
        )
        return CommitRefused(reason) if reason else self._closed_parent(commit) or self._conflict(commit)

    def _closed_parent(self, commit: JournalCommit) -> CommitRefused | None:
        if commit.parent is None:
            return None
        parent = self.known.runs.get(commit.parent)
        status = parent.status if parent else None
        if status is not None and not _starts_nothing(status):
            return None
        how = f"is {status.value}" if status else "does not exist"
        words = f"run {commit.run.run_id!r} cannot start: its parent {commit.parent.run_id!r} {how}"
        return CommitRefused(words, CommitRefusal.PARENT_CLOSED)

    def _conflict(self, commit: JournalCommit) -> CommitRefused | None:
        """One run at a time holds a conversation; one that has ended holds none any more."""
        if commit.conversation is None:
            return None
        holder = self.known.holders.get((commit.run.tenant_id, commit.conversation))
        if holder is None:
            return None
        words = f"conversation {commit.conversation!r} is held by run {holder!r}, which has not ended"
        return CommitRefused(words, CommitRefusal.CONVERSATION_HELD)

    def _unavailable_signal(self, commit: JournalCommit) -> str | None:
        taken: set[str] = set()
        for signal_id in commit.consumed_signals:
            if (commit.run, signal_id) not in self.known.pending or signal_id in taken:
                return f"signal {signal_id!r} is unknown to run {commit.run.run_id!r} or was consumed already"
            taken.add(signal_id)
        return None

    def _repeated_evidence(self, commit: JournalCommit) -> str | None:
        seen: set[str] = set()
        for each in commit.evidence:
            if each.id in seen or (commit.run.tenant_id, each.id) in self.known.evidence:
                return f"evidence {each.id!r} is recorded already"
            seen.add(each.id)
        return None

    def _accept(
        self,
        commit: JournalCommit,
        run: Standing,
        rows: list[Values],
        evidence: list[Values],
        outbox: list[Values],
        state: Mapping[str, Any],
    ) -> Committed:
        key, writes = commit.run, self.writes
        for number, event in enumerate(outbox, start=run.facts + 1):
            event["number"] = number
        _advance(run, commit, state)
        self._hold(key, run)
        self.known.runs[key] = writes.runs[key] = run
        writes.journal += rows
        writes.blobs += take_out_blobs(rows)
        writes.outbox += outbox
        if evidence:
            writes.evidence += evidence
            self.known.evidence.update((key.tenant_id, each.id) for each in commit.evidence)
        for signal_id in commit.consumed_signals:
            self.known.pending.discard((key, signal_id))
            writes.consumed.append({**_named(key), "signal_id": signal_id})
        if commit.turns is not None:
            writes.turns.append((key, commit.turns))
        for settlement in commit.settled:
            writes.settled.append((key.tenant_id, settlement))
        if commit.lease is not None:
            asked = {"owner": commit.lease.owner, "granted_seconds": commit.lease.seconds}
            writes.leases[key] = {**_named(key), **asked}
        if run.has_ended:
            # Nobody drives it any more. Whoever takes its lease away does not see one that is granted beside that.
            writes.leases.pop(key, None)
            writes.ended.append(_named(key))
        return Committed(run.head)

    def _hold(self, key: RunKey, run: Standing) -> None:
        if run.conversation is None:
            return
        place = (key.tenant_id, run.conversation)
        if not run.has_ended:
            self.known.holders[place] = key.run_id
        elif self.known.holders.get(place) == key.run_id:
            del self.known.holders[place]


def _drafted(commit: JournalCommit) -> tuple[list[Values], list[Values], list[Values], Mapping[str, Any]]:
    return (
        row_values(commit.run, commit.rows, commit.token),
        [evidence_values(commit.run.tenant_id, each) for each in commit.evidence],
        [event_values(commit.run, event) for event in commit.outbox],
        state_values(commit.state) if commit.state is not None else NO_STATE,
    )


def _advance(run: Standing, commit: JournalCommit, state: Mapping[str, Any]) -> None:
    """Let a run stand as a commit leaves it."""
    last = commit.rows[-1]
    run.head, run.digest = last.seq, last.digest
    for row in commit.rows:
        if row.stage is JournalStage.CLAIMED:
            run.epoch = row.epoch
    run.conversation = run.conversation or commit.conversation
    run.parent = run.parent or _parent_of(commit)
    run.facts += len(commit.outbox)
    if commit.state is not None:
        given_at = run.state["given_at"] or state["given_at"]
        run.status, run.state = commit.state.status, {**state, "given_at": given_at}
    run.receipts[commit.token] = (run.head, run.epoch)


def _parent_of(commit: JournalCommit) -> str | None:
    """The run that a run belongs to, by what its first commit says or by what its state says."""
    if commit.parent is not None:
        return commit.parent.run_id
    named = commit.state.metadata.get("parent") if commit.state else None
    return named if isinstance(named, str) else None


def _starts_nothing(status: AgentStatus) -> bool:
    return status.is_terminal or status is AgentStatus.CANCELLING


def _without_row(commit: JournalCommit) -> str | None:
    """Without a row the head would stay where it was, and nobody else would notice the change."""
    return None if commit.rows else f"the commit of run {commit.run.run_id!r} has no row"


def _foreign_part(commit: JournalCommit) -> str | None:
    """A commit is about its own run; a part that names another one is a mistake of the writer."""
    run, state = commit.run, commit.state
    if state is not None and (state.tenant_id, state.id) != (run.tenant_id, run.run_id):
        return f"state {state.id!r} of tenant {state.tenant_id!r} is not the state of run {run.run_id!r}"
    for each in commit.evidence:
        if each.agent_state_id != run.run_id:
            return f"evidence {each.id!r} belongs to run {each.agent_state_id!r}, not to {run.run_id!r}"
    return None


def _repeated_action(commit: JournalCommit, actions: Sequence[Action], present: set[Action]) -> str | None:
    """An action has one row of each stage per attempt."""
    seen = set(actions)
    if len(seen) == len(actions) and seen.isdisjoint(present):
        return None
    seen.clear()
    for row, action in zip(commit.rows, actions, strict=True):
        if row.stage.has_action and (action in present or action in seen):
            return f"row {row.seq} repeats {row.stage.value!r} of {row.action_id!r}, attempt {row.attempt}"
        seen.add(action)
    return None


def _turns_elsewhere(commit: JournalCommit, run: Standing) -> str | None:
    if commit.turns is None or commit.turns.conversation_id in (commit.conversation, run.conversation):
        return None
    named = commit.turns.conversation_id
    return f"run {commit.run.run_id!r} adds turns to conversation {named!r}, which it does not hold"


def _named(key: RunKey) -> Values:
    return {"tenant_id": key.tenant_id, "run_id": key.run_id}


def _order(run: tuple[RunKey, Standing]) -> tuple[str, str]:
    return run[0].tenant_id, run[0].run_id


def _as_columns(key: RunKey, run: Standing) -> Values:
    return {
        "tenant_id": key.tenant_id,
        "run_id": key.run_id,
        "is_stored": run.is_stored,
        "expected": run.stored_head,
        "head": run.head,
        "epoch": run.epoch,
        "digest": run.digest,
        "ended": run.has_ended,
        "parent_id": run.parent,
        "facts": run.facts,
        "conversation_id": run.conversation,
        **run.state,
    }
