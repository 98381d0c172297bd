"""Carrying commits out together: look, decide, write. Nobody looks at what this process has just written.

Runs and parents are locked in the order of their keys, then conversations, so that two batches never wait for each
other. The head is compared again inside the statement that moves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from pilotage.adapters.sqlalchemy.at_once import are_enough, write_at_once
from pilotage.adapters.sqlalchemy.batch import Batch
from pilotage.adapters.sqlalchemy.commit_statements import (
    ACTIONS,
    ADVANCE_RUNS,
    CONSUME,
    END_LEASES,
    EPOCH_THEN,
    EVIDENCE,
    GRANT_LEASES,
    HOLDERS,
    INSERT_BLOBS,
    INSERT_EVENTS,
    INSERT_EVIDENCE,
    INSERT_ROWS,
    INSERT_RUNS,
    LOCKED_ONE,
    LOCKED_SOME,
    MOVE_RUNS,
    PENDING,
    TOKEN,
)
from pilotage.adapters.sqlalchemy.database import Begin
from pilotage.adapters.sqlalchemy.driver import Line
from pilotage.adapters.sqlalchemy.engines import Engines
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.known import Known, StoredRun
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.recent import RecentRuns
from pilotage.adapters.sqlalchemy.tenant_spending import settle_together
from pilotage.adapters.sqlalchemy.turns import append_turns
from pilotage.agent.ports.commit_rules import wanted_conversation
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit, RunKey
from pilotage.agent.state import AgentStatus


class Carried(NamedTuple):
    """What became of commits, and how the runs stand that they wrote about, once the transaction is committed."""

    outcomes: list[CommitOutcome]
    runs: Mapping[RunKey, StoredRun]


def commit_together(
    engines: Engines,
    recent: RecentRuns,
    commits: Sequence[JournalCommit],
    begin: Begin,
    *,
    looks_closely: bool = False,
) -> Carried:
    """Carry commits out in one transaction; the outcome of each.

    `looks_closely` is for a commit that could not be written: it finds out which action or evidence is there already.

    Raises:
        ConflictingWriteError, DBAPIError: what is there is not what it was, or one of the commits repeats something.
    """
    known = None if looks_closely else recent.known(commits)
    if known is None:
        with begin() as connection:
            known = _look(connection, commits)
            if looks_closely:
                _look_closely(connection, commits, known)
            batch = Batch(known)
            outcomes = [batch.take(commit) for commit in commits]
            _write_in_turn(engines, connection, batch)
    else:
        batch = Batch(known)
        outcomes = [batch.take(commit) for commit in commits]
        _write(engines, batch, begin)
    return Carried(outcomes, batch.writes.runs)


def _look(connection: Connection, commits: Sequence[JournalCommit]) -> Known:
    known = Known()
    named = {key for commit in commits for key in (commit.run, commit.parent) if key is not None}
    keys = sorted((key.tenant_id, key.run_id) for key in named)
    for found in _locked(connection, keys):
        known.runs[RunKey(found["tenant_id"], found["run_id"])] = _stored_run(found)
    for commit in commits:
        run = known.runs.get(commit.run)
        if run is not None and commit.rows and commit.expected_head < run.stored_head:
            _look_for_token(connection, commit, run)
    _look_for_holders(connection, commits, known)
    _look_for_signals(connection, commits, known)
    return known


def _locked(connection: Connection, keys: Sequence[tuple[str, str]]) -> Iterable[Stored]:
    if len(keys) == 1:
        ((tenant, run_id),) = keys
        return connection.execute(LOCKED_ONE, {"tenant": tenant, "run": run_id}).mappings()
    return connection.execute(LOCKED_SOME, {"keys": keys}).mappings()


def _stored_run(found: Stored) -> StoredRun:
    return StoredRun(
        stored_head=found["head"],
        head=found["head"],
        epoch=found["epoch"],
        digest=found["digest"],
        status=None if found["status"] is None else AgentStatus(found["status"]),
        conversation=found["conversation_id"],
        parent=found["parent_id"],
        facts=found["facts"],
        is_stored=True,
    )


def _look_for_token(connection: Connection, commit: JournalCommit, run: StoredRun) -> None:
    """A commit that expects an earlier head was sent before, or comes too late: its last row tells which."""
    last = commit.rows[-1].seq
    place = {"tenant": commit.run.tenant_id, "run": commit.run.run_id, "seq": last}
    if connection.execute(TOKEN, place).scalar() == commit.token:
        epoch = connection.execute(EPOCH_THEN, place).scalar()
        run.receipts[commit.token, last] = epoch or 0


def _look_for_holders(connection: Connection, commits: Sequence[JournalCommit], known: Known) -> None:
    keys: set[tuple[str, str]] = set()
    for commit in commits:
        wanted = wanted_conversation(commit, known.runs.get(commit.run))
        if wanted is not None:
            keys.add((commit.run.tenant_id, wanted))
    if keys:
        for tenant, conversation, run_id in connection.execute(HOLDERS, {"keys": sorted(keys)}):
            known.holders[tenant, conversation] = run_id


def _look_for_signals(connection: Connection, commits: Sequence[JournalCommit], known: Known) -> None:
    wanted = {(commit.run.tenant_id, each) for commit in commits for each in commit.consumed_signals}
    if wanted:
        for tenant, run_id, signal_id in connection.execute(PENDING, {"keys": sorted(wanted)}):
            known.pending.add((RunKey(tenant, run_id), signal_id))


def _look_closely(connection: Connection, commits: Iterable[JournalCommit], known: Known) -> None:
    for commit in commits:
        tenant, run = commit.run.tenant_id, known.runs.get(commit.run)
        if run is not None:
            named = [row.action_id for row in commit.rows]
            place = {"tenant": tenant, "run": commit.run.run_id, "actions": named}
            found = connection.execute(ACTIONS, place)
            run.actions = {(action, stage, attempt) for action, stage, attempt in found}
        keys = [(tenant, each.id) for each in commit.evidence]
        if keys:
            known.evidence.update((row[0], row[1]) for row in connection.execute(EVIDENCE, {"keys": keys}))


def _write(engines: Engines, batch: Batch, begin: Begin) -> None:
    if not batch.writes.runs:
        return
    if engines.single is not None and are_enough(batch.writes):
        with engines.single.connection() as connection:
            write_at_once(connection, batch)
    else:
        with begin() as connection:
            _write_in_turn(engines, connection, batch)


def _write_in_turn(engines: Engines, connection: Connection, batch: Batch) -> None:
    writes, line = batch.writes, Line(connection)
    made: list[Values] = []
    moved: list[Values] = []
    advanced: list[Values] = []
    for run in batch.runs():
        (made if not run["is_stored"] else advanced if _only_advances(run) else moved).append(run)
    counted = (
        # Runs that end let go of their conversations before others take hold of them.
        (MOVE_RUNS, moved),
        (ADVANCE_RUNS, advanced),
        (INSERT_RUNS, made),
        (INSERT_ROWS, writes.journal),
        (CONSUME, writes.consumed),
    )
    beside = (
        (INSERT_EVIDENCE, writes.evidence),
        (INSERT_EVENTS, writes.outbox),
        (GRANT_LEASES, list(writes.leases.values())),
        (END_LEASES, writes.ended),
    )
    with engines.in_one_trip(connection):
        if writes.blobs:
            INSERT_BLOBS.send(line, writes.blobs)
        expected = [(bulk.send(line, rows), rows) for bulk, rows in counted if rows]
        for bulk, rows in beside:
            if rows:
                bulk.send(line, rows)
    for sent, rows in expected:
        if sent.rowcount != len(rows):
            raise ConflictingWriteError("somebody else has written at the same time")
    said = sorted(writes.turns, key=lambda turn: (turn[0].tenant_id, turn[1].conversation_id))
    for key, added in said:
        append_turns(engines, connection, key.tenant_id, added.conversation_id, added.turns, key.run_id)
    settle_together(connection, writes.settled)


def _only_advances(run: Values) -> bool:
    """Whether nothing but the journal of a run goes on; its first commit may say whose it is."""
    return run["status"] is None and run["expected"] > 0
