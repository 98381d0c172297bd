"""What becomes of commits that come together, given what is known of their runs. Pure: no I/O.

Each commit sees what those before it in the batch have done. What is taken is gathered as columns, ready to be
written; what is not leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotage.adapters.sqlalchemy.mapping import (
    NO_STATE,
    UnstorableError,
    Values,
    event_values,
    evidence_values,
    state_values,
)
from pilotage.adapters.sqlalchemy.objections import objection
from pilotage.adapters.sqlalchemy.rows import row_values, take_out_blobs
from pilotage.adapters.sqlalchemy.standing import Known, Standing
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalStage,
    RunKey,
)


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
        if (refused := objection(commit, run, actions, self.known)) is not None:
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
