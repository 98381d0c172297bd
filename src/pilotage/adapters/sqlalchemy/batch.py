"""What becomes of commits that come together, given what is known of their runs. Pure: no I/O.

Each commit sees what those before it in the batch have done. What is taken is gathered as columns, ready to be
written; what is not leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotage.adapters.sqlalchemy.known import Known, StoredRun
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
from pilotage.agent.ports.commit_rules import decide, parent_of
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    Committed,
    JournalCommit,
    RunKey,
)


class Writes:
    """What is to be written, by table."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, StoredRun] = {}
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
        """Return the outcome of a commit, and gather what it writes where it is taken."""
        run = self.known.runs.get(commit.run) or StoredRun()
        if (decided := decide(commit, run, self.known)) is not None:
            return decided
        try:
            drafted = _drafted(commit)
        except UnstorableError as error:
            return CommitRefused(str(error))
        return self._accept(commit, run, *drafted)

    def runs(self) -> list[Values]:
        """The runs that are written about, as columns, in the order in which they are to be locked."""
        return [_as_columns(key, run) for key, run in sorted(self.writes.runs.items(), key=_order)]

    def _accept(
        self,
        commit: JournalCommit,
        run: StoredRun,
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
        if commit.state is not None and run.has_ended:
            # Nobody drives it any more. Whoever takes its lease away does not see one that is granted beside that.
            writes.leases.pop(key, None)
            writes.ended.append(_named(key))
        return Committed(run.head)

    def _hold(self, key: RunKey, run: StoredRun) -> None:
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


def _advance(run: StoredRun, commit: JournalCommit, state: Mapping[str, Any]) -> None:
    """Let a run stand as a commit leaves it."""
    run.advance(commit)
    run.digest = commit.rows[-1].digest
    run.parent = run.parent or parent_of(commit)
    run.facts += len(commit.outbox)
    if commit.state is not None:
        given_at = run.state["given_at"] or state["given_at"]
        run.state = {**state, "given_at": given_at}


def _named(key: RunKey) -> Values:
    return {"tenant_id": key.tenant_id, "run_id": key.run_id}


def _order(run: tuple[RunKey, StoredRun]) -> tuple[str, str]:
    return run[0].tenant_id, run[0].run_id


def _as_columns(key: RunKey, run: StoredRun) -> Values:
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
