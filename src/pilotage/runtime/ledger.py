"""The journal of one run as its attempt writes it: rows appended at once, committed at barriers.

The log is the lock. The first commit of an attempt is a CLAIMED row with a new epoch; a head that moved
means that somebody else has the run, and kills the attempt.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from pilotage.agent.ports.journal import (
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalHead,
    JournalRow,
    JournalStage,
    RunKey,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.action import Action
from pilotage.runtime.chain import chained
from pilotage.runtime.interruptions import RunOwnershipLost, StoreUnavailable
from pilotage.runtime.writer import JournalWriter


class Ledger:
    """Appends rows, moves the state, consumes signals; `barrier` makes all of it durable, in one commit."""

    def __init__(
        self, run: RunKey, state: AgentState, head: JournalHead, writer: JournalWriter, writer_id: str
    ) -> None:
        self.run = run
        self.state = state
        self.epoch = head.epoch + 1
        self._writer = writer
        # Nobody else has this id: two attempts that write the same rows must not take each other's for their own.
        self._writer_id = writer_id
        self._commits = 0
        self._changes = self._changes_committed = 0
        self._seq, self._digest = head.seq, head.digest
        self._committed = head.seq
        self._rows: list[JournalRow] = []
        self._consumed: list[str] = []
        self._moved: AgentState | None = None
        self._death: BaseException | None = None
        self._committing = asyncio.Lock()

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        """Take the run over: the first row of an attempt."""
        self._append("run", None, JournalStage.CLAIMED, 1, "", Idempotency.IDEMPOTENT, record, view)

    async def prove(self) -> None:
        """Return when it is certain that this attempt still has the run: by writing, for reading proves nothing.

        Raises:
            RunOwnershipLost: somebody else has it.
        """
        self.claim({"still_claimed": self.epoch}, {"still_claimed": self.epoch})
        await self.barrier()

    def append(
        self, action: Action, stage: JournalStage, attempt: int, record: JsonValue, view: JsonValue
    ) -> None:
        """Add a row of an action; it is durable after the next barrier."""
        self.check_alive()
        rest = (action.fingerprint, action.idempotency, record, view)
        self._append(action.id, action.kind, stage, attempt, *rest)

    def move(self, state: AgentState) -> None:
        """Change the state of the run together with the next commit."""
        self.check_alive()
        self.state = self._moved = state
        self._changes += 1

    def consume(self, signal_id: str) -> None:
        """Take a signal out of the queue together with the next commit."""
        self.check_alive()
        self._consumed.append(signal_id)
        self._changes += 1

    async def barrier(self) -> None:
        """Return when everything so far is committed.

        Raises:
            RunInterruption: it cannot be; the attempt is dead.
        """
        self.check_alive()
        # Who is cancelled while waiting leaves a commit under way; its outcome must be known all the same.
        await asyncio.shield(asyncio.ensure_future(self._flush(self._changes)))

    def kill(self, death: BaseException) -> None:
        """End the attempt: every further effect raises `death`."""
        self._death = self._death or death

    def check_alive(self) -> None:
        """Raise what killed the attempt, if anything did."""
        if self._death is not None:
            raise self._death

    async def _flush(self, changes: int) -> None:
        """Commit everything there is, unless somebody else has committed as far as asked for."""
        async with self._committing:
            self.check_alive()
            if self._changes_committed >= changes:
                return
            if not self._rows:
                # A change without a row would leave the head where it was, and somebody who read the run
                # before it could still take it over as it had been.
                self.claim({"state": self.state.status.value}, {"state": self.state.status.value})
            self._commits += 1
            including = self._changes
            commit = JournalCommit(
                run=self.run,
                token=f"{self._writer_id}:{self._commits}",
                expected_head=self._committed,
                rows=tuple(self._rows),
                state=self._moved,
                consumed_signals=tuple(self._consumed),
            )
            self._rows, self._consumed, self._moved = [], [], None
            await self._commit(commit)
            self._changes_committed = including

    async def _commit(self, commit: JournalCommit) -> None:
        try:
            outcome = await self._writer.commit(commit)
        except BaseException as error:
            self.kill(error)
            raise
        match outcome:
            case Committed(head) if head == commit.expected_head + len(commit.rows):
                self._committed = head
            case Committed(head):
                words = f"the store reports row {head} for a commit behind row {commit.expected_head}"
                self.kill(StoreUnavailable(f"run {self.run.run_id!r}: {words}"))
            case HeadMoved(head, epoch):
                words = f"epoch {epoch} wrote up to row {head}, this attempt is epoch {self.epoch}"
                self.kill(RunOwnershipLost(f"run {self.run.run_id!r}: {words}"))
            case CommitRefused(reason):
                self.kill(
                    StoreUnavailable(f"run {self.run.run_id!r}: the store refused the commit: {reason}")
                )
            case _:
                assert_never(outcome)
        self.check_alive()

    def _append(
        self,
        action_id: str,
        kind: AgentActionKind | None,
        stage: JournalStage,
        attempt: int,
        fingerprint: str,
        idempotency: Idempotency,
        record: JsonValue,
        view: JsonValue,
    ) -> None:
        draft = JournalRow(
            seq=self._seq + 1,
            action_id=action_id,
            kind=kind,
            stage=stage,
            attempt=attempt,
            epoch=self.epoch,
            fingerprint=fingerprint,
            idempotency=idempotency,
            record=record,
            view=view,
            digest="unchained",
        )
        row = chained(draft, self._digest)
        self._seq, self._digest = row.seq, row.digest
        self._rows.append(row)
        self._changes += 1
