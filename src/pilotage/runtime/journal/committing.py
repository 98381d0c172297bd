"""When a run commits, and who hears of it: one commit at a time, and everything that waits goes with the next."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from pilotage.agent.ports.journal import CommitOutcome, JournalCommit, RunKey
from pilotage.runtime.journal.writer import JournalWriter


class Committing(ABC):
    """Counts changes. A barrier waits for those made so far; the commit they go with is the writer's, not the waiter's.

    So who is cancelled while waiting leaves a commit under way whose outcome is known all the same, and no task is
    needed for it.
    """

    run: RunKey

    def __init__(self, writer: JournalWriter) -> None:
        self._writer = writer
        self._changes = self._changes_committed = self._changes_wanted = 0
        self._changes_under_way = 0
        self._is_enlisted = False
        self._death: BaseException | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._settling: list[asyncio.Future[None]] = []

    @abstractmethod
    def _drawn_up(self) -> JournalCommit:
        """Everything that is not committed yet, as one commit."""

    @abstractmethod
    def _take(self, commit: JournalCommit, outcome: CommitOutcome) -> None:
        """Learn what became of a commit."""

    @property
    def _has_promised(self) -> bool:
        """Whether a barrier must commit even where nothing has changed."""
        return False

    async def barrier(self) -> None:
        """Return when everything so far is committed.

        Raises:
            RunInterruption: it cannot be; the attempt is dead.
        """
        self.check_alive()
        if self._changes_committed >= self._changes and not self._has_promised:
            return
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._changes, durable))
        self._enlist()
        await durable

    @property
    def is_settled(self) -> bool:
        """Whether no commit is under way."""
        return not self._is_enlisted

    async def settle(self) -> None:
        """Return when no commit is under way any more."""
        while self._is_enlisted:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append(settled)
            await settled

    def kill(self, death: BaseException) -> None:
        """End the attempt: every further effect raises `death`."""
        self._death = self._death or death

    def check_alive(self) -> None:
        """Raise what killed the attempt, if anything did."""
        if self._death is not None:
            raise self._death

    def next_commit(self) -> JournalCommit | None:
        """Everything there is by now, for the writer; None for an attempt that has died in the meantime."""
        if self._death is None:
            try:
                commit = self._drawn_up()
            except BaseException as error:  # noqa: BLE001 - it goes to everyone who waits
                self.kill(error)
            else:
                self._changes_under_way = self._changes
                return commit
        self._tell_the_waiting()
        return None

    def answered(self, commit: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        """What became of a commit. What has changed meanwhile goes with the next one."""
        if isinstance(outcome, BaseException):
            self.kill(outcome)
        else:
            self._take(commit, outcome)
            if self._death is None:
                self._changes_committed = self._changes_under_way
        self._tell_the_waiting()

    def _commit_soon(self) -> None:
        """What was paid for, such as a model's reply, should not be lost with the process; nobody waits for it."""
        self._changes_wanted = self._changes
        self._enlist()

    def _enlist(self) -> None:
        if not self._is_enlisted:
            self._is_enlisted = True
            self._writer.enlist(self)

    def _tell_the_waiting(self) -> None:
        """Everyone whose changes are committed goes on; those of the others are next."""
        self._is_enlisted = False
        waiting, self._waiting = self._waiting, []
        for changes, durable in waiting:
            if durable.done():
                continue
            if self._death is not None:
                durable.set_exception(self._death)
            elif changes > self._changes_committed or self._has_promised:
                self._waiting.append((changes, durable))
            else:
                durable.set_result(None)
        if self._death is None and (self._waiting or self._changes_wanted > self._changes_committed):
            self._enlist()
            return
        settling, self._settling = self._settling, []
        for settled in settling:
            if not settled.done():
                settled.set_result(None)
