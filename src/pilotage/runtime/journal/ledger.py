"""The ledger of a run: the writes of its attempt, appended at once and committed at barriers.

The log is the lock. The first commit of an attempt is a CLAIMED row with a new epoch; a head that moved means that
another owner has the run, and ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.facts import fact_of, signal_too_late
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import ClosedSignal, JournalHead, OutboxEvent
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RowTexts, RunKey, SealedRecord
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, end_of_unread
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.ids import IClock
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import UNBOUND, Chain
from pilotage.runtime.journal.commits import CommitQueue, JournalWriter
from pilotage.runtime.journal.draft import CommitDraft, Opening
from pilotage.runtime.journal.interruptions import SealMissing
from pilotage.runtime.journal.record_fields import plain_record
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.seals import Seals, WithoutKey, withholds, without_key_for
from pilotage.runtime.journal.start_record import ownership_proof, suspension

__all__ = ["EphemeralLedger", "Ledger", "Opening"]

_BEFORE = JournalStage.BEFORE
Watch: TypeAlias = Callable[[Action, JournalStage, int, int | None, object], None]
"""Takes an action, the stage of its row, the number of its call, its turn and its record."""


class Ledger(CommitQueue):
    """Appends rows, changes the state, consumes signals; `barrier` makes all of it durable in one commit."""

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
        chain: Chain = UNBOUND,
        clock: IClock | None = None,
    ) -> None:
        draft = CommitDraft(
            run, head, writer_id, log=log or PendingEvents(), opening=opening, chain=chain, clock=clock
        )
        super().__init__(writer, draft, state)
        self.is_durable = True
        """Whether the run is durable."""
        self._seals = seals or Seals(None, run)
        self.has_key = self._seals.has_key
        """Whether records of this run can be sealed."""
        self.watches: list[Watch] = []
        """Functions that get every row of an action that is appended, with its record."""
        self.unread: dict[str, AgentSignal] = {}
        """The signals that were read from the store and have no end yet."""
        self._ended: set[str] = set()

    def salt(self, text: str, key: str) -> str:
        """Return the salt of the run's fingerprints, made with the key of this tag."""
        return self._draft.chain.salt(text, key)

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        """Append a CLAIMED row; as the first row of an attempt it takes the run over.

        Raises:
            RecordSealError: it must be sealed and cannot be; nothing is appended.
        """
        if record == view:
            self._draft.add_claim(RowTexts.of(record, record))
            return
        stored = self._seals.closed(
            record,
            view,
            action_id=words.RUN,
            stage=JournalStage.CLAIMED,
            attempt=1,
            without_key=WithoutKey.REFUSE,
        )
        self._draft.add_claim(RowTexts.of(stored, view))

    async def prove_ownership(self, entered: str | None = None) -> None:
        """Return when this attempt certainly owns the run, by a commit: reading proves nothing.

        `entered` is a suspended action that begins again: from here on its outcome is unknown until it is recorded.

        Raises:
            RunOwnershipLost: another owner has it.
        """
        record = ownership_proof(self.epoch, entered)
        self.claim(record, record)
        await self.barrier()

    def suspend(self, actions: Mapping[str, int]) -> None:
        """Record with the next commit that a pause interrupts these actions between two calls inside of them."""
        record = suspension(actions)
        self.claim(record, record)

    def append(
        self,
        action: Action,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        *,
        tool: AgentToolDescriptor | None = None,
        added: JsonObject | None = None,
        number: int = 0,
        turn: int | None = None,
        costs: str = "",
    ) -> None:
        """Append a row of an action, durable after the next barrier. A record that exceeds its view is sealed.

        `added` goes into the view only. `number` is that of its call, `turn` the place of its outcome among the turns,
        `costs` says what it was paid for.
        """
        if self.death is not None:
            raise self.death
        if record == view:
            texts = RowTexts.of(record, record, added)
        elif withholds(record, view):
            stored = self._sealed(
                record,
                view,
                action_id=action.id,
                stage=stage,
                attempt=attempt,
                without_key=without_key_for(action, tool),
            )
            texts = RowTexts.of(stored, view, added)
        else:
            texts = RowTexts.of(record, view, added)
        self._draft.add_row(
            texts,
            action.id,
            action.kind,
            stage,
            attempt,
            action.fingerprint,
            action.idempotency,
            number,
            turn,
            costs,
        )
        for watch in self.watches:
            watch(
                action,
                stage,
                number,
                turn,
                record if isinstance(texts.record, SealedRecord) else texts.record,
            )
        if stage is not _BEFORE:
            self.commit_soon()

    def copy_row(self, row: JournalRow) -> None:
        """Append a row of another run, its record open, as one of this run."""
        # A record that could not be sealed there is plain there too, or was not recorded at all.
        stored = self._sealed(
            plain_record(row),
            row.view,
            action_id=row.action_id,
            stage=row.stage,
            attempt=row.attempt,
            without_key=WithoutKey.KEEP_PLAIN,
        )
        self._draft.add_row(
            RowTexts.of(stored, row.view),
            row.action_id,
            row.kind,
            row.stage,
            row.attempt,
            row.fingerprint,
            row.idempotency,
            row.number,
            row.turn,
        )

    async def reopen(self, missing: SealMissing) -> None:
        """Return when the end of an attempt can be recorded that could not seal a record."""
        await self.settle()
        if self.death is missing:
            self.death = None

    def add_turns(self, turns: ConversationTurns | None) -> None:
        """Add turns to the run's conversation with the next commit."""
        self._draft.turns = turns

    def add_evidence(self, evidence: AgentEvidence) -> None:
        """Add evidence with the next commit."""
        self._draft.evidence.append(evidence)

    def change_state(self, state: AgentState) -> None:
        """Change the state of the run with the next commit, and report the fact that follows from it."""
        self.check_alive()
        fact = fact_of(self.state, state)
        if fact is not None:
            self.add_fact(fact)
        self.state = self._draft.state = state
        self._draft.changes += 1

    def add_fact(self, fact: OutboxEvent) -> None:
        """Put a fact into the outbox with the next commit, which is that of the row or state it follows from."""
        self._draft.facts.append(fact)

    def settle_budget(self, settlement: BudgetSettlement) -> None:
        """Count a tenant's spending with the next commit; that of a dead attempt is not counted."""
        if self.death is None:
            self._draft.settled.append(settlement)
            self._draft.changes += 1

    def add_signals(self, signals: Iterable[AgentSignal], last: int = 0) -> None:
        """Add signals that were read from the store; `last` is a number up to which none is missing.

        The end of a signal may have been under way to the store when it was read.
        """
        for signal in signals:
            if signal.id not in self._ended and signal.end is None:
                self.unread[signal.id] = signal
        self._draft.read_signal = max(self._draft.read_signal, last)

    def refuse_signals(self, signals: Iterable[AgentSignal]) -> None:
        """Take signals out of the queue that the application did not send, with evidence of each."""
        for signal in signals:
            self.close_signal(signal, AgentSignalEnd.REFUSED, _REFUSED)

    def consume_signal(self, signal_id: str) -> None:
        """Take a signal out of the queue with the next commit."""
        self._end_signal(signal_id)
        self._draft.consumed.append(signal_id)
        self._draft.changes += 1

    def supersede_signal(self, signal_id: str) -> None:
        """Take a signal out of the queue that another one has taken the effect of."""
        self._close_signal(ClosedSignal(signal_id, AgentSignalEnd.SUPERSEDED))

    def refuse_signal(self, signal_id: str) -> None:
        """Take an answer out of the queue that does not count."""
        self._close_signal(ClosedSignal(signal_id, AgentSignalEnd.REFUSED))

    def close_signal(self, signal: AgentSignal, end: AgentSignalEnd, why: str) -> None:
        """Take a signal out of the queue that is not taken in, with evidence; a late one is a fact for its sender."""
        self._close_signal(ClosedSignal(signal.id, end))
        self.add_evidence(_evidence_of(signal, end, why))
        if end is AgentSignalEnd.TOO_LATE:
            self.add_fact(signal_too_late(self.state, signal))

    def _close_signal(self, closed: ClosedSignal) -> None:
        self._end_signal(closed.signal_id)
        self._draft.closed.append(closed)
        self._draft.changes += 1

    def _end_signal(self, signal_id: str) -> None:
        self.check_alive()
        self.unread.pop(signal_id, None)
        self._ended.add(signal_id)

    def mark_end(self) -> None:
        """Mark the draft: what is added from here on ends the run, and is dropped if the store refuses that."""
        self._draft.mark(self.state)

    def close_signals(self) -> JsonObject:
        """Close all unread signals with the next commit, which ends the run; return what its state says about them.

        They stay unread until it is committed, for the store may refuse the end.
        """
        late: list[JsonValue] = []
        is_cancelled = self.state.status is AgentStatus.CANCELLING
        for signal in self.unread.values():
            end = end_of_unread(signal.kind, is_cancelled=is_cancelled)
            self._draft.closed.append(ClosedSignal(signal.id, end))
            if end is AgentSignalEnd.TOO_LATE:
                late.append(signal.id)
                self.add_fact(signal_too_late(self.state, signal))
                self.add_evidence(_evidence_of(signal, end, _TOO_LATE))
        return {words.LATE_SIGNALS: late} if late else {}

    def _sealed(
        self,
        record: JsonValue,
        view: JsonValue,
        *,
        action_id: str,
        stage: JournalStage,
        attempt: int,
        without_key: WithoutKey,
    ) -> JsonValue | SealedRecord:
        try:
            return self._seals.closed(
                record, view, action_id=action_id, stage=stage, attempt=attempt, without_key=without_key
            )
        except RecordSealError as error:
            # An agent's `except Exception` must not take this for a failed tool.
            self.kill(missing := SealMissing(str(error)))
            raise missing from error


_TOO_LATE = "came too late: the run has ended"
_REFUSED = "is refused: the application did not send it, or it was changed since"


def _evidence_of(signal: AgentSignal, end: AgentSignalEnd, why: str) -> AgentEvidence:
    """Return the evidence of a signal that was not taken in; its payload is for the run only."""
    payload: JsonObject = {
        "signal_id": signal.id,
        "kind": signal.kind.value,
        "end": end.value,
    }
    run_id = signal.agent_state_id
    return AgentEvidence(
        f"{run_id}:signal:{signal.id}",
        run_id,
        AgentEvidenceKind.SIGNAL,
        payload,
        summary=f"the {signal.kind.value!r} signal {signal.id!r} {why}",
    )


class EphemeralLedger(Ledger):
    """The ledger of a run without a journal: it holds the state, and writes only the turns of a conversation."""

    def __init__(self, run: RunKey, state: AgentState, conversations: ITaskStore | None = None) -> None:
        self.is_durable = False
        self._conversations = conversations
        self.has_key = False
        self._turns: ConversationTurns | None = None
        self.run = run
        self.state = state
        self.epoch = 1
        self.death: BaseException | None = None
        self.unread = {}
        self.watches = []

    def salt(self, text: str, key: str) -> str:
        return text

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        return

    async def prove_ownership(self, entered: str | None = None) -> None:
        self.check_alive()

    def append(
        self,
        action: Action,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        *,
        tool: AgentToolDescriptor | None = None,
        added: JsonObject | None = None,
        number: int = 0,
        turn: int | None = None,
        costs: str = "",
    ) -> None:
        if self.death is not None:
            raise self.death

    def add_turns(self, turns: ConversationTurns | None) -> None:
        self._turns = turns

    def add_evidence(self, evidence: AgentEvidence) -> None:
        return

    def change_state(self, state: AgentState) -> None:
        self.check_alive()
        self.state = state

    def add_fact(self, fact: OutboxEvent) -> None:
        return

    def add_signals(self, signals: Iterable[AgentSignal], last: int = 0) -> None:
        return

    def consume_signal(self, signal_id: str) -> None:
        self.check_alive()

    def supersede_signal(self, signal_id: str) -> None:
        self.check_alive()

    def refuse_signal(self, signal_id: str) -> None:
        self.check_alive()

    def mark_end(self) -> None:
        return

    @property
    def has_unread(self) -> bool:
        return False

    async def barrier(self) -> None:
        self.check_alive()
        turns, self._turns = self._turns, None
        if turns is not None and self._conversations is not None:
            await self._conversations.append_tenant_turns(
                self.run.tenant_id, turns.conversation_id, turns.turns
            )

    @property
    def is_settled(self) -> bool:
        return True

    async def settle(self) -> None:
        return
