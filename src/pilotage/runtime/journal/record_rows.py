"""The rows of a journal as the replay kernel reads them. Pure.

Rows of versions that did not number calls have the number 0: their calls are matched by id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.filling import unchecked
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.positions import TASK, CallIdentity, RecordRow, RowStage
from pilotage.runtime.journal.scope import RESULT

_AFTER_ALL_CALLS = (f"{words.END}#", f"{words.MORE}#")
"""The boundaries at which signals are taken in when the program has ended: they belong to no call."""
_new_row, _new_identity = unchecked(RecordRow), unchecked(CallIdentity)
_IN_TASK, _BELOW_RESULT = f"/{TASK}", f"{RESULT}/"
_CLAIM = CallIdentity("", "", "")
# Looking a member up costs as much as a call.
_BEFORE, _FOLD = JournalStage.BEFORE, JournalStage.FOLDED
_MODEL_CALL, _TOOL_CALL = AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL
_BEGUN, _ENDED, _FOLDED, _CHANGED = RowStage.BEGUN, RowStage.ENDED, RowStage.FOLDED, RowStage.CHANGED
_RETURNED = (RowStage.RETURNED, CallIdentity("the question about", RESULT, ""))
_TRIES = (f"{words.TRY}#", f"{words.HOLD}#")
_OF_CONTEXT = frozenset({words.CONDENSED, words.PROVIDED, words.SELECTED, words.OPTIMIZED})


def record_rows(rows: Sequence[JournalRow], claims: Sequence[JournalRow] = ()) -> Iterator[RecordRow]:
    """Return the rows of a journal that replay depends on; `claims` say when each attempt began."""
    ended: set[str] = set()
    # Only beside other tasks, or in front of an answer, does replay ever wait for a recorded time.
    has_times = False
    for row in rows:
        action_id = row.action_id
        if row.stage is not _BEFORE:
            ended.add(action_id)
        if row.turn is not None or _IN_TASK in action_id or action_id.startswith(_BELOW_RESULT):
            has_times = True
    if has_times:
        return _timed_rows(rows, claims)
    # One task makes one call after the other: only of a call without outcome does it matter that it began.
    needed = [row for row in rows if row.stage is not _BEFORE or row.action_id not in ended]
    return (read for row in needed if (read := _read(row)) is not None)


def _timed_rows(rows: Sequence[JournalRow], claims: Sequence[JournalRow]) -> Iterator[RecordRow]:
    """Return the rows with their times, and those of the claims before them."""
    started = {row.epoch: row.created_at for row in reversed(claims)}
    epoch = 0
    for row in rows:
        at = row.created_at
        read = _read(row, 0.0 if at is None else at.timestamp())
        if read is None:
            continue
        if at is not None and row.epoch != epoch and read.stage is not _CHANGED:
            # Another attempt: the run may have been paused before it.
            epoch = row.epoch
            begun = started.get(epoch) or at
            yield RecordRow(RowStage.CLAIMED, "", 0, _CLAIM, id="", at=begun.timestamp())
        yield read


def _read(row: JournalRow, at: float = 0.0) -> RecordRow | None:
    """Return a row as the kernel reads it; None if replay does not need it."""
    action_id, kind, turn = row.action_id, row.kind, row.turn
    if kind is None or action_id == RESULT:
        return None
    path, _, name = action_id.rpartition("/")
    if (kind is _MODEL_CALL or kind is _TOOL_CALL) and not action_id.startswith(_BELOW_RESULT):
        stage, identity = _stage_of(row), _new_identity(kind, action_id, row.fingerprint)
    elif (read := _read_other(row, kind)) is None:
        return None
    elif name.startswith(words.CHANGED):
        return _read_gate(action_id)
    else:
        stage, identity = read
        if identity.label is not action_id:
            action_id = identity.label
            path = action_id.rpartition("/")[0]
    return _new_row(stage, path, row.number, identity, action_id, turn is not None, turn or 0, at, row)


def _read_gate(action_id: str) -> RecordRow:
    """Return the answer of a gate."""
    path, _, name = action_id.rpartition("/")
    gate, _, number = name.removeprefix(words.CHANGED).rpartition("#")
    return RecordRow(_CHANGED, path, int(number), CallIdentity("gate", gate, ""), id=action_id)


def _read_other(row: JournalRow, kind: AgentActionKind) -> tuple[RowStage, CallIdentity] | None:
    """Return the stage of a row and the identity of its call, with the id as label; None if replay does not need it."""
    action_id = row.action_id
    if action_id.startswith(_BELOW_RESULT):
        return _RETURNED if kind is AgentActionKind.APPROVAL_WAIT else None
    call_id = call_around(action_id, kind)
    if call_id is not None:
        # A handler of signals that was recorded without numbers runs before the call it is recorded beside.
        is_needed = row.number or (
            kind is AgentActionKind.SIGNAL and not call_id.startswith(_AFTER_ALL_CALLS)
        )
        return (RowStage.BESIDE, CallIdentity("", call_id, "")) if is_needed else None
    return _stage_of(row), _new_identity(kind, action_id, row.fingerprint)


def _stage_of(row: JournalRow) -> RowStage:
    """Return the stage of a call's own row."""
    stage = row.stage
    if stage is _BEFORE:
        return _BEGUN
    if stage is _FOLD:
        return _FOLDED
    if row.turn is None:
        return _ENDED
    marks = _marks(row)
    if words.SKIPPED in marks:
        return RowStage.SKIPPED
    return RowStage.CUT if words.CUT_SHORT in marks else _ENDED


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
