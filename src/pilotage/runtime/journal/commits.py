"""Group commit: the queue of a run's commits, and one writer per store and process.

The writer commits what all runs have appended, together. The barriers of a run, the outcome of its commits and the
death of its attempt are in `CommitQueue`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import assert_never

from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    SignalsUnread,
)
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.state import AgentState
from pilotage.errors import error_words
from pilotage.ids import IClock
from pilotage.runtime.journal.draft import CommitDraft, DraftMark
from pilotage.runtime.journal.interruptions import (
    EndRefused,
    HistoryMoved,
    RunOwnershipLost,
    StartRefused,
    StoreUnavailable,
)

_TRIES = 3


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


class JournalWriter:
    """Commits for all runs of a process: while one batch is being written, the next one gathers.

    A queue is asked for its commit when its batch is written, so the commit holds everything appended by then. A
    commit whose reply was lost is sent again with its token, by which the store recognises rows it has. No queue learns
    an outcome before the store has answered. Commits with facts wake the relay of the outbox.
    """

    def __init__(self, journal: IAgentJournal, outbox: OutboxNotifier | None = None) -> None:
        self._journal = journal
        self._outbox = outbox or OutboxNotifier()
        self.on_lost: Callable[[RunKey, Sequence[JournalRow]], None] | None = None
        """Called with the rows of a run that a dead attempt appended and that no commit has made durable."""
        self._waiting: list[CommitQueue] = []
        self._writing: asyncio.Task[None] | None = None

    def enlist(self, queue: CommitQueue) -> None:
        """Commit for a run with the next batch. The commit is written even if the task that waits for it is gone."""
        self._waiting.append(queue)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                queues, self._waiting = self._waiting, []
                await self._write(queues)
        finally:
            self._writing = None

    async def _write(self, queues: list[CommitQueue]) -> None:
        if len(queues) > 1:
            queues.sort(key=lambda queue: (queue.run.tenant_id, queue.run.run_id))
        alive: list[CommitQueue] = []
        commits: list[JournalCommit] = []
        for queue in queues:
            commit = queue.next_commit()
            if commit is not None:
                alive.append(queue)
                commits.append(commit)
        if not commits:
            return
        try:
            answers = list(zip(alive, commits, await self._send(commits), strict=True))
        except BaseException as error:  # noqa: BLE001 - every queue of the batch gets it
            for queue, commit in zip(alive, commits, strict=True):
                queue.answered(commit, error)
            return
        for queue, commit, outcome in answers:
            if commit.outbox:
                self._outbox.notify()
            queue.answered(commit, outcome)

    async def _send(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        tries = 1
        while True:
            try:
                return await self._journal.commit(commits)
            except OSError as error:
                if tries == _TRIES:
                    raise StoreUnavailable(f"the journal did not answer {_TRIES} times: {error}") from error
                tries += 1
            except Exception as error:
                # No exception for the program, which could take it for the outcome of a call.
                raise StoreUnavailable(f"the journal failed: {error_words(error)}") from error


class CommitQueue:
    """Commits the draft of one run. A barrier waits for the changes made so far; the writer owns the commit.

    So a task that is cancelled at a barrier leaves a commit whose outcome is known all the same, and no task of the run
    is needed for it. The first error ends the attempt: it is raised by every later effect.
    """

    def __init__(self, writer: JournalWriter, draft: CommitDraft, state: AgentState) -> None:
        self._writer = writer
        self._draft = draft
        self.run, self.epoch, self.log, self.state = draft.run, draft.epoch, draft.log, state
        self._changes_committed = self._changes_wanted = self._changes_under_way = 0
        self._is_enlisted = False
        self.death: BaseException | None = None
        """The error that ended the attempt."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._settling: list[asyncio.Future[None]] = []
        self.newest_signal = 0
        """The number of the run's last signal, as far as commits have brought it back."""
        self._refused_end: DraftMark | None = None
        self.on_lost: Callable[[Sequence[JournalRow]], None] | None = None
        """Called with the rows that are not committed if another owner has taken the run over."""

    async def barrier(self) -> None:
        """Return when everything so far is committed.

        Raises:
            EndRefused: it ends the run, and there are unread signals; the draft is as it was at the mark.
            RunInterruption: it cannot be; the attempt is dead.
        """
        if self.death is not None:
            raise self.death
        changes = self._draft.changes
        if self._changes_committed >= changes and not self.log.is_promised:
            return
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, durable))
        self._enlist()
        await durable

    @property
    def has_unread(self) -> bool:
        """Whether the run has a signal that this attempt has not read."""
        return self.newest_signal > self._draft.read_signal

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
        self.death = self.death or death

    def check_alive(self) -> None:
        """Raise the error that ended the attempt, if one did."""
        if self.death is not None:
            raise self.death

    def report_lost(self, rows: Sequence[JournalRow]) -> None:
        """Report rows of this attempt, which is dead, that no commit has made durable."""
        if self.on_lost is not None and isinstance(self.death, RunOwnershipLost):
            self.on_lost(rows)
        if self._writer.on_lost is not None:
            self._writer.on_lost(self.run, rows)

    def next_commit(self) -> JournalCommit | None:
        """Return everything that is not committed yet as one commit; None where the attempt has died meanwhile.

        It does not raise: an error ends this attempt only, not the batch.
        """
        if self.death is None:
            try:
                commit = self._draft.draw_up(self.state)
            except BaseException as error:  # noqa: BLE001 - all waiting tasks get it
                self.kill(error)
            else:
                self._changes_under_way = self._draft.changes
                return commit
        self._release_waiting()
        return None

    def answered(self, commit: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        """Take in the outcome of a commit; changes made meanwhile go with the next one. It does not raise."""
        if isinstance(outcome, BaseException):
            self.kill(outcome)
            self.report_lost((*commit.rows, *self._draft.rows))
        else:
            self._apply(commit, outcome)
            if self.death is None and self._refused_end is None:
                self._changes_committed = self._changes_under_way
        self._release_waiting()

    def _apply(self, commit: JournalCommit, outcome: CommitOutcome) -> None:
        run_id = self.run.run_id
        match outcome:
            case Committed(head, last_signal) if head == commit.expected_head + len(commit.rows):
                self._draft.committed = head
                self.newest_signal = last_signal
                self.log.committed(head)
            case Committed(head):
                words = f"the store reports row {head} for a commit after row {commit.expected_head}"
                self.kill(StoreUnavailable(f"run {run_id!r}: {words}"))
            case HeadMoved(head, epoch):
                words = f"epoch {epoch} wrote up to row {head}, this attempt is epoch {self.epoch}"
                self.kill(RunOwnershipLost(f"run {run_id!r}: {words}"))
                self.report_lost((*commit.rows, *self._draft.rows))
            case SignalsUnread(last_signal):
                self._take_back_end(commit, last_signal)
            case CommitRefused(reason, CommitRefusal.CONVERSATION_HELD | CommitRefusal.PARENT_CLOSED, holder):
                self.kill(StartRefused(reason, holder))
            case CommitRefused(reason, CommitRefusal.CONVERSATION_MOVED):
                self.kill(HistoryMoved(reason))
            case CommitRefused(reason):
                self.kill(StoreUnavailable(f"run {run_id!r}: the store refused the commit: {reason}"))
            case _:
                assert_never(outcome)

    def _take_back_end(self, commit: JournalCommit, last_signal: int) -> None:
        self.newest_signal = last_signal
        try:
            self._refused_end = mark = self._draft.take_back(commit)
            self.state = mark.state
        except StoreUnavailable as error:
            self.kill(error)

    def commit_soon(self) -> None:
        """Commit without a barrier: a result that was paid for is not lost with the process, a question is shown."""
        self._changes_wanted = self._draft.changes
        self._enlist()

    def _enlist(self) -> None:
        if not self._is_enlisted:
            self._is_enlisted = True
            self._writer.enlist(self)

    def _release_waiting(self) -> None:
        """Resume tasks with committed changes; enlist the next commit for the others."""
        self._is_enlisted = False
        refused_end, self._refused_end = self._refused_end, None
        waiting, self._waiting = self._waiting, []
        for changes, durable in waiting:
            if durable.done():
                continue
            if self.death is not None:
                durable.set_exception(self.death)
            elif refused_end is not None and changes > refused_end.changes:
                durable.set_exception(EndRefused())
            elif changes > self._changes_committed or self.log.is_promised:
                self._waiting.append((changes, durable))
            else:
                durable.set_result(None)
        if self.death is None and (self._waiting or self._changes_wanted > self._changes_committed):
            self._enlist()
            return
        settling, self._settling = self._settling, []
        for settled in settling:
            if not settled.done():
                settled.set_result(None)
