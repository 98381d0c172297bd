"""Carrying commits out in one transaction: look, decide, write. Nobody looks at what this process has just written.

Runs and parents are locked in the order of their keys, then conversations, so that two batches never wait for each
other. The head is compared again inside the statement that moves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, case, func, literal_column, select, tuple_
from sqlalchemy.sql.expression import ColumnElement

from pilotage.adapters.sqlalchemy.batch import Batch, Known, Standing, Writes, as_columns
from pilotage.adapters.sqlalchemy.bulk import Given, bulk_insert, bulk_update
from pilotage.adapters.sqlalchemy.columns import Moment, now
from pilotage.adapters.sqlalchemy.engines import Engines
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.reading import NUMBER
from pilotage.adapters.sqlalchemy.recent import RecentRuns
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, evidence, journal, outbox, runs, signals
from pilotage.adapters.sqlalchemy.tenant_spending import settle_together
from pilotage.adapters.sqlalchemy.turns import append_turns
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit, JournalStage, RunKey
from pilotage.agent.state import AgentStatus

_LOCKED = select(
    runs.c.tenant_id,
    runs.c.run_id,
    runs.c.head,
    runs.c.epoch,
    runs.c.digest,
    runs.c.status,
    runs.c.conversation_id,
    runs.c.parent_id,
    runs.c.facts,
).with_for_update(key_share=True)

_LOCKED_ONE = _LOCKED.where(runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"))

_LOCKED_SOME = _LOCKED.where(
    tuple_(runs.c.tenant_id, runs.c.run_id).in_(bindparam("keys", expanding=True))
).order_by(runs.c.tenant_id, runs.c.run_id)

_TOKEN = select(journal.c.token).where(
    journal.c.place == NUMBER * PLACES + bindparam("seq", type_=journal.c.run.type)
)

_EPOCH_THEN = (
    select(journal.c.epoch)
    .where(
        journal.c.place > NUMBER * PLACES,
        journal.c.place <= NUMBER * PLACES + bindparam("seq", type_=journal.c.run.type),
        journal.c.stage == JournalStage.CLAIMED.value,
    )
    .order_by(journal.c.place.desc())
    .limit(1)
)

_HOLDERS = select(runs.c.tenant_id, runs.c.conversation_id, runs.c.run_id).where(
    tuple_(runs.c.tenant_id, runs.c.conversation_id).in_(bindparam("keys", expanding=True)),
    runs.c.conversation_id.is_not(None),
    ~runs.c.ended,
)

_PENDING = select(signals.c.tenant_id, signals.c.run_id, signals.c.signal_id).where(
    tuple_(signals.c.tenant_id, signals.c.signal_id).in_(bindparam("keys", expanding=True)),
    signals.c.consumed_at.is_(None),
)

_ACTIONS = select(journal.c.action_id, journal.c.stage, journal.c.attempt).where(
    journal.c.run == NUMBER,
    journal.c.action_id.in_(bindparam("actions", expanding=True)),
)

_EVIDENCE = select(evidence.c.tenant_id, evidence.c.evidence_id).where(
    tuple_(evidence.c.tenant_id, evidence.c.evidence_id).in_(bindparam("keys", expanding=True))
)

_STATE = ("status", "agent_type", "state")


def _created(given: Given) -> Mapping[str, ColumnElement[Any]]:
    first_kept = func.coalesce(given["given_at"], now())
    return {
        "created_at": case((given["status"].is_not(None), first_kept)),
        "updated_at": case((given["status"].is_not(None), now())),
    }


def _moved(given: Given) -> Mapping[str, ColumnElement[Any]]:
    has_state = given["status"].is_not(None)
    return {
        **{name: given[name] for name in ("head", "epoch", "digest")},
        **{
            name: func.coalesce(given[name], runs.c[name])
            for name in (*_STATE, "conversation_id", "parent_id")
        },
        "ended": given["ended"],
        "facts": given["facts"],
        "created_at": case(
            (has_state, func.coalesce(runs.c.created_at, given["given_at"], now())), else_=runs.c.created_at
        ),
        "updated_at": case((has_state, now()), else_=runs.c.updated_at),
        # A step that says nothing of the state leaves it; one that does may end a wait.
        **{name: case((has_state, given[name]), else_=runs.c[name]) for name in ("wake_at", "awaits")},
    }


_NEW_RUN = (
    "tenant_id",
    "run_id",
    "head",
    "epoch",
    "digest",
    *_STATE,
    "ended",
    "wake_at",
    "awaits",
    "facts",
    "parent_id",
    "conversation_id",
)

_INSERT_RUNS = bulk_insert(runs, _NEW_RUN, _created, extra={"given_at": Moment()}, skips_known=True)

_MOVE_RUNS = bulk_update(
    runs,
    ("tenant_id", "run_id"),
    _moved,
    {
        **{name: runs.c[name].type for name in _NEW_RUN if name not in ("tenant_id", "run_id")},
        "given_at": Moment(),
        "expected": BigInteger(),
    },
    lambda given: runs.c.head == given["expected"],
)

_INSERT_ROWS = bulk_insert(
    journal,
    [column.name for column in journal.c if column.name not in ("place", "run", "created_at", "erased")],
    lambda given: {
        "place": runs.c.position * literal_column(str(PLACES), BigInteger()) + given["seq"],
        "run": runs.c.position,
        # Asked once: rows need not be inserted in their order.
        "created_at": select(now()).scalar_subquery(),
    },
    extra={"tenant_id": runs.c.tenant_id.type, "run_id": runs.c.run_id.type, "seq": journal.c.run.type},
    beside=(runs, ("tenant_id", "run_id")),
)

_INSERT_BLOBS = bulk_insert(
    blobs, ("tenant_id", "digest", "content"), lambda _: {"created_at": now()}, skips_known=True
)

_INSERT_EVIDENCE = bulk_insert(
    evidence,
    ("tenant_id", "run_id", "evidence_id", "kind", "manifest_ref", "document"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": Moment()},
)

_INSERT_EVENTS = bulk_insert(
    outbox,
    ("tenant_id", "run_id", "number", "event_type", "version", "payload"),
    lambda _: {"created_at": now()},
)

_CONSUME = bulk_update(
    signals,
    ("tenant_id", "run_id", "signal_id"),
    lambda _: {"consumed_at": now()},
    {},
    lambda _: signals.c.consumed_at.is_(None),
)


@dataclass(frozen=True)
class Carried:
    """What became of commits, and how the runs stand that they wrote about, once the transaction is committed."""

    outcomes: list[CommitOutcome]
    standings: Mapping[RunKey, Standing]


def commit_together(
    engines: Engines,
    recent: RecentRuns,
    commits: Sequence[JournalCommit],
    connection: Connection,
    *,
    looks_closely: bool = False,
) -> Carried:
    """Carry commits out in one transaction; the outcome of each.

    `looks_closely` is for a commit that could not be written: it finds out which action or evidence is there already.

    Raises:
        ConflictingWriteError: what is there is not what it was, or one of the commits repeats something.
    """
    known = (None if looks_closely else recent.known(commits)) or _look(connection, commits)
    if looks_closely:
        _look_closely(connection, commits, known)
    batch = Batch(known)
    outcomes = [batch.take(commit) for commit in commits]
    _write(engines, connection, known, batch.writes)
    return Carried(outcomes, {run: known.runs[run] for run in batch.writes.runs})


def _look(connection: Connection, commits: Sequence[JournalCommit]) -> Known:
    known = Known()
    named = {key for commit in commits for key in (commit.run, commit.parent) if key is not None}
    keys = sorted((key.tenant_id, key.run_id) for key in named)
    for found in _locked(connection, keys):
        known.runs[RunKey(found["tenant_id"], found["run_id"])] = _standing(found)
    for commit in commits:
        run = known.runs.get(commit.run)
        if run is not None and commit.rows and commit.expected_head < run.stored_head:
            _look_for_token(connection, commit, known)
    _look_for_holders(connection, commits, known)
    _look_for_signals(connection, commits, known)
    return known


def _locked(connection: Connection, keys: Sequence[tuple[str, str]]) -> Iterable[Stored]:
    if len(keys) == 1:
        ((tenant, run_id),) = keys
        return connection.execute(_LOCKED_ONE, {"tenant": tenant, "run": run_id}).mappings()
    return connection.execute(_LOCKED_SOME, {"keys": keys}).mappings()


def _standing(found: Stored) -> Standing:
    return Standing(
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


def _look_for_token(connection: Connection, commit: JournalCommit, known: Known) -> None:
    """A commit that expects an earlier head was sent before, or comes too late: its last row tells which."""
    last = commit.rows[-1].seq
    place = {"tenant": commit.run.tenant_id, "run": commit.run.run_id, "seq": last}
    if connection.execute(_TOKEN, place).scalar() == commit.token:
        epoch = connection.execute(_EPOCH_THEN, place).scalar()
        known.receipts[commit.run, commit.token] = (last, epoch or 0)


def _look_for_holders(connection: Connection, commits: Sequence[JournalCommit], known: Known) -> None:
    held = {(commit.run.tenant_id, commit.conversation) for commit in commits if commit.conversation}
    if held:
        for tenant, conversation, run_id in connection.execute(_HOLDERS, {"keys": sorted(held)}):
            known.holders[tenant, conversation] = run_id


def _look_for_signals(connection: Connection, commits: Sequence[JournalCommit], known: Known) -> None:
    wanted = {(commit.run.tenant_id, each) for commit in commits for each in commit.consumed_signals}
    if wanted:
        for tenant, run_id, signal_id in connection.execute(_PENDING, {"keys": sorted(wanted)}):
            known.pending.add((RunKey(tenant, run_id), signal_id))


def _look_closely(connection: Connection, commits: Iterable[JournalCommit], known: Known) -> None:
    for commit in commits:
        tenant = commit.run.tenant_id
        named = {
            "tenant": tenant,
            "run": commit.run.run_id,
            "actions": [row.action_id for row in commit.rows],
        }
        found = connection.execute(_ACTIONS, named)
        known.actions[commit.run] = {(action, stage, attempt) for action, stage, attempt in found}
        keys = [(tenant, each.id) for each in commit.evidence]
        if keys:
            known.evidence.update((row[0], row[1]) for row in connection.execute(_EVIDENCE, {"keys": keys}))


def _write(engines: Engines, connection: Connection, known: Known, writes: Writes) -> None:
    written = [(key, known.runs[key]) for key in sorted(writes.runs, key=_order)]
    moved = [as_columns(key, run) for key, run in written if run.is_stored]
    made = [as_columns(key, run) for key, run in written if not run.is_stored]
    with engines.in_one_trip(connection):
        _INSERT_BLOBS.send(connection, writes.blobs)
        expected = [
            # Runs that end let go of their conversations before others take hold of them.
            (_MOVE_RUNS.send(connection, moved), moved),
            (_INSERT_RUNS.send(connection, made), made),
            (_INSERT_ROWS.send(connection, writes.journal), writes.journal),
            (_CONSUME.send(connection, writes.consumed), writes.consumed),
        ]
        _INSERT_EVIDENCE.send(connection, writes.evidence)
        _INSERT_EVENTS.send(connection, writes.outbox)
    for changed, rows in expected:
        _expect(changed(), rows)
    said = sorted(writes.turns, key=lambda turn: (turn[0].tenant_id, turn[1].conversation_id))
    for run, added in said:
        append_turns(engines, connection, run.tenant_id, added.conversation_id, added.turns, run.run_id)
    settle_together(connection, writes.settled)


def _order(key: RunKey) -> tuple[str, str]:
    return key.tenant_id, key.run_id


def _expect(changed: int, rows: Sequence[object]) -> None:
    if changed != len(rows):
        raise ConflictingWriteError("somebody else has written at the same time")
