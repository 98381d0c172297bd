"""From the model's words to the real ones: rows, states, signals, and what recovery decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.recovery import AskHuman, Reconcile, Recovery, Repeat, Reuse, recovery_for
from pilotage.runtime.journal.scope import Action
from tests.crash.protocol.flaws import Setting
from tests.crash.protocol.words import Draft, Kind, Row, Says, Stage, Standing

RUN = RunKey("default", "the-run")
RESULT = "run/result#1"

IDEMPOTENCY = {
    Kind.READ_ONLY: Idempotency.IDEMPOTENT,
    Kind.IDEMPOTENT: Idempotency.IDEMPOTENT,
    Kind.RECONCILED: Idempotency.NON_IDEMPOTENT,
    Kind.UNREPEATABLE: Idempotency.NON_IDEMPOTENT,
}
SITUATIONS = {
    Says.APPROVAL: AgentSituation.WAITING_FOR_APPROVAL,
    Says.RECOVERY: AgentSituation.RECOVERY_REQUIRED,
    Says.COMPLETED: AgentSituation.COMPLETED,
    Says.FAILED: AgentSituation.FAILED,
    Says.CANCELLED: AgentSituation.CANCELLED,
}


class Kept(NamedTuple):
    """What is compared of a row."""

    seq: int
    stage: JournalStage
    action_id: str
    attempt: int
    epoch: int


def kept(row: JournalRow) -> Kept:
    """A row of the real store."""
    return Kept(row.seq, row.stage, row.action_id, row.attempt, row.epoch)


def expected(setting: Setting, row: Row) -> Kept:
    """The row that the real store must have for one of the model."""
    stage, action_id, attempt = _place(setting, row)
    return Kept(row.seq, stage, action_id, attempt, row.epoch)


def status_of(known: Standing, journal: Sequence[Row]) -> AgentStatus:
    """The status of a run, from the rows of the model."""
    if known.is_ended:
        return SITUATIONS[journal[-1].says].status
    if known.is_cancelling:
        return AgentStatus.CANCELLING
    return AgentStatus.INTERRUPTED if known.question else AgentStatus.ACTIVE


EVERY_SIGNAL = 2**31
"""The number of a last signal that no run has."""


def append(
    ledger: Ledger, setting: Setting, row: Row | Draft, *, is_first: bool, answer: str, cancel: str
) -> None:
    """Append a row as the runtime does: with the state that moves and the signal that is used up with it."""
    stage, _, attempt = _place(setting, row)
    if stage is not JournalStage.CLAIMED:
        ledger.append(_real(setting, row), stage, attempt, row.says.value, row.says.value)
    elif row.stage is Stage.CLAIMED or not is_first:
        ledger.claim(row.says.value, row.says.value)
    match row.stage:
        case Stage.ASKED | Stage.ENDED:
            # Signals have a rule of their own, which is no part of this protocol.
            ledger.add_signals((), EVERY_SIGNAL)
            ledger.change_state(ledger.state.moved_to(SITUATIONS[row.says]))
        case Stage.ANSWERED:
            ledger.consume_signal(answer)
            ledger.change_state(ledger.state.moved_to(AgentSituation.RUNNING))
        case Stage.CANCELLING:
            ledger.change_state(ledger.state.moved_to(AgentSituation.CANCELLING))
            if row.says is Says.CANCEL:
                ledger.consume_signal(cancel)
        case _:
            pass


def recovery_agrees(setting: Setting, rows: Sequence[JournalRow], known: Standing) -> bool:
    """Whether the real decision about every action of the program is the one that the model makes."""
    recording = Recording(rows)
    for at, kind in enumerate(setting.actions):
        action = _action(at, kind)
        recorded = recording.take(action)
        found = recorded and recovery_for(action, recorded, can_reconcile=kind is Kind.RECONCILED)
        if at < known.action and not isinstance(found, Reuse):
            return False
        if at >= known.action and found != _decision(kind, known.attempt if at == known.action else 0):
            return False
    return True


def _decision(kind: Kind, attempt: int) -> Recovery | None:
    """What must be done with an action; None for one that never began."""
    if attempt == 0:
        return None
    match kind:
        case Kind.READ_ONLY | Kind.IDEMPOTENT:
            return Repeat(attempt)
        case Kind.RECONCILED:
            return Reconcile(attempt)
        case Kind.UNREPEATABLE:
            return AskHuman(attempt)


def _place(setting: Setting, row: Row | Draft) -> tuple[JournalStage, str, int]:
    """A question is an action of its own; an end without a result, and a change of state, are claims."""
    match row.stage:
        case Stage.BEFORE | Stage.AFTER:
            return JournalStage(row.stage), _real(setting, row).id, row.attempt
        case Stage.ASKED:
            return JournalStage.BEFORE, _real(setting, row).id, 1
        case Stage.ANSWERED:
            return JournalStage.AFTER, _real(setting, row).id, 1
        case Stage.ENDED if row.says is Says.COMPLETED:
            return JournalStage.AFTER, RESULT, 1
        case _:
            return JournalStage.CLAIMED, "run", 1


def _real(setting: Setting, row: Row | Draft) -> Action:
    if row.stage is Stage.ENDED:
        return _named(RESULT, AgentActionKind.STEP, Idempotency.IDEMPOTENT)
    action = _action(row.action, setting.actions[row.action])
    if row.stage in (Stage.BEFORE, Stage.AFTER):
        return action
    what = f"recovery{row.attempt}" if row.attempt else "approval"
    return _named(f"{action.id}/{what}", AgentActionKind.APPROVAL_WAIT, Idempotency.NON_IDEMPOTENT)


def _action(at: int, kind: Kind) -> Action:
    return _named(
        f"run/tool:act#{at + 1}", AgentActionKind.TOOL_CALL, IDEMPOTENCY[kind], kind is Kind.READ_ONLY
    )


def _named(
    action_id: str, kind: AgentActionKind, idempotency: Idempotency, is_read_only: bool = False
) -> Action:
    return Action(action_id, kind, action_id, None, None, idempotency, is_read_only, action_id)
