"""`SqlAlchemyJournal`: the journal port. Commits are looked up, decided and written together.

Runs that this process has just written are not looked up. Runs and parents are locked in the order of their keys, then
conversations, so that two batches never wait for each other. The head is compared again inside the statement that
moves it. Rows are read a page at a time: between two pages no connection is open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, literal_column, select, type_coerce
from sqlalchemy.types import NullType

from pilotage.adapters.sqlalchemy.batch import SHOWN, Batch, KnownRuns, RecentRuns, StoredRun
from pilotage.adapters.sqlalchemy.columns import from_packed
from pilotage.adapters.sqlalchemy.database import Begin, Database
from pilotage.adapters.sqlalchemy.entry_counts import all_counts, damage_beside_rows
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.rows import COLUMNS, RECORD_BLOB, VIEW_BLOB, Columns, Page, rows_of
from pilotage.adapters.sqlalchemy.statements import Prepared, in_keys, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, evidence, journal, runs, signals, turns
from pilotage.adapters.sqlalchemy.writing import LastSignals, write, write_in_transaction
from pilotage.agent.ports.commit_rules import signal_ends, wanted_conversation
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    Committed,
    EntryCount,
    IAgentJournal,
    JournalCommit,
    JournalHead,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.state import AgentStatus

_TRIES = 5
_FEW = 8
"""So many commits, of a few rows each, do not hold the event loop up."""

_PAGE = 500

# Columns come as the database has them: most of them are never decoded.
_AS_IT_IS = NullType()
_SEQ = (journal.c.place - journal.c.run * PLACES).label("seq")
_COLUMNS = [_SEQ, *(type_coerce(journal.c[name], _AS_IT_IS).label(name) for name in COLUMNS)]

NUMBER = select(runs.c.position).where(*of_run(runs)).scalar_subquery()
"""The position of a run; its rows are found by that, and so only within its tenant."""

_HEAD = select(runs.c.head, runs.c.epoch, runs.c.digest).where(*of_run(runs), runs.c.head > 0)

_NAMES = (
    *("tenant_id", "run_id", "head", "epoch", "digest", "status"),
    *("conversation_id", "parent_id", "last_signal", "facts", "records", "turns", "ended_signals"),
    *("agent_type", "state", "ended", "created_at", "updated_at", "wake_at", "awaits", "quarantined", "code"),
)
_LOCKED = select(*(runs.c[name] for name in _NAMES)).with_for_update(key_share=True)

_LOCKED_ONE = _LOCKED.where(*of_run(runs))

_LOCKED_SOME = _LOCKED.where(in_keys(runs, "tenant_id", "run_id")).order_by(runs.c.tenant_id, runs.c.run_id)

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
    in_keys(runs, "tenant_id", "conversation_id"), runs.c.conversation_id.is_not(None), ~runs.c.ended
)

_TURNS = (
    select(turns.c.tenant_id, turns.c.conversation_id, func.count())
    .where(in_keys(turns, "tenant_id", "conversation_id"))
    .group_by(turns.c.tenant_id, turns.c.conversation_id)
)

_PENDING = select(signals.c.tenant_id, signals.c.run_id, signals.c.signal_id).where(
    in_keys(signals, "tenant_id", "signal_id"), signals.c.consumed_at.is_(None)
)

_ACTIONS = select(journal.c.action_id, journal.c.stage, journal.c.attempt).where(
    journal.c.run == NUMBER, journal.c.action_id.in_(bindparam("actions", expanding=True))
)

_EVIDENCE = select(evidence.c.tenant_id, evidence.c.evidence_id).where(
    in_keys(evidence, "tenant_id", "evidence_id")
)

_ROWS = Prepared(
    select(*_COLUMNS)
    .where(
        journal.c.place > NUMBER * PLACES + bindparam("after", type_=journal.c.run.type),
        journal.c.place < (NUMBER + 1) * PLACES,
    )
    .order_by(journal.c.place)
    .limit(literal_column(str(_PAGE)))
)

_ECHOED = select(*_COLUMNS).where(
    journal.c.run == NUMBER, journal.c.place.in_(bindparam("places", expanding=True))
)

_BLOBS = select(blobs.c.digest, blobs.c.content).where(
    blobs.c.digest.in_(bindparam("digests", expanding=True))
)


class SqlAlchemyJournal(IAgentJournal):
    """The journals of runs in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentRuns()

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        if not commits:
            return []
        try:
            return await self._commit_together(commits)
        except ConflictingWriteError:
            # One of them cannot be written, and it is unknown which: each is committed alone.
            return [await self._commit_alone(commit) for commit in commits]

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        page = await self._page(run, after)
        while page:
            for row in page:
                yield row
            page = await self._page(run, page[-1].seq) if len(page) == _PAGE else []

    async def head(self, run: RunKey) -> JournalHead | None:
        def look(connection: Connection) -> JournalHead | None:
            row = connection.execute(_HEAD, place_of(run)).first()
            return None if row is None else JournalHead(*row)

        return await self._database.read(look)

    async def damage(self, run: RunKey) -> str | None:
        codes = self._database.codes
        return await self._database.read(lambda connection: damage_beside_rows(connection, codes, run))

    async def entry_counts(self) -> Sequence[EntryCount]:
        codes = self._database.codes
        return await self._database.read(lambda connection: all_counts(codes, connection))

    async def _commit_alone(self, commit: JournalCommit) -> CommitOutcome:
        reason = ""
        for _ in range(_TRIES):
            try:
                (outcome,) = await self._commit_together([commit], looks_closely=True)
            except ConflictingWriteError as conflict:
                reason = str(conflict)
            else:
                return outcome
        return CommitRefused(f"run {commit.run.run_id!r}: {reason}")

    async def _commit_together(
        self, commits: Sequence[JournalCommit], *, looks_closely: bool = False
    ) -> list[CommitOutcome]:
        recent = self._recent
        job = partial(_carry_out, self._database, recent, commits, looks_closely=looks_closely)
        # A commit may be sent twice: its token shows whether it was written the first time.
        is_small = len(commits) <= _FEW
        done = await self._database.transact(job, may_be_repeated=True, is_small=is_small)
        recent.remember(done.runs)
        return done.outcomes

    async def _page(self, run: RunKey, after: int) -> list[JournalRow]:
        return await self._database.read(lambda connection: read_page(connection, run, after))


class _Done(NamedTuple):
    """The outcomes of commits, and the runs as these leave them."""

    outcomes: list[CommitOutcome]
    runs: Mapping[RunKey, StoredRun]


def _carry_out(
    database: Database,
    recent: RecentRuns,
    commits: Sequence[JournalCommit],
    begin: Begin,
    *,
    looks_closely: bool,
) -> _Done:
    """Decide and write commits in one transaction.

    `looks_closely` is for a commit that could not be written: it looks up its actions and its evidence too.

    Raises:
        ConflictingWriteError, DBAPIError: a run has another head, or a commit repeats something.
    """
    known = None if looks_closely else recent.known(commits)
    if known is not None:
        batch = Batch(known, database.codes)
        outcomes = [batch.take(commit) for commit in commits]
        return _done(commits, outcomes, batch, write(database, batch, begin))
    with begin() as connection:
        known = _look(connection, commits, database.codes)
        if looks_closely:
            _look_closely(connection, commits, known)
        batch = Batch(known, database.codes)
        outcomes = [batch.take(commit) for commit in commits]
        last_signals = write_in_transaction(database, connection, batch)
    return _done(commits, outcomes, batch, last_signals)


def _done(
    commits: Sequence[JournalCommit],
    outcomes: Sequence[CommitOutcome],
    batch: Batch,
    last_signals: LastSignals,
) -> _Done:
    """Return the outcomes with the numbers of the last signals, which only the database knows."""
    if not last_signals:
        return _Done([*outcomes], batch.runs)
    batch.learn(last_signals)
    known = [
        replace(outcome, last_signal=last_signals.get(commit.run, outcome.last_signal))
        if isinstance(outcome, Committed)
        else outcome
        for commit, outcome in zip(commits, outcomes, strict=True)
    ]
    return _Done(known, batch.runs)


def _look(connection: Connection, commits: Sequence[JournalCommit], codes: RowCodes) -> KnownRuns:
    known = KnownRuns()
    known.runs = _locked_runs(connection, commits, codes)
    for commit in commits:
        run = known.runs.get(commit.run)
        if run is not None and commit.rows and commit.expected_head < run.stored_head:
            _look_for_token(connection, commit, run)
    wanted = {
        (commit.run.tenant_id, conversation)
        for commit in commits
        if (conversation := wanted_conversation(commit, known.runs.get(commit.run))) is not None
    }
    if wanted:
        for tenant, conversation, run_id in connection.execute(_HOLDERS, {"keys": sorted(wanted)}):
            known.holders[tenant, conversation] = run_id
    begun = {
        (commit.run.tenant_id, commit.conversation)
        for commit in commits
        if commit.conversation is not None and commit.known_turns is not None
    }
    if begun:
        # After the holders: the turns of a run are there when it holds the conversation no more.
        for tenant, conversation, count in connection.execute(_TURNS, {"keys": sorted(begun)}):
            known.turns[tenant, conversation] = count
    consumed = {(commit.run.tenant_id, each) for commit in commits for each, _ in signal_ends(commit)}
    if consumed:
        for tenant, run_id, signal_id in connection.execute(_PENDING, {"keys": sorted(consumed)}):
            known.pending.add((RunKey(tenant, run_id), signal_id))
    return known


def _locked_runs(
    connection: Connection, commits: Sequence[JournalCommit], codes: RowCodes
) -> dict[RunKey, StoredRun]:
    named = {key for commit in commits for key in (commit.run, commit.parent) if key is not None}
    if len(named) == 1:
        found = connection.execute(_LOCKED_ONE, place_of(*named))
    else:
        keys = sorted((key.tenant_id, key.run_id) for key in named)
        found = connection.execute(_LOCKED_SOME, {"keys": keys})
    stored = found.mappings().all()
    for row in stored:
        # A commit writes a new code: it must not cover what another writer has changed.
        if row["head"] and not codes.fit(runs, row):
            raise ConflictingWriteError(f"the row of run {row['run_id']!r} is not stored as it was written")
    return {
        RunKey(row["tenant_id"], row["run_id"]): StoredRun(
            stored_head=row["head"],
            head=row["head"],
            epoch=row["epoch"],
            digest=row["digest"],
            status=_status_of(row),
            conversation=row["conversation_id"],
            parent=row["parent_id"],
            facts=row["facts"],
            records=row["records"],
            turns=row["turns"],
            ended_signals=row["ended_signals"],
            shown={name: row[name] for name in SHOWN},
            last_signal=row["last_signal"],
            is_stored=True,
        )
        for row in stored
    }


def _status_of(run: Stored) -> AgentStatus | None:
    """Return the status of a run.

    Raises:
        ConflictingWriteError: it has none of those there are; only the commit of this run is refused then.
    """
    try:
        return None if run["status"] is None else AgentStatus(run["status"])
    except ValueError as error:
        raise ConflictingWriteError(f"run {run['run_id']!r} has no status: {error}") from error


def _look_for_token(connection: Connection, commit: JournalCommit, run: StoredRun) -> None:
    """Look whether a commit that expects an earlier head was written before: its last row has its token then."""
    last = commit.rows[-1].seq
    place = {**place_of(commit.run), "seq": last}
    if connection.execute(_TOKEN, place).scalar() == commit.token:
        run.receipts[commit.token, last] = connection.execute(_EPOCH_THEN, place).scalar() or 0


def _look_closely(connection: Connection, commits: Iterable[JournalCommit], known: KnownRuns) -> None:
    for commit in commits:
        run = known.runs.get(commit.run)
        if run is not None:
            place = {**place_of(commit.run), "actions": [row.action_id for row in commit.rows]}
            found = connection.execute(_ACTIONS, place)
            run.actions = {(action, stage, attempt) for action, stage, attempt in found}
        keys = [(commit.run.tenant_id, each.id) for each in commit.evidence]
        if keys:
            known.evidence.update((row[0], row[1]) for row in connection.execute(_EVIDENCE, {"keys": keys}))


def read_page(connection: Connection, run: RunKey, after: int) -> list[JournalRow]:
    """Return the rows of a run after a number, up to 500 of them."""
    page = Page(_ROWS.rows(connection, {**place_of(run), "after": after}))
    _add_blobs(page, connection, page.rows)
    if after and (missing := page.missing_rows()):
        page.earlier = _rows_at(connection, run, missing)
        _add_blobs(page, connection, page.earlier)
    return rows_of(page)


def _add_blobs(page: Page, connection: Connection, rows: Sequence[Columns]) -> None:
    """Add the blobs of these rows to a page."""
    packed = {columns[RECORD_BLOB] for columns in rows} | {columns[VIEW_BLOB] for columns in rows}
    digests = {from_packed(digest) for digest in packed if digest is not None}
    if digests:
        found = connection.execute(_BLOBS, {"digests": sorted(digests)})
        page.blobs.update({row.digest: row.content for row in found})


def _rows_at(connection: Connection, run: RunKey, numbers: Iterable[int]) -> list[Columns]:
    """Return the columns of the rows with these numbers."""
    number = connection.execute(select(NUMBER), place_of(run)).scalar_one()
    named = {**place_of(run), "places": [number * PLACES + seq for seq in sorted(numbers)]}
    return [tuple(columns) for columns in connection.execute(_ECHOED, named)]
