"""Group commit: the draft of a run's next commit, its queue, and one writer per store and process.

The writer commits what all runs have appended, together. The barriers of a run, the outcome of its commits and the
death of its attempt are in `CommitQueue`; a journal that wakes the outbox relay after commits is here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import assert_never

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    JournalHead,
    JournalRow,
    JournalStage,
    LeaseRequest,
    OutboxEvent,
    RowTexts,
    RunKey,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.ids import IClock
from pilotage.jsonvalue import JsonObject, text_digest
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import digest_after, payload_digest
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StartRefused, StoreUnavailable
from pilotage.runtime.journal.start_record import state_change
from pilotage.values import value

_SALT, _TOKEN = 16, 24
_new_row = unchecked(JournalRow)
_new_commit = unchecked(JournalCommit)


@value
class Opening:
    """The parts of a run's first commit only: its parent run, its conversation, the lease of its owner."""

    parent: RunKey | None = None
    conversation: str | None = None
    lease: LeaseRequest | None = None


_NO_OPENING = Opening()


class CommitDraft:
    """Collects rows and changes of one run since its last commit. `changes` counts them over the whole attempt."""

    def __init__(
        self, run: RunKey, head: JournalHead, writer_id: str, *, log: PendingEvents, opening: Opening | None
    ) -> None:
        self.run = run
        self.log = log
        self.epoch = head.epoch + 1
        self.committed = head.seq
        """The number of the last row that is committed."""
        self.changes = 0
        # The writer's id is unique: two attempts that write equal rows must not recognise each other's as their own.
        # The token stays when payloads are erased, so the salt cannot be derived from it.
        self._token = text_digest(f"{words.TOKEN_OF}{writer_id}")[:_TOKEN]
        self._salt = text_digest(f"{words.SALT_OF}{writer_id}")[:_SALT]
        self._opening = opening or _NO_OPENING
        self._commits = 0
        self._seq, self._digest = head.seq, head.digest
        self.rows: list[JournalRow] = []
        self.consumed: list[str] = []
        self.evidence: list[AgentEvidence] = []
        self.facts: list[OutboxEvent] = []
        self.settled: list[BudgetSettlement] = []
        self.turns: ConversationTurns | None = None
        self.state: AgentState | None = None

    def add_row(
        self,
        texts: RowTexts,
        *,
        action_id: str,
        kind: AgentActionKind | None,
        stage: JournalStage,
        attempt: int,
        fingerprint: str,
        idempotency: Idempotency,
    ) -> None:
        """Add a row after the last one, chained to it."""
        seq, salt = self._seq + 1, self._salt
        place = (seq, action_id, kind, stage, attempt, self.epoch, fingerprint, idempotency)
        digest = digest_after(self._digest, place, payload_digest(texts, salt))
        self.rows.append(
            _new_row(*place, record=texts.record, view=texts.view, digest=digest, salt=salt, encoded=texts)
        )
        self._seq, self._digest = seq, digest
        self.changes += 1

    def add_claim(self, texts: RowTexts) -> None:
        """Add a CLAIMED row: it names an owner, a state or a trace, and belongs to no action."""
        self._add_without_action(texts, words.RUN, JournalStage.CLAIMED)

    def draw_up(self, state: AgentState) -> JournalCommit:
        """Return one commit of everything in the draft; later additions belong to the next one."""
        if not self.rows and not self.log.is_waiting:
            # A commit without a row would not move the head: an attempt that read the run before this change could
            # still take over the run as it was.
            record: JsonObject = state_change(state.status.value)
            self.add_claim(RowTexts.of(record, record))
        if self.log.is_waiting:
            self._add_events()
        self._commits += 1
        opening = _NO_OPENING if self.committed else self._opening
        # The opening comes from callers and is checked; everything else is made here.
        make = _new_commit if opening is _NO_OPENING else JournalCommit
        commit = make(
            run=self.run,
            token=f"{self._token}:{self._commits}",
            expected_head=self.committed,
            rows=tuple(self.rows),
            state=self.state,
            consumed_signals=tuple(self.consumed),
            evidence=tuple(self.evidence),
            outbox=tuple(self.facts),
            turns=self.turns,
            settled=tuple(self.settled),
            parent=opening.parent,
            conversation=opening.conversation,
            lease=opening.lease,
        )
        self.rows, self.consumed, self.state = [], [], None
        self.evidence, self.turns, self.facts, self.settled = [], None, [], []
        return commit

    def _add_events(self) -> None:
        """Add the events that readers got since the last commit. Replay does not need them: the row has no record."""
        seq = self._seq + 1
        texts = RowTexts.of(None, self.log.write(seq))
        self._add_without_action(texts, f"{words.EVENTS}{seq}", JournalStage.TOLD)

    def _add_without_action(self, texts: RowTexts, name: str, stage: JournalStage) -> None:
        self.add_row(
            texts,
            action_id=name,
            kind=None,
            stage=stage,
            attempt=1,
            fingerprint="",
            idempotency=Idempotency.IDEMPOTENT,
        )


_TRIES = 3


class JournalWriter:
    """Commits for all runs of a process: while one batch is being written, the next one gathers.

    A queue is asked for its commit when its batch is written, so the commit holds everything appended by then. A
    commit whose reply was lost is sent again with its token, by which the store recognises rows it has. No queue learns
    an outcome before the store has answered.
    """

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal
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
            queues.sort(key=_name)
        drawn_up = [(queue, queue.next_commit()) for queue in queues]
        batch = [(queue, commit) for queue, commit in drawn_up if commit is not None]
        if not batch:
            return
        try:
            outcomes = await self._send([commit for _, commit in batch])
            answers = list(zip(batch, outcomes, strict=True))
        except BaseException as error:  # noqa: BLE001 - every queue of the batch gets it
            for queue, commit in batch:
                queue.answered(commit, error)
            return
        for (queue, commit), outcome in answers:
            queue.answered(commit, outcome)

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


def _name(queue: CommitQueue) -> tuple[str, str]:
    return queue.run.tenant_id, queue.run.run_id


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
        self.on_lost: Callable[[Sequence[JournalRow]], None] | None = None
        """Called with the rows that are not committed when another owner has taken the run over."""

    async def barrier(self) -> None:
        """Return when everything so far is committed.

        Raises:
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
        else:
            self._apply(commit, outcome)
            if self.death is None:
                self._changes_committed = self._changes_under_way
        self._release_waiting()

    def _apply(self, commit: JournalCommit, outcome: CommitOutcome) -> None:
        run_id = self.run.run_id
        match outcome:
            case Committed(head) if head == commit.expected_head + len(commit.rows):
                self._draft.committed = head
                self.log.committed(head)
            case Committed(head):
                words = f"the store reports row {head} for a commit after row {commit.expected_head}"
                self.kill(StoreUnavailable(f"run {run_id!r}: {words}"))
            case HeadMoved(head, epoch):
                words = f"epoch {epoch} wrote up to row {head}, this attempt is epoch {self.epoch}"
                if self.on_lost is not None:
                    self.on_lost((*commit.rows, *self._draft.rows))
                self.kill(RunOwnershipLost(f"run {run_id!r}: {words}"))
            case CommitRefused(reason, CommitRefusal.CONVERSATION_HELD | CommitRefusal.PARENT_CLOSED):
                self.kill(StartRefused(reason))
            case CommitRefused(reason):
                self.kill(StoreUnavailable(f"run {run_id!r}: the store refused the commit: {reason}"))
            case _:
                assert_never(outcome)

    def _commit_soon(self) -> None:
        """Commit without a barrier: a result that was paid for should not be lost with the process."""
        self._changes_wanted = self._draft.changes
        self._enlist()

    def _enlist(self) -> None:
        if not self._is_enlisted:
            self._is_enlisted = True
            self._writer.enlist(self)

    def _release_waiting(self) -> None:
        """Resume tasks with committed changes; enlist the next commit for the others."""
        self._is_enlisted = False
        waiting, self._waiting = self._waiting, []
        for changes, durable in waiting:
            if durable.done():
                continue
            if self.death is not None:
                durable.set_exception(self.death)
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
