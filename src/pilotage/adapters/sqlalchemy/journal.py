"""`SqlAlchemyJournal`: the journal port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, select, tuple_

from pilotage.adapters.sqlalchemy.commits import commit_together
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import Stored, row_of
from pilotage.adapters.sqlalchemy.tables import blobs, journal, runs
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    IAgentJournal,
    JournalCommit,
    JournalHead,
    JournalRow,
    RunKey,
)

_TRIES = 5
_PAGE = 500

_HEAD = select(runs.c.head, runs.c.epoch, runs.c.digest).where(
    runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"), runs.c.head > 0
)

_READ = (
    select(journal)
    .where(
        journal.c.tenant_id == bindparam("tenant"),
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after"),
    )
    .order_by(journal.c.seq)
    .limit(_PAGE)
)

_BLOBS = select(blobs.c.digest, blobs.c.content).where(
    tuple_(blobs.c.tenant_id, blobs.c.digest).in_(bindparam("keys", expanding=True))
)


class SqlAlchemyJournal(IAgentJournal):
    """The journals of runs in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        if not commits:
            return []
        try:
            return await self._database.write(partial(commit_together, self._database.engines, commits))
        except ConflictingWriteError:
            # One of them cannot be written, and nobody knows which: each for itself then.
            return [await self._commit_alone(commit) for commit in commits]

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        # A page at a time: between two of them nothing is open that could hold anybody up.
        page = await self._page(run, after)
        while page:
            for row in page:
                yield row
            page = await self._page(run, page[-1].seq) if len(page) == _PAGE else []

    async def head(self, run: RunKey) -> JournalHead | None:
        def look(connection: Connection) -> JournalHead | None:
            row = connection.execute(_HEAD, {"tenant": run.tenant_id, "run": run.run_id}).first()
            return None if row is None else JournalHead(*row)

        return await self._database.read(look)

    async def _commit_alone(self, commit: JournalCommit) -> CommitOutcome:
        work = partial(commit_together, self._database.engines, [commit], looks_closely=True)
        for _ in range(_TRIES - 1):
            try:
                (outcome,) = await self._database.write(work)
            except ConflictingWriteError:
                continue
            return outcome
        try:
            (outcome,) = await self._database.write(work)
        except ConflictingWriteError as conflict:
            return CommitRefused(f"run {commit.run.run_id!r}: {conflict}")
        return outcome

    async def _page(self, run: RunKey, after: int) -> list[JournalRow]:
        def look(connection: Connection) -> list[JournalRow]:
            place = {"tenant": run.tenant_id, "run": run.run_id, "after": after}
            found = connection.execute(_READ, place).mappings().all()
            contents = _blobs_of(connection, run.tenant_id, found)
            return [row_of(values, contents) for values in found]

        return await self._database.read(look)


def _blobs_of(connection: Connection, tenant_id: str, rows: Sequence[Stored]) -> Mapping[str, str]:
    digests = {row[column] for row in rows for column in ("record_blob", "view_blob")} - {None}
    if not digests:
        return {}
    keys = [(tenant_id, digest) for digest in sorted(digests)]
    found = connection.execute(_BLOBS, {"keys": keys})
    return {row.digest: row.content for row in found}
