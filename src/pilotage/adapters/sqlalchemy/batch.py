"""Deciding commits that come together, given what is known of their runs. Pure: no I/O.

Each commit sees the changes of those before it in the batch. Accepted commits are gathered as columns, ready to be
written; refused ones change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from pilotage.adapters.sqlalchemy.columns import to_packed
from pilotage.adapters.sqlalchemy.mapping import (
    NO_STATE,
    UnstorableError,
    Values,
    event_values,
    evidence_values,
    state_values,
)
from pilotage.adapters.sqlalchemy.rows import BLOB_LENGTH, payloads_of
from pilotage.adapters.sqlalchemy.stored_entries import NO_CODES, RowCodes
from pilotage.adapters.sqlalchemy.tables import evidence as evidence_table
from pilotage.adapters.sqlalchemy.tables import outbox as outbox_table
from pilotage.adapters.sqlalchemy.tables import runs as runs_table
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.commit_rules import (
    RunSnapshot,
    decide,
    ends_run,
    makes_progress,
    parent_of,
    signal_ends,
    takes_signals,
)
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import CommitOutcome, CommitRefused, Committed, JournalCommit
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.state import AgentStatus
from pilotage.jsonvalue import to_bytes

_MOST_RECENT = 10_000

_packed_salt = lru_cache(maxsize=256)(to_packed)
"""All rows of an attempt have one salt."""


SHOWN = (
    *("status", "agent_type", "state", "created_at", "updated_at"),
    *("wake_at", "awaits", "quarantined"),
)
"""The columns of a state and its times."""

_NOTHING_SHOWN: Mapping[str, Any] = dict.fromkeys(SHOWN)


@dataclass
class StoredRun(RunSnapshot):
    """A run after the commits of the batch, with `stored_head` as the database has it.

    `actions` are looked up only after a conflict: most of the time the unique key of the table is enough.
    """

    stored_head: int = 0
    digest: str = ""
    parent: str | None = None
    facts: int = 0
    records: int = 0
    turns: int = 0
    ended_signals: int = 0
    progress: bool = False
    is_stored: bool = False
    known_signal: int | None = None
    """The last signal that the commit knows which ends the run."""
    state: Mapping[str, Any] = field(default_factory=lambda: NO_STATE)
    shown: Mapping[str, Any] = field(default_factory=lambda: _NOTHING_SHOWN)
    """The columns of the state and its times as they are stored, which the code of the row covers."""


class KnownRuns:
    """Runs and parents, pending signals, holders and turns of conversations, and evidence that was looked for."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, StoredRun] = {}
        self.pending: set[tuple[RunKey, str]] = set()
        self.holders: dict[tuple[str, str], str] = {}
        self.turns: dict[tuple[str, str], int] = {}
        self.evidence: set[tuple[str, str]] = set()

    def status_of(self, run: RunKey) -> AgentStatus | None:
        found = self.runs.get(run)
        return None if found is None else found.status

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        return self.holders.get((tenant_id, conversation_id))

    def turns_in(self, tenant_id: str, conversation_id: str) -> int:
        return self.turns.get((tenant_id, conversation_id), 0)

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        return (run, signal_id) in self.pending

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        return (tenant_id, evidence_id) in self.evidence


class RecentRuns:
    """The runs that this process wrote last and that have not ended, so that the next commit need not look them up.

    They are only a guess. The statement that moves a head compares it: an unchanged head means that no other process
    has written, so everything else is unchanged too. Otherwise nothing is written, and the runs are looked up.
    """

    def __init__(self) -> None:
        self._runs: dict[RunKey, StoredRun] = {}

    def known(self, commits: Sequence[JournalCommit]) -> KnownRuns | None:
        """Take out what is needed to decide these commits; None where it must be looked up."""
        known = KnownRuns()
        for commit in commits:
            if commit.parent is not None or commit.conversation is not None or takes_signals(commit):
                return None  # its outcome depends on more than its own run
            stored = self._runs.pop(commit.run, None)
            if commit.expected_head == 0 and stored is None:
                continue
            if stored is None or stored.head != commit.expected_head:
                return None
            known.runs[commit.run] = stored
        return known

    def remember(self, runs: Mapping[RunKey, StoredRun]) -> None:
        """Remember runs as they were just committed."""
        for key, run in runs.items():
            if run.has_ended:
                continue
            run.stored_head, run.is_stored = run.head, True
            run.state, run.progress = NO_STATE, False
            run.receipts.clear()
            run.actions.clear()
            self._runs[key] = run
        while len(self._runs) > _MOST_RECENT:
            del self._runs[next(iter(self._runs))]


class Batch:
    """Decides commits one after the other, and gathers what they write, by table."""

    def __init__(self, known: KnownRuns, codes: RowCodes = NO_CODES) -> None:
        self.known = known
        self._codes = codes
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

    def take(self, commit: JournalCommit) -> CommitOutcome:
        """Return the outcome of a commit, and gather what it writes if it is accepted."""
        run = self.known.runs.get(commit.run) or StoredRun()
        if (decided := decide(commit, run, self.known)) is not None:
            return decided
        key = commit.run
        try:
            rows = row_values(key, commit.rows, commit.token)
            evidence = [
                evidence_values(key.tenant_id, each, number)
                for number, each in enumerate(commit.evidence, start=run.records + 1)
            ]
            outbox = [
                event_values(key, event, number)
                for number, event in enumerate(commit.outbox, start=run.facts + 1)
            ]
            for each in evidence:
                self._codes.add(evidence_table, each)
            for each in outbox:
                self._codes.add(outbox_table, each)
            state = state_values(commit.state) if commit.state is not None else None
        except UnstorableError as error:
            return CommitRefused(str(error))
        _advance(run, commit, state)
        self.known.runs[key] = self.runs[key] = run
        self.journal += rows
        self.blobs += take_out_blobs(rows)
        self.evidence += evidence
        self.outbox += outbox
        self._gather_effects(commit, run)
        return Committed(run.head, run.last_signal)

    def learn(self, last_signals: Mapping[RunKey, int]) -> None:
        """Take in the numbers of the last signals that the database gave back."""
        for key, number in last_signals.items():
            self.runs[key].last_signal = number

    def columns_of_runs(self) -> list[Values]:
        """Return the runs as columns, in the order in which they are to be locked."""
        return [self._columns_of(key, run) for key, run in sorted(self.runs.items(), key=_name)]

    def _columns_of(self, key: RunKey, run: StoredRun) -> Values:
        values: Values = {
            "tenant_id": key.tenant_id,
            "run_id": key.run_id,
            "is_stored": run.is_stored,
            "expected": run.stored_head,
            "head": run.head,
            "epoch": run.epoch,
            "digest": run.digest,
            "ended": run.has_ended,
            "known_signal": run.known_signal,
            "progress": run.progress,
            "parent_id": run.parent,
            "facts": run.facts,
            "records": run.records,
            "turns": run.turns,
            "ended_signals": run.ended_signals,
            "conversation_id": run.conversation,
            "moment": None,
            "code": None,
            **run.state,
        }
        if self._codes.is_on:
            self._add_code(run, values)
        return values

    def _add_code(self, run: StoredRun, values: Values) -> None:
        """Add the code of a run's row, and the times that it covers."""
        if values["status"] is not None:
            moment = self._codes.now()
            created = run.shown["created_at"] or values["given_at"] or moment
            values |= {"moment": moment, "given_at": created}
            run.shown = {
                **{name: values.get(name) for name in SHOWN},
                "created_at": created,
                "updated_at": moment,
            }
        values["code"] = self._codes.packed(runs_table, {**values, **run.shown})

    def _gather_effects(self, commit: JournalCommit, run: StoredRun) -> None:
        """Gather what a commit changes beside its run and its rows."""
        key, known = commit.run, self.known
        if commit.evidence:
            known.evidence.update((key.tenant_id, each.id) for each in commit.evidence)
        if run.conversation is not None:
            place = (key.tenant_id, run.conversation)
            if not run.has_ended:
                known.holders[place] = key.run_id
            elif known.holders.get(place) == key.run_id:
                del known.holders[place]
        named = {"tenant_id": key.tenant_id, "run_id": key.run_id}
        for signal_id, end in signal_ends(commit):
            known.pending.discard((key, signal_id))
            ended: Values = {**named, "signal_id": signal_id, "end": end.value, "given_at": self._codes.now()}
            ended["end_code"] = self._codes.end_of_signal({**ended, "consumed_at": ended["given_at"]})
            self.consumed.append(ended)
        if commit.turns is not None:
            self.turns.append((key, commit.turns))
            place = (key.tenant_id, commit.turns.conversation_id)
            known.turns[place] = known.turns.get(place, 0) + len(commit.turns.turns)
        self.settled += [(key.tenant_id, settlement) for settlement in commit.settled]
        if commit.lease is not None:
            owner, seconds = commit.lease.owner, commit.lease.seconds
            self.leases[key] = {**named, "owner": owner, "granted_seconds": seconds}
        if commit.state is not None and run.has_ended:
            # The lease of a run that has ended is deleted; one that is granted beside that would stay.
            self.leases.pop(key, None)
            self.ended.append(named)


def _name(each: tuple[RunKey, StoredRun]) -> tuple[str, str]:
    return each[0].tenant_id, each[0].run_id


def _advance(run: StoredRun, commit: JournalCommit, state: Values | None) -> None:
    """Apply an accepted commit to its run."""
    if ends_run(commit, run):
        run.known_signal = commit.last_signal
    run.advance(commit)
    run.digest = commit.rows[-1].digest
    run.parent = run.parent or parent_of(commit)
    run.facts += len(commit.outbox)
    run.records += len(commit.evidence)
    run.ended_signals += len(commit.consumed_signals) + len(commit.closed_signals)
    run.turns += len(commit.turns.turns) if commit.turns is not None else 0
    run.progress = run.progress or makes_progress(commit)
    if state is not None:
        state["given_at"] = run.state["given_at"] or state["given_at"]
        run.state = state


def row_values(run: RunKey, rows: Sequence[JournalRow], token: str) -> list[Values]:
    """Return the rows of a commit as columns; large texts are still in their place (see `take_out_blobs`).

    Raises:
        UnstorableError: a payload has no JSON form.
    """
    try:
        payloads = payloads_of(rows)
    except (TypeError, ValueError, RecursionError) as error:
        named = ", ".join(f"{row.seq} ({row.action_id!r})" for row in rows)
        raise UnstorableError(f"the payloads of row {named} cannot be stored as JSON: {error}") from error
    values = [
        {
            "tenant_id": run.tenant_id,
            "run_id": run.run_id,
            "seq": row.seq,
            "action_id": row.action_id,
            "kind": row.kind and str(row.kind),
            "stage": str(row.stage),
            "attempt": row.attempt,
            "epoch": row.epoch,
            "fingerprint": to_packed(row.fingerprint),
            "idempotency": str(row.idempotency),
            "number": row.number or None,
            "turn": row.turn,
            "key_id": stored.key_id,
            "record": stored.record,
            "record_blob": None,
            "view": stored.view,
            "view_blob": None,
            "events": row.events or None,
            "costs": row.costs or None,
            "digest": to_packed(row.digest),
            "salt": _packed_salt(row.salt),
            "token": None,
            "given_at": row.created_at,
        }
        for row, stored in zip(rows, payloads, strict=True)
    ]
    values[-1]["token"] = token
    return values


def take_out_blobs(rows: Sequence[Values]) -> list[Values]:
    """Replace large texts by their digests, and return the blobs."""
    return [
        _taken_out(values, column)
        for values in rows
        for column in ("record", "view")
        if (content := values[column]) is not None and len(content) >= BLOB_LENGTH
    ]


def _taken_out(values: Values, column: str) -> Values:
    tenant_id, content = values["tenant_id"], values[column]
    # The tenant is part of the digest, so that equal blobs of two tenants cannot be compared.
    digest = to_packed(sha256(to_bytes(f"{tenant_id}\n{content}")).hexdigest())
    values[column], values[f"{column}_blob"] = None, digest
    return {"tenant_id": tenant_id, "digest": digest, "content": content}
