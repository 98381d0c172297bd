"""Where a process can be killed from inside: before and after each commit, and around each effect."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence

from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey


class Moments:
    """Counts the moments of a process, and kills it at one of them; 0 is never."""

    def __init__(self, last: int = 0) -> None:
        self._last = last
        self._count = 0

    def pass_by(self) -> None:
        """One more moment."""
        self._count += 1
        if self._count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal(IAgentJournal):
    """A journal whose process may die just before a commit, or just after it, before anybody is told."""

    def __init__(self, journal: IAgentJournal, moments: Moments) -> None:
        self._journal = journal
        self._moments = moments

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self._moments.pass_by()
        outcomes = await self._journal.commit(commits)
        self._moments.pass_by()
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)
