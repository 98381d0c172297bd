"""A journal that wakes the outbox relay after commits."""

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


class OutboxNotifier:
    """Wakes a waiting task; a notification without a waiting task wakes the next one at once."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Wake the waiting task."""
        self._notified.set()

    async def wait(self, clock: IClock, seconds: float) -> None:
        """Return after a notification, or after so many seconds."""
        waits = [asyncio.ensure_future(self._notified.wait()), asyncio.ensure_future(clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.wait(waits)
        self._notified.clear()


class NotifyingJournal(IAgentJournal):
    """A journal that wakes the outbox relay after every commit that carries facts."""

    def __init__(self, journal: IAgentJournal, notifier: OutboxNotifier) -> None:
        self._journal = journal
        self._notifier = notifier

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await self._journal.commit(commits)
        if any(commit.outbox for commit in commits):
            self._notifier.notify()
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)
