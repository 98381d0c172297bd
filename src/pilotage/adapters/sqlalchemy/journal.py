"""`SqlAlchemyJournal`: the journal port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, select

from pilotage.adapters.sqlalchemy.commits import commit_together
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.reading import PAGE, read_page
from pilotage.adapters.sqlalchemy.recent import RecentRuns
from pilotage.adapters.sqlalchemy.tables import runs
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
_FEW = 8
"""So many commits, of a few rows each, do not hold the event loop up."""

_HEAD = select(runs.c.head, runs.c.epoch, runs.c.digest).where(
    runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"), runs.c.head > 0
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
            return await self._carried(commits)
        except ConflictingWriteError:
            # One of them cannot be written, and nobody knows which: each for itself then.
            return [await self._commit_alone(commit) for commit in commits]

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        page = await self._page(run, after)
        while page:
            for row in page:
                yield row
            page = await self._page(run, page[-1].seq) if len(page) == PAGE else []

    async def head(self, run: RunKey) -> JournalHead | None:
        def look(connection: Connection) -> JournalHead | None:
            row = connection.execute(_HEAD, {"tenant": run.tenant_id, "run": run.run_id}).first()
            return None if row is None else JournalHead(*row)

        return await self._database.read(look)

    async def _commit_alone(self, commit: JournalCommit) -> CommitOutcome:
        for _ in range(_TRIES - 1):
            try:
                (outcome,) = await self._carried([commit], looks_closely=True)
            except ConflictingWriteError:
                continue
            return outcome
        try:
            (outcome,) = await self._carried([commit], looks_closely=True)
        except ConflictingWriteError as conflict:
            return CommitRefused(f"run {commit.run.run_id!r}: {conflict}")
        return outcome

    async def _carried(
        self, commits: Sequence[JournalCommit], *, looks_closely: bool = False
    ) -> list[CommitOutcome]:
        engines, recent = self._database.engines, self._recent
        work = partial(commit_together, engines, recent, commits, looks_closely=looks_closely)
        # A commit may be sent twice: its token tells whether it was written the first time.
        is_small = len(commits) <= _FEW
        carried = await self._database.transact(work, may_be_repeated=True, is_small=is_small)
        recent.remember(carried.runs)
        return carried.outcomes

    async def _page(self, run: RunKey, after: int) -> list[JournalRow]:
        return await self._database.read(lambda connection: read_page(connection, run, after))
