"""The rules of a commit as a table: a commit, the run it belongs to, what else is known, and the outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.commit_rules import (
    RunSnapshot,
    decide,
    parent_of,
    refuse_after_end,
    wanted_conversation,
)
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns
from pilotage.agent.ports.journal import (
    ClosedSignal,
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    SignalsUnread,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignalEnd
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import CallerError

RUN, PARENT = RunKey("acme", "r1"), RunKey("acme", "p1")
ACTIVE = AgentState("r1", "shop:Refunds", AgentStatus.ACTIVE, tenant_id="acme")
DONE = replace(ACTIVE, status=AgentStatus.COMPLETED)
EVIDENCE = AgentEvidence("e1", "r1", AgentEvidenceKind.TOOL)
TURNS = ConversationTurns("chat", (ConversationTurn("user", "hello"),))
AFTER, BEFORE, CLAIMED, TOLD = (
    JournalStage.AFTER,
    JournalStage.BEFORE,
    JournalStage.CLAIMED,
    JournalStage.TOLD,
)


def row(
    seq: int, action: str = "", stage: JournalStage = AFTER, attempt: int = 1, epoch: int = 1
) -> JournalRow:
    return JournalRow(
        seq=seq,
        action_id=action or f"pay#{seq}",
        kind=AgentActionKind.TOOL_CALL if stage.has_action else None,
        stage=stage,
        attempt=attempt,
        epoch=epoch,
        fingerprint="f",
        idempotency=Idempotency.NON_IDEMPOTENT,
        record=None,
        view=None,
        digest="d",
    )


class Known:
    """Another run, a held conversation, a pending signal and evidence of the tenant."""

    def __init__(self, parent: AgentStatus | None = AgentStatus.ACTIVE) -> None:
        self.parent = parent

    def status_of(self, run: RunKey) -> AgentStatus | None:
        return self.parent if run == PARENT else None

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        return "r9" if (tenant_id, conversation_id) == ("acme", "taken") else None

    def turns_in(self, tenant_id: str, conversation_id: str) -> int:
        return 2 if (tenant_id, conversation_id) == ("acme", "chat") else 0

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        return (run, signal_id) == (RUN, "s1")

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        return (tenant_id, evidence_id) == ("acme", "e0")


FIRST = JournalCommit(RUN, "t1", 0, (row(1),))
NEXT = JournalCommit(RUN, "t3", 2, (row(3), row(4)))
NEW = RunSnapshot()
AT_2 = RunSnapshot(head=2, epoch=5)
AT_4 = RunSnapshot(head=4, epoch=5, receipts={("t3", 4): 5})
PAID = RunSnapshot(
    head=2, epoch=5, actions={("pay", "after", 1), ("claim", "claimed", 1), ("log", "told", 1)}
)
IN_CHAT = RunSnapshot(head=2, epoch=5, status=AgentStatus.ACTIVE, conversation="chat")
LEFT_CHAT = replace(IN_CHAT, status=AgentStatus.FAILED)
LEFT_TAKEN = replace(LEFT_CHAT, conversation="taken")


TOLD_TWICE = RunSnapshot(head=2, epoch=5, last_signal=2)


def closed(signal_id: str) -> ClosedSignal:
    return ClosedSignal(signal_id, AgentSignalEnd.TOO_LATE)


def refused(reason: str, code: CommitRefusal = CommitRefusal.INVALID) -> CommitRefused:
    return CommitRefused(reason, code)


def repeats(seq: int, stage: JournalStage = AFTER, attempt: int = 1) -> CommitRefused:
    return CommitRefused(f"row {seq} repeats {stage.value!r} of 'pay', attempt {attempt}")


def held(conversation: str = "taken") -> CommitRefused:
    words = f"conversation {conversation!r} is held by run 'r9', which has not ended"
    return CommitRefused(words, CommitRefusal.CONVERSATION_HELD, "r9")


NO_ROW = refused("the commit of run 'r1' has no row")
NO_SIGNAL = "signal {!r} is unknown to run 'r1' or was consumed already"
NOT_HELD = "run 'r1' adds turns to conversation {!r}, which it does not hold"

RULES: dict[str, tuple[JournalCommit, RunSnapshot, CommitOutcome | None]] = {
    # The head
    "the first commit of a run": (FIRST, NEW, None),
    "at the head": (NEXT, AT_2, None),
    "behind an earlier head": (replace(NEXT, token="late"), AT_4, HeadMoved(4, 5)),
    "behind a head that is not there yet": (NEXT, NEW, HeadMoved(0, 0)),
    "a first commit of a run that has rows": (FIRST, AT_2, HeadMoved(2, 5)),
    # Unread signals
    "an end that knows the last signal": (replace(NEXT, state=DONE, last_signal=2), TOLD_TWICE, None),
    "an end over an unread signal": (
        replace(NEXT, state=DONE, last_signal=1),
        TOLD_TWICE,
        SignalsUnread(2),
    ),
    "an end that knows of no signal": (replace(NEXT, state=DONE), TOLD_TWICE, SignalsUnread(2)),
    "an end before the first commit is there": (
        replace(FIRST, state=DONE),
        RunSnapshot(last_signal=1),
        SignalsUnread(1),
    ),
    "no end over an unread signal": (replace(NEXT, state=ACTIVE), TOLD_TWICE, None),
    "rows over an unread signal": (NEXT, TOLD_TWICE, None),
    "a change after the end": (replace(NEXT, state=DONE), replace(TOLD_TWICE, status=DONE.status), None),
    "an end that is sent again": (
        replace(NEXT, state=DONE),
        replace(AT_4, last_signal=3),
        Committed(4, last_signal=3),
    ),
    "a mistake before an unread signal": (
        replace(NEXT, state=DONE, rows=()),
        TOLD_TWICE,
        NO_ROW,
    ),
    "a signal that is closed": (replace(NEXT, closed_signals=(closed("s1"),)), AT_2, None),
    "an unknown signal that is closed": (
        replace(NEXT, closed_signals=(closed("s2"),)),
        AT_2,
        refused(NO_SIGNAL.format("s2")),
    ),
    "a signal that is taken and closed": (
        replace(NEXT, consumed_signals=("s1",), closed_signals=(closed("s1"),)),
        AT_2,
        refused(NO_SIGNAL.format("s1")),
    ),
    # The token
    "sent again": (NEXT, AT_4, Committed(4)),
    "sent again after others of its owner": (NEXT, replace(AT_4, head=9), Committed(4)),
    "sent again after a claim": (NEXT, replace(AT_4, epoch=6), HeadMoved(4, 6)),
    "a token with other rows": (replace(NEXT, token="t3", rows=(row(3),)), AT_4, HeadMoved(4, 5)),
    "a token used again at the head": (JournalCommit(RUN, "t3", 4, (row(5),)), AT_4, None),
    "sent again, and against a rule by now": (
        replace(NEXT, consumed_signals=("s9",)),
        AT_4,
        Committed(4),
    ),
    # The rows
    "no row": (replace(FIRST, rows=()), NEW, NO_ROW),
    "no row, with a known token": (JournalCommit(RUN, "t3", 4, ()), AT_4, NO_ROW),
    "no row, behind an earlier head": (replace(FIRST, rows=()), AT_2, HeadMoved(2, 5)),
    "an action that is recorded": (replace(NEXT, rows=(row(3), row(4, "pay"))), PAID, repeats(4)),
    "another stage of it": (replace(NEXT, rows=(row(3, "pay", BEFORE),)), PAID, None),
    "another attempt of it": (replace(NEXT, rows=(row(3, "pay", attempt=2),)), PAID, None),
    "an action twice": (
        replace(NEXT, rows=(row(3, "pay", BEFORE, 2), row(4, "pay", BEFORE, 2))),
        PAID,
        repeats(4, BEFORE, 2),
    ),
    "a claim again": (replace(NEXT, rows=(row(3, "claim", CLAIMED), row(4, "claim", CLAIMED))), PAID, None),
    "events again": (replace(NEXT, rows=(row(3, "log", TOLD), row(4, "log", TOLD))), PAID, None),
    "events again beside an action that is recorded": (
        replace(NEXT, rows=(row(3, "log", TOLD), row(4, "pay"))),
        PAID,
        repeats(4),
    ),
    # The state
    "a state": (replace(NEXT, state=ACTIVE), AT_2, None),
    "the state of another run": (
        replace(NEXT, state=replace(ACTIVE, id="r2")),
        AT_2,
        refused("state 'r2' of tenant 'acme' is not the state of run 'r1'"),
    ),
    "the state of another tenant": (
        replace(NEXT, state=replace(ACTIVE, tenant_id="other")),
        AT_2,
        refused("state 'r1' of tenant 'other' is not the state of run 'r1'"),
    ),
    # Evidence
    "evidence": (replace(NEXT, evidence=(EVIDENCE,)), AT_2, None),
    "evidence of another run": (
        replace(NEXT, evidence=(EVIDENCE, replace(EVIDENCE, id="e2", agent_state_id="r2"))),
        AT_2,
        refused("evidence 'e2' belongs to run 'r2', not to 'r1'"),
    ),
    "evidence that is recorded": (
        replace(NEXT, evidence=(EVIDENCE, replace(EVIDENCE, id="e0"))),
        AT_2,
        refused("evidence 'e0' is recorded already"),
    ),
    "evidence twice": (
        replace(NEXT, evidence=(EVIDENCE, EVIDENCE)),
        AT_2,
        refused("evidence 'e1' is recorded already"),
    ),
    # Signals
    "a pending signal": (replace(NEXT, consumed_signals=("s1",)), AT_2, None),
    "a signal that is not pending": (
        replace(NEXT, consumed_signals=("s1", "s2")),
        AT_2,
        refused(NO_SIGNAL.format("s2")),
    ),
    "a signal twice": (
        replace(NEXT, consumed_signals=("s1", "s1")),
        AT_2,
        refused(NO_SIGNAL.format("s1")),
    ),
    # Turns
    "turns of a run that holds the conversation": (replace(NEXT, turns=TURNS), IN_CHAT, None),
    "turns with the end of the run": (replace(NEXT, state=DONE, turns=TURNS), IN_CHAT, None),
    "turns of a run that takes hold of it": (replace(FIRST, conversation="chat", turns=TURNS), NEW, None),
    "turns of a run that holds another": (
        replace(FIRST, conversation="other", turns=TURNS),
        NEW,
        refused(NOT_HELD.format("chat")),
    ),
    "turns of a run that holds none": (replace(NEXT, turns=TURNS), AT_2, refused(NOT_HELD.format("chat"))),
    "turns of a run that has ended": (
        replace(NEXT, turns=TURNS),
        LEFT_CHAT,
        refused(NOT_HELD.format("chat")),
    ),
    # Conversations
    "a conversation that is free": (replace(FIRST, conversation="chat"), NEW, None),
    "a conversation that is held": (replace(FIRST, conversation="taken"), NEW, held()),
    "going on after the end, the conversation is free": (replace(NEXT, state=ACTIVE), LEFT_CHAT, None),
    "going on after the end, another run holds it": (replace(NEXT, state=ACTIVE), LEFT_TAKEN, held()),
    "ending again, another run holds it": (replace(NEXT, state=DONE), LEFT_TAKEN, None),
    "a row behind the end, another run holds it": (NEXT, LEFT_TAKEN, None),
    "all turns of a conversation": (replace(FIRST, conversation="chat", known_turns=2), NEW, None),
    "no turn of a conversation": (replace(FIRST, conversation="chat", known_turns=None), NEW, None),
    "the first turn of a conversation of two": (
        replace(FIRST, conversation="chat", known_turns=1),
        NEW,
        refused("conversation 'chat' has 2 turns, and the run knows 1", CommitRefusal.CONVERSATION_MOVED),
    ),
    "the first turn of a conversation of two, sent again": (
        replace(FIRST, conversation="chat", known_turns=1),
        RunSnapshot(head=1, epoch=1, receipts={("t1", 1): 1}),
        Committed(1),
    ),
    # The order of the rules
    "a conversation that is held and has turns": (
        replace(FIRST, conversation="taken", known_turns=0),
        NEW,
        held(),
    ),
    "a mistake before a conflict": (replace(FIRST, rows=(), conversation="taken"), NEW, NO_ROW),
}


@pytest.mark.parametrize(("commit", "run", "outcome"), RULES.values(), ids=RULES.keys())
def test_a_commit_is_written_recognised_or_refused(
    commit: JournalCommit, run: RunSnapshot, outcome: CommitOutcome | None
) -> None:
    before = replace(run, receipts=dict(run.receipts), actions=set(run.actions))
    assert decide(commit, run, Known()) == outcome
    assert run == before


CLOSED = [status for status in AgentStatus if status.is_terminal or status is AgentStatus.CANCELLING]


@pytest.mark.parametrize("status", [None, *AgentStatus])
def test_only_a_parent_that_goes_on_or_waits_has_children(status: AgentStatus | None) -> None:
    how = f"is {status.value}" if status else "does not exist"
    closed = refused(f"run 'r1' cannot start: its parent 'p1' {how}", CommitRefusal.PARENT_CLOSED)
    outcome = closed if status is None or status in CLOSED else None
    assert decide(replace(FIRST, parent=PARENT), RunSnapshot(), Known(status)) == outcome


def test_a_run_advances_by_what_is_written() -> None:
    run = RunSnapshot()
    claims = (row(1, "claim", CLAIMED, epoch=1), row(2, "claim", CLAIMED, epoch=2))
    run.advance(replace(FIRST, rows=claims, state=ACTIVE, conversation="chat"))
    assert (run.head, run.epoch, run.status, run.conversation) == (2, 2, AgentStatus.ACTIVE, "chat")
    run.advance(NEXT)
    assert (run.head, run.epoch, run.status, run.conversation) == (4, 2, AgentStatus.ACTIVE, "chat")
    assert run.receipts == {("t1", 2): 2, ("t3", 4): 2}
    assert {("pay#3", "after", 1), ("pay#4", "after", 1)} <= run.actions
    run.advance(JournalCommit(RUN, "t5", 4, (row(5),), DONE))
    assert run.has_ended
    assert run.conversation == "chat"
    assert decide(replace(NEXT, token="t5", expected_head=4, rows=(row(5),)), run, Known()) == Committed(5)


def test_a_parent_is_named_by_the_commit_or_by_the_state() -> None:
    named = replace(ACTIVE, metadata={"parent": "p2"})
    assert parent_of(replace(FIRST, parent=PARENT, state=named)) == "p1"
    assert parent_of(replace(FIRST, state=named)) == "p2"
    assert parent_of(replace(FIRST, state=replace(ACTIVE, metadata={"parent": 2}))) is None
    assert parent_of(FIRST) is None


def test_an_unknown_run_takes_hold_of_what_its_first_commit_names() -> None:
    assert wanted_conversation(replace(FIRST, conversation="chat"), None) == "chat"
    assert wanted_conversation(FIRST, None) is None


@pytest.mark.parametrize("status", [None, *AgentStatus])
def test_only_a_run_that_has_ended_refuses_signals(status: AgentStatus | None) -> None:
    if status is None or not status.is_terminal:
        refuse_after_end(RUN, status)
        return
    with pytest.raises(CallerError, match=f"run 'r1' is {status.value} and takes no signals any more"):
        refuse_after_end(RUN, status)
