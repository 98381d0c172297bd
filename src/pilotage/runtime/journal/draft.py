"""The draft of a run's next commit: its rows, and what is committed with them.

A row is chained when the next one is added or the commit is drawn up: the last row of an action also says which events
readers got by then.
"""

from __future__ import annotations

from datetime import datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.journal import ClosedSignal, JournalCommit, JournalHead, LeaseRequest, OutboxEvent
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RowTexts, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.ids import IClock
from pilotage.jsonvalue import JsonObject, canonical_json, text_digest
from pilotage.runtime.events.event_log import EVENTS, FIRST, ITEMS, PendingEvents
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import UNBOUND, Chain, Place, payload_digest
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.journal.start_record import state_change
from pilotage.values import value

_SALT, _TOKEN = 16, 24
_MOST_EVENTS = 2048
"""Longer texts about events get a row of their own."""
_AFTER = JournalStage.AFTER
_IDEMPOTENT = Idempotency.IDEMPOTENT
_new_row = unchecked(JournalRow)
_new_commit = unchecked(JournalCommit)


@value
class Opening:
    """The parts of a run's first commit only: its parent run, its conversation with the turns that the run knows of it,
    and the lease of its owner.
    """

    parent: RunKey | None = None
    conversation: str | None = None
    lease: LeaseRequest | None = None
    known_turns: int | None = None


_NO_OPENING = Opening()


@value
class DraftMark:
    """A draft before the end of the run was added to it: state, turns, counts, and the end of the chain."""

    state: AgentState
    changes: int
    changed_state: AgentState | None
    turns: ConversationTurns | None
    rows: int
    consumed: int
    closed: int
    evidence: int
    facts: int
    settled: int
    seq: int
    digest: str
    events: int


class CommitDraft:
    """Collects rows and changes of one run since its last commit. `changes` counts them over the whole attempt."""

    def __init__(
        self,
        run: RunKey,
        head: JournalHead,
        writer_id: str,
        *,
        log: PendingEvents,
        opening: Opening | None,
        chain: Chain = UNBOUND,
        clock: IClock | None = None,
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
        self.chain, self._clock = chain, clock
        self._seq, self._digest = head.seq, head.digest
        self._rows: list[JournalRow] = []
        self._open: tuple[Place, RowTexts, datetime | None] | None = None
        """The last row, which is not chained yet."""
        self.consumed: list[str] = []
        self.closed: list[ClosedSignal] = []
        self.read_signal = 0
        """The number of the last signal that the attempt has read."""
        self._mark: DraftMark | None = None
        self.evidence: list[AgentEvidence] = []
        self.facts: list[OutboxEvent] = []
        self.settled: list[BudgetSettlement] = []
        self.turns: ConversationTurns | None = None
        self.state: AgentState | None = None

    def add_row(
        self,
        texts: RowTexts,
        action_id: str,
        kind: AgentActionKind | None,
        stage: JournalStage,
        attempt: int,
        fingerprint: str,
        idempotency: Idempotency,
        number: int = 0,
        turn: int | None = None,
        costs: str = "",
    ) -> None:
        """Add a row after the last one."""
        if self._open is not None:
            self._chain_last()
        self._seq = seq = self._seq + 1
        place = (
            seq,
            action_id,
            kind,
            stage,
            attempt,
            self.epoch,
            fingerprint,
            idempotency,
            number,
            turn,
            costs,
        )
        self._open = (place, texts, None if self._clock is None else self._clock.now())
        if stage is _AFTER and kind is not None:
            outcomes = self.log.outcomes
            outcomes.add(self.run.run_id, kind, texts, seq=seq, action_id=action_id, epoch=self.epoch)
        self.changes += 1

    def _chain_last(self, events: str = "") -> None:
        """Chain the last row to the one before it."""
        if self._open is None:
            return
        (place, texts, at), salt = self._open, self._salt
        self._digest = digest = self.chain.link(self._digest, place, at, payload_digest(texts, salt, events))
        seq, action_id, kind, stage, attempt, epoch, fingerprint, idempotency, number, turn, costs = place
        self._rows.append(
            # By position: Python makes a dictionary of so many keywords, which costs as much as the row's digest.
            _new_row(
                seq,
                action_id,
                kind,
                stage,
                attempt,
                epoch,
                fingerprint,
                idempotency,
                texts.record,
                texts.view,
                digest,
                at,
                salt,
                number,
                turn,
                events,
                costs,
                texts,
            )
        )
        self._open = None

    @property
    def rows(self) -> list[JournalRow]:
        """The rows since the last commit."""
        self._chain_last()
        return self._rows

    def add_claim(self, texts: RowTexts) -> None:
        """Add a CLAIMED row: it names an owner, a state or a trace, and belongs to no action."""
        self._add_without_action(texts, words.RUN, JournalStage.CLAIMED)

    def mark(self, state: AgentState) -> None:
        """Remember the draft: what is added from here on ends the run, and is dropped if that is refused."""
        # The events of the end must not be in a row before it.
        self._chain_last()
        self._mark = DraftMark(
            state=state,
            changes=self.changes,
            changed_state=self.state,
            turns=self.turns,
            rows=len(self._rows),
            consumed=len(self.consumed),
            closed=len(self.closed),
            evidence=len(self.evidence),
            facts=len(self.facts),
            settled=len(self.settled),
            seq=self._seq,
            digest=self._digest,
            events=self.log.last_number,
        )

    def take_back(self, commit: JournalCommit) -> DraftMark:
        """Put everything of a refused commit before the mark back into the draft; return the mark.

        Changes since the commit was drawn up stay. That cannot be a row: calls have ended by then, and events
        wait until the end is decided.

        Raises:
            StoreUnavailable: there is no mark, or there are rows or events all the same: the attempt cannot go on.
        """
        mark, self._mark = self._mark, None
        if mark is None or self._open or self._rows or self.log.is_waiting:
            raise StoreUnavailable(f"run {self.run.run_id!r} was not ended, because it has unread signals")
        self._rows = [*commit.rows[: mark.rows]]
        self.closed[:0] = commit.closed_signals[: mark.closed]
        self.consumed[:0] = commit.consumed_signals[: mark.consumed]
        self.evidence[:0] = commit.evidence[: mark.evidence]
        self.facts[:0] = commit.outbox[: mark.facts]
        self.settled[:0] = commit.settled[: mark.settled]
        self.turns = mark.turns
        self._seq, self._digest, self.state = mark.seq, mark.digest, mark.changed_state
        self.log.take_back(mark.events, mark.seq)
        return mark

    def draw_up(self, state: AgentState) -> JournalCommit:
        """Return one commit of everything in the draft; later additions belong to the next one."""
        if self._open is None and not self._rows and not self.log.is_waiting:
            # A commit without a row would not move the head: an attempt that read the run before this change could
            # still take over the run as it was.
            record: JsonObject = state_change(state.status.value)
            self.add_claim(RowTexts.of(record, record))
        if self.log.is_waiting:
            self._add_events()
        self._chain_last()
        self._commits += 1
        opening = _NO_OPENING if self.committed else self._opening
        # The opening comes from callers and is checked; everything else is made here.
        make = _new_commit if opening is _NO_OPENING else JournalCommit
        commit = make(
            self.run,
            f"{self._token}:{self._commits}",
            self.committed,
            tuple(self._rows),
            state=self.state,
            consumed_signals=tuple(self.consumed),
            evidence=tuple(self.evidence),
            outbox=tuple(self.facts),
            turns=self.turns,
            settled=tuple(self.settled),
            parent=opening.parent,
            conversation=opening.conversation,
            lease=opening.lease,
            closed_signals=tuple(self.closed),
            last_signal=self.read_signal,
            known_turns=opening.known_turns,
        )
        self._rows, self.consumed, self.closed, self.state = [], [], [], None
        self.evidence, self.turns, self.facts, self.settled = [], None, [], []
        return commit

    def _add_events(self) -> None:
        """Add the events that readers got since the last commit: to the last row, if it is one of an action.

        A claim is no progress of a run, events are. Replay does not need them: a row of their own has no record.
        """
        has_room = self._open is not None and self._open[0][3].has_action
        first, items = self.log.write(self._seq if has_room else self._seq + 1)
        if has_room and len(text := canonical_json([first, *items])) <= _MOST_EVENTS:
            self._chain_last(text)
            return
        seq = self._seq + 1
        # Versions that do not know items refuse a row without events.
        name = EVENTS if all(isinstance(item, dict) for item in items) else ITEMS
        view: JsonObject = {FIRST: first, name: items}
        self._add_without_action(RowTexts.of(None, view), f"{words.EVENTS}{seq}", JournalStage.TOLD)

    def _add_without_action(self, texts: RowTexts, name: str, stage: JournalStage) -> None:
        self.add_row(texts, name, None, stage, 1, "", _IDEMPOTENT)
