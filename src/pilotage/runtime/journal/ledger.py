"""The journal of one run as its attempt writes it: rows appended at once, committed at barriers.

The log is the lock. The first commit of an attempt is a CLAIMED row with a new epoch; a head that moved
means that somebody else has the run, and kills the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.facts import fact_of
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalHead,
    JournalRow,
    JournalStage,
    LeaseRequest,
    OutboxEvent,
    RowTexts,
    RunKey,
    SealedRecord,
)
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, text_digest
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.chain import digest_after, payload_digest
from pilotage.runtime.journal.commits import CommitQueue, JournalWriter
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StartRefused, StoreUnavailable
from pilotage.runtime.journal.record_fields import plain_record
from pilotage.runtime.journal.seals import Seals, WithoutKey, withholds, without_key_for
from pilotage.values import value

_SALT, _TOKEN = 16, 24
_new_row = unchecked(JournalRow)
_new_commit = unchecked(JournalCommit)


@value
class Opening:
    """What the first commit of a run says: the run it belongs to, its conversation, who drives it from now on."""

    parent: RunKey | None = None
    conversation: str | None = None
    lease: LeaseRequest | None = None


_OPENED = Opening()


class Ledger(CommitQueue):
    """Appends rows, moves the state, consumes signals; `barrier` makes all of it durable, in one commit."""

    is_kept = True

    def __init__(
        self,
        run: RunKey,
        state: AgentState,
        head: JournalHead,
        writer: JournalWriter,
        writer_id: str,
        seals: Seals | None = None,
        log: PendingEvents | None = None,
        opening: Opening | None = None,
    ) -> None:
        super().__init__(writer)
        self._seals = seals or Seals(None, run)
        self._opening = opening or _OPENED
        self._turns: ConversationTurns | None = None
        self._evidence: list[AgentEvidence] = []
        self._facts: list[OutboxEvent] = []
        self._settled: list[BudgetSettlement] = []
        self.run = run
        self.state = state
        self.epoch = head.epoch + 1
        self.log = log or PendingEvents()
        # Nobody else has this id: two attempts that write the same rows must not take each other's for their own.
        # From the token, which stays when payloads are erased, nobody gets to the salt.
        self._token = text_digest(f"token of {writer_id}")[:_TOKEN]
        self._salt = text_digest(f"salt of {writer_id}")[:_SALT]
        self._commits = 0
        self._seq, self._digest = head.seq, head.digest
        self._committed = head.seq
        self._rows: list[JournalRow] = []
        self._consumed: list[str] = []
        self._moved: AgentState | None = None
        self.on_lost: Callable[[Sequence[JournalRow]], None] | None = None

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        """Take the run over: the first row of an attempt."""
        stage = JournalStage.CLAIMED
        if record == view:
            texts = RowTexts.of(record, record)
        else:
            texts = RowTexts.of(self._sealed("run", stage, 1, record, view, WithoutKey.REFUSE), view)
        self._append("run", None, stage, 1, "", Idempotency.IDEMPOTENT, texts)

    async def prove(self) -> None:
        """Return when it is certain that this attempt still has the run: by writing, for reading proves nothing.

        Raises:
            RunOwnershipLost: somebody else has it.
        """
        self.claim({"still_claimed": self.epoch}, {"still_claimed": self.epoch})
        await self.barrier()

    def append(
        self,
        action: Action,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        tool: AgentToolDescriptor | None = None,
        added: JsonObject | None = None,
    ) -> None:
        """Add a row of an action; it is durable after the next barrier. What the view withholds is sealed.

        `added` is what others may read besides.
        """
        self.check_alive()
        if record == view:
            texts = RowTexts.of(record, record, added)
        elif withholds(record, view):
            kept = self._sealed(action.id, stage, attempt, record, view, without_key_for(action, tool))
            texts = RowTexts.of(kept, view, added)
        else:
            texts = RowTexts.of(record, view, added)
        rest = (action.fingerprint, action.idempotency, texts)
        self._append(action.id, action.kind, stage, attempt, *rest)
        if stage is not JournalStage.BEFORE:
            self._commit_soon()

    def adopt(self, row: JournalRow) -> None:
        """Add a row of another run, its record open, as one of this run."""
        record, view = plain_record(row), row.view
        # What could not be sealed there was not kept there either.
        kept = self._sealed(row.action_id, row.stage, row.attempt, record, view, WithoutKey.KEEP_PLAIN)
        rest = (row.fingerprint, row.idempotency, RowTexts.of(kept, view))
        self._append(row.action_id, row.kind, row.stage, row.attempt, *rest)

    def say(self, turns: ConversationTurns | None) -> None:
        """Add turns to the run's conversation together with the next commit."""
        self._turns = turns

    def prove_by(self, evidence: AgentEvidence) -> None:
        """Add evidence together with the next commit."""
        self._evidence.append(evidence)

    def move(self, state: AgentState) -> None:
        """Change the state of the run together with the next commit."""
        self.check_alive()
        fact = fact_of(self.state, state)
        if fact is not None:
            self.report(fact)
        self.state = self._moved = state
        self._changes += 1

    def report(self, fact: OutboxEvent) -> None:
        """Put a fact into the outbox together with the next commit, which is that of the row or step it tells of."""
        self._facts.append(fact)

    def settle_budget(self, settlement: BudgetSettlement) -> None:
        """Count what was spent together with the next commit; what a lost owner spends, nobody counts."""
        if self._death is None:
            self._settled.append(settlement)
            self._changes += 1

    def consume(self, signal_id: str) -> None:
        """Take a signal out of the queue together with the next commit."""
        self.check_alive()
        self._consumed.append(signal_id)
        self._changes += 1

    @property
    def _has_promised(self) -> bool:
        return self.log.is_promised

    def _drawn_up(self) -> JournalCommit:
        if not self._rows and not self.log.is_waiting:
            # A change without a row would leave the head where it was, and somebody who read the run
            # before it could still take it over as it had been.
            self.claim({"state": self.state.status.value}, {"state": self.state.status.value})
        if self.log.is_waiting:
            self._write_log()
        self._commits += 1
        opening = _OPENED if self._committed else self._opening
        # What a run is opened with comes from its caller; all the rest is made here.
        make = _new_commit if opening is _OPENED else JournalCommit
        commit = make(
            run=self.run,
            token=f"{self._token}:{self._commits}",
            expected_head=self._committed,
            rows=tuple(self._rows),
            state=self._moved,
            consumed_signals=tuple(self._consumed),
            evidence=tuple(self._evidence),
            outbox=tuple(self._facts),
            turns=self._turns,
            settled=tuple(self._settled),
            parent=opening.parent,
            conversation=opening.conversation,
            lease=opening.lease,
        )
        self._rows, self._consumed, self._moved = [], [], None
        self._evidence, self._turns, self._facts, self._settled = [], None, [], []
        return commit

    def _take(self, commit: JournalCommit, outcome: CommitOutcome) -> None:
        match outcome:
            case Committed(head) if head == commit.expected_head + len(commit.rows):
                self._committed = head
                self.log.committed(head)
            case Committed(head):
                words = f"the store reports row {head} for a commit behind row {commit.expected_head}"
                self.kill(StoreUnavailable(f"run {self.run.run_id!r}: {words}"))
            case HeadMoved(head, epoch):
                words = f"epoch {epoch} wrote up to row {head}, this attempt is epoch {self.epoch}"
                if self.on_lost is not None:
                    self.on_lost((*commit.rows, *self._rows))
                self.kill(RunOwnershipLost(f"run {self.run.run_id!r}: {words}"))
            case CommitRefused(reason, CommitRefusal.CONVERSATION_HELD | CommitRefusal.PARENT_CLOSED):
                self.kill(StartRefused(reason))
            case CommitRefused(reason):
                self.kill(
                    StoreUnavailable(f"run {self.run.run_id!r}: the store refused the commit: {reason}")
                )
            case _:
                assert_never(outcome)

    def _sealed(
        self,
        action_id: str,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        without_key: WithoutKey,
    ) -> JsonValue | SealedRecord:
        try:
            return self._seals.closed(action_id, stage, attempt, record, view, without_key)
        except RecordSealError as error:
            # An agent's `except Exception` must not take this for a failed tool.
            self.kill(death := StoreUnavailable(str(error)))
            raise death from error

    def _write_log(self) -> None:
        """What was told goes along with what is committed next: for readers, not for replay, so it has no record."""
        seq = self._seq + 1
        told = RowTexts.of(None, self.log.write(seq))
        self._append(f"told#{seq}", None, JournalStage.TOLD, 1, "", Idempotency.IDEMPOTENT, told)

    def _append(
        self,
        action_id: str,
        kind: AgentActionKind | None,
        stage: JournalStage,
        attempt: int,
        fingerprint: str,
        idempotency: Idempotency,
        texts: RowTexts,
    ) -> None:
        seq, salt = self._seq + 1, self._salt
        place = (seq, action_id, kind, stage, attempt, self.epoch, fingerprint, idempotency)
        digest = digest_after(self._digest, place, payload_digest(texts, salt))
        self._rows.append(_new_row(*place, texts.record, texts.view, digest, None, salt, texts))
        self._seq, self._digest = seq, digest
        self._changes += 1


class EphemeralLedger(Ledger):
    """Remembers the state of the run, and what killed it."""

    is_kept = False

    def __init__(self, run: RunKey, state: AgentState, conversations: ITaskStore | None = None) -> None:
        self._conversations = conversations
        self._turns: ConversationTurns | None = None
        self.run = run
        self.state = state
        self.epoch = 1
        self._death: BaseException | None = None

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        return

    async def prove(self) -> None:
        self.check_alive()

    def append(
        self,
        action: Action,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        tool: AgentToolDescriptor | None = None,
        added: JsonObject | None = None,
    ) -> None:
        self.check_alive()

    def say(self, turns: ConversationTurns | None) -> None:
        self._turns = turns

    def prove_by(self, evidence: AgentEvidence) -> None:
        return

    def move(self, state: AgentState) -> None:
        self.check_alive()
        self.state = state

    def report(self, fact: OutboxEvent) -> None:
        return

    def consume(self, signal_id: str) -> None:
        self.check_alive()

    async def barrier(self) -> None:
        self.check_alive()
        said, self._turns = self._turns, None
        if said is not None and self._conversations is not None:
            await self._conversations.append_turns(self.run.tenant_id, said.conversation_id, said.turns)

    @property
    def is_settled(self) -> bool:
        return True

    async def settle(self) -> None:
        return
