"""The rows of a journal as the replay kernel reads them. Pure.

Rows of versions that did not number calls have the number 0: their calls are matched by id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.filling import unchecked
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import RESULT
from pilotage.runtime.journal.positions import TASK, CallIdentity, RecordRow, RowStage

_AFTER_ALL_CALLS = (f"{words.END}#", f"{words.MORE}#")
"""The boundaries at which signals are taken in when the program has ended: they belong to no call."""
_new_row, _new_identity = unchecked(RecordRow), unchecked(CallIdentity)
_IN_TASK, _BELOW_RESULT = f"/{TASK}", f"{RESULT}/"
_CLAIM = CallIdentity("", "", "")
_RETURNED = (RowStage.RETURNED, CallIdentity("the question about", RESULT, ""))
_TRIES = (f"{words.TRY}#", f"{words.HOLD}#")
_OF_CONTEXT = frozenset({words.CONDENSED, words.PROVIDED, words.SELECTED, words.OPTIMIZED})


def record_rows(rows: Sequence[JournalRow], claims: Sequence[JournalRow] = ()) -> Iterator[RecordRow]:
    """Return the rows of a journal that replay depends on; `claims` say when each attempt began."""
    # Only beside other tasks, or in front of an answer, does replay ever wait for a recorded time.
    has_times = any(row.turn is not None or _has_time(row.action_id) for row in rows)
    started = {row.epoch: row.created_at for row in reversed(claims)} if has_times else {}
    epoch = 0
    for row in rows:
        read = _read(row)
        if read is None:
            continue
        stage, identity = read
        path, _, name = row.action_id.rpartition("/")
        if name.startswith(words.CHANGED):
            gate, _, number = name.removeprefix(words.CHANGED).rpartition("#")
            yield RecordRow(
                RowStage.CHANGED, path, int(number), CallIdentity("gate", gate, ""), id=row.action_id
            )
            continue
        at = row.created_at if has_times else None
        if at is not None and row.epoch != epoch:
            # Another attempt: the run may have been paused before it.
            epoch = row.epoch
            begun = started.get(epoch) or at
            yield RecordRow(RowStage.CLAIMED, "", 0, _CLAIM, id="", at=begun.timestamp())
        call_id, turn = identity.label, row.turn
        yield _new_row(
            stage,
            path if call_id is row.action_id else call_id.rpartition("/")[0],
            row.number,
            identity,
            id=call_id,
            takes_turn=turn is not None,
            passed=turn or 0,
            at=0.0 if at is None else at.timestamp(),
            outcome=row,
        )


def _has_time(action_id: str) -> bool:
    return _IN_TASK in action_id or action_id.startswith(_BELOW_RESULT)


def _read(row: JournalRow) -> tuple[RowStage, CallIdentity] | None:
    """Return the stage of a row and the identity of its call, with the id as label; None if replay does not need it."""
    action_id, kind = row.action_id, row.kind
    if kind is None or action_id == RESULT:
        return None
    if action_id.startswith(_BELOW_RESULT):
        return _RETURNED if kind is AgentActionKind.APPROVAL_WAIT else None
    call_id = call_around(action_id, kind)
    if call_id is not None:
        # A handler of signals that was recorded without numbers runs before the call it is recorded beside.
        is_needed = row.number or (
            kind is AgentActionKind.SIGNAL and not call_id.startswith(_AFTER_ALL_CALLS)
        )
        return (RowStage.BESIDE, CallIdentity("", call_id, "")) if is_needed else None
    identity = _new_identity(kind, action_id, row.fingerprint)
    if row.stage is JournalStage.FOLDED:
        return RowStage.FOLDED, identity
    if row.stage is JournalStage.BEFORE:
        return RowStage.BEGUN, identity
    marks = _marks(row)
    if words.SKIPPED in marks:
        return RowStage.SKIPPED, identity
    return RowStage.CUT if words.CUT_SHORT in marks else RowStage.ENDED, identity


def is_cut(row: JournalRow) -> bool:
    """Return whether a row says that the program cut its call short."""
    return words.CUT_SHORT in _marks(row)


def is_skip(row: JournalRow) -> bool:
    """Return whether a row says that a person skipped its call."""
    return words.SKIPPED in _marks(row)


def _marks(row: JournalRow) -> Mapping[str, object]:
    """Return the record of an outcome that may be none of the call's own: only such a one has a turn and is plain."""
    if row.turn is None or not row.is_plain:
        return {}
    record = row.record
    return record if isinstance(record, dict) else {}


def call_around(action_id: str, kind: AgentActionKind) -> str | None:
    """Return the id of the call that a row of a question, context change, try or signal belongs to; None for a call.

    The hold of a try belongs to its call, too.
    """
    above, _, name = action_id.rpartition("/")
    if kind is AgentActionKind.STEP and name.startswith(_TRIES) and _is_model_call(above):
        return above
    if kind is AgentActionKind.APPROVAL_WAIT or name in _OF_CONTEXT:
        return call_around(above, AgentActionKind.STEP) or above
    if kind is AgentActionKind.SIGNAL and not name.startswith(words.SIGNAL):
        label, _, ordinal = name.partition("#")
        if label == words.SIGNALS:
            return f"{above}/{words.MODEL}#{ordinal}"
        return f"{above}/{name.removeprefix(words.SIGNALS_BESIDE)}"
    return None


def _is_model_call(action_id: str) -> bool:
    return action_id.rpartition("/")[2].startswith(f"{words.MODEL}#")
