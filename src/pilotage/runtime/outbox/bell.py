"""The bell that a commit rings when it carries facts, so that the relay of this process looks at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from pilotage.agent.ports.journal import (
    CommitOutcome,
    IAgentJournal,
    JournalCommit,
    JournalHead,
    JournalRow,
    RunKey,
)
from pilotage.ids import IClock


class Bell:
    """Wakes the one who waits; a ring that nobody waits for is heard by the next who does."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There is something to do."""
        self._rung.set()

    async def wait(self, clock: IClock, seconds: float) -> None:
        """Return when the bell was rung, or after some time."""
        waits = [asyncio.ensure_future(self._rung.wait()), asyncio.ensure_future(clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.wait(waits)
        self._rung.clear()


class RingingJournal(IAgentJournal):
    """A journal that rings the bell after every commit that carries facts."""

    def __init__(self, journal: IAgentJournal, bell: Bell) -> None:
        self._journal = journal
        self._bell = bell

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await self._journal.commit(commits)
        if any(commit.outbox for commit in commits):
            self._bell.ring()
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)
