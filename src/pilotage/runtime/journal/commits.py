"""The one writer of a store in this process: gathers what all runs want to commit and commits it together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from pilotage.agent.ports.journal import (
    CommitOutcome,
    IAgentJournal,
    JournalCommit,
    JournalHead,
    JournalRow,
    RunKey,
)
from pilotage.ids import IClock
from pilotage.runtime.journal.interruptions import StoreUnavailable

_TRIES = 3


class ICommitter(Protocol):
    """Who has something to commit: the ledger of a run."""

    @property
    def run(self) -> RunKey:
        """Whose commit it is."""
        ...

    def next_commit(self) -> JournalCommit | None:
        """Everything there is by now; None where there is nothing any more."""
        ...

    def answered(self, commit: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        """What became of it. It must not raise: others wait for their answers."""
        ...


class JournalWriter:
    """Group commit: while one batch is being written, the next one gathers.

    Who wants to commit is asked what, when it is its turn: by then there may be more. A commit whose reply was lost is
    sent again with its token; the store recognises its own rows. Until the outcome is known nobody is told anything.
    """

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal
        self._waiting: list[ICommitter] = []
        self._writing: asyncio.Task[None] | None = None

    def enlist(self, ledger: ICommitter) -> None:
        """Commit for a run, with the next batch. Whoever waits for it may stop waiting: it is written all the same."""
        self._waiting.append(ledger)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                ledgers, self._waiting = self._waiting, []
                await self._write(ledgers)
        finally:
            self._writing = None

    async def _write(self, ledgers: list[ICommitter]) -> None:
        if len(ledgers) > 1:
            ledgers.sort(key=_name)
        drawn_up = [(ledger, ledger.next_commit()) for ledger in ledgers]
        batch = [(ledger, commit) for ledger, commit in drawn_up if commit is not None]
        if not batch:
            return
        try:
            outcomes = await self._send([commit for _, commit in batch])
            answers = list(zip(batch, outcomes, strict=True))
        except BaseException as error:  # noqa: BLE001 - it goes to everyone who waits
            for ledger, commit in batch:
                ledger.answered(commit, error)
            return
        for (ledger, commit), outcome in answers:
            ledger.answered(commit, outcome)

    async def _send(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for _ in range(_TRIES - 1):
            try:
                return await self._journal.commit(commits)
            except OSError:
                continue
        try:
            return await self._journal.commit(commits)
        except OSError as error:
            raise StoreUnavailable(f"the journal did not answer {_TRIES} times: {error}") from error


def _name(ledger: ICommitter) -> tuple[str, str]:
    return ledger.run.tenant_id, ledger.run.run_id


class CommitQueue(ABC):
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


class OutboxNotifier:
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


class NotifyingJournal(IAgentJournal):
    """A journal that rings the bell after every commit that carries facts."""

    def __init__(self, journal: IAgentJournal, bell: OutboxNotifier) -> None:
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
