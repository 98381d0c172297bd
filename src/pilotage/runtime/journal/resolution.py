"""Decisions of a person about a diverged run: the recorded call that one is about, the rows that a fork copies. Pure.

*Skip* passes a recorded call over: the program does not ask for it any more. *Done* gives a call a result, whatever was
recorded of it. *Fork* leaves the run as it is, and begins another one with the rows before one of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.agent.tools.metadata import Idempotency
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, text_digest
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.divergence import is_stuck, label_of
from pilotage.runtime.journal.question_record import is_rejection
from pilotage.runtime.journal.record_fields import decode_row
from pilotage.runtime.journal.record_rows import call_around, is_skip
from pilotage.runtime.journal.scope import RESULT, Action
from pilotage.runtime.journal.stored_words import RESULT_ACTION
from pilotage.runtime.journal.stretches import Stretch, Stretches
from pilotage.values import value

_GIVEN_BY_PEOPLE = (AgentActionKind.TOOL_CALL, AgentActionKind.STEP)
_CLOSING = (JournalStage.AFTER, JournalStage.FOLDED)


@value
class SkipAction:
    """Pass a recorded call over: the program goes on without it."""

    action: str

    def __post_init__(self) -> None:
        reject_blank(self, action=self.action)


@value
class ActionDone:
    """A call has this result: the program gets it, and the call is not begun (again)."""

    action: str
    result: JsonValue

    def __post_init__(self) -> None:
        reject_blank(self, action=self.action)


@value
class ForkBefore:
    """Begin another run with the rows before this one; the diverged run stays as it is."""

    row: int

    def __post_init__(self) -> None:
        reject_not_positive(self, row=self.row)


RunResolution: TypeAlias = SkipAction | ActionDone | ForkBefore


@value
class ResolvedCall:
    """A recorded call that a person decides about. `attempt` is that of the row with the decision.

    `questions` are the BEFORE rows of its questions without an answer.
    """

    action: Action
    number: int
    attempt: int
    questions: tuple[JournalRow, ...] = ()

    @property
    def tool_name(self) -> str | None:
        """Return the name of the tool that is called; None if it is no call of a tool."""
        label = label_of(self.action.id)
        return label.removeprefix(words.TOOL) if label.startswith(words.TOOL) else None


def check_diverged(state: AgentState) -> None:
    """Refuse a decision about a run that has not diverged.

    Raises:
        CallerError: it has ended, has not diverged, or waits for a child run that is to be decided about instead.
    """
    run, facts = f"run {state.id!r}", object_or_empty(state.metadata.get(words.DIVERGENCE))
    if state.is_terminal:
        raise CallerError(f"{run} has ended: it is {state.status}, and there is nothing to resolve.")
    has_diverged = state.reason is AgentStateReason.DIVERGED or (facts and is_stuck(state))
    if not has_diverged:
        why = f" ({state.reason})" if state.reason else ""
        raise CallerError(
            f"{run} is {state.status}{why} and has not diverged from its record. Answer its questions, or resume it."
        )
    if (child := facts.get(words.CHILD_RUN)) is not None:
        raise CallerError(f"{run} waits for its child run {child!r}. Resolve that one: {child!r}.")


def call_to_skip(run_id: str, rows: Sequence[JournalRow], name: str) -> ResolvedCall:
    """Return the recorded call that is to be passed over.

    Raises:
        CallerError: there is none of this id, or it cannot be passed over.
    """
    action_id = _recorded_id(run_id, rows, name)
    own = [row for row in rows if row.action_id == action_id]
    is_open = not any(row.stage in _CLOSING for row in own)
    if any(row.kind is AgentActionKind.DELEGATION for row in own) and is_open:
        raise _refused(run_id, action_id, "its child run has not ended. Cancel the run, or mend the program")
    if any(row.kind is AgentActionKind.SIGNAL and _around(row) == action_id for row in rows):
        raise _refused(
            run_id, action_id, "signals were taken in before it, and would be lost. Fork before it instead"
        )
    return _call(rows, action_id, own)


def call_to_give(run_id: str, rows: Sequence[JournalRow], name: str) -> ResolvedCall:
    """Return the recorded call that gets a result.

    Raises:
        CallerError: there is none of this id, or its result cannot be given.
    """
    action_id = _recorded_id(run_id, rows, name)
    own = [row for row in rows if row.action_id == action_id]
    if not own:
        raise _refused(run_id, action_id, "it has not begun, so it has no result. Skip it instead")
    if own[0].kind not in _GIVEN_BY_PEOPLE:
        kinds = " or ".join(kind.value for kind in _GIVEN_BY_PEOPLE)
        raise _refused(run_id, action_id, f"only a {kinds} can be given a result. Skip it, or fork before it")
    return _call(rows, action_id, own)


def with_asked_fingerprint(call: ResolvedCall, state: AgentState) -> ResolvedCall:
    """Return the call as the program asks for it, if the run diverged at this call: the result is for that request."""
    asked = object_or_empty(object_or_empty(state.metadata.get(words.DIVERGENCE)).get(words.ASKED))
    fingerprint = asked.get(words.FINGERPRINT)
    is_same = (asked.get(words.ACTION), asked.get(words.KIND)) == (call.action.id, call.action.kind.value)
    if not is_same or not isinstance(fingerprint, str):
        return call
    return ResolvedCall(
        _action(call.action.id, call.action.kind, fingerprint, call.action.idempotency),
        call.number,
        call.attempt,
        call.questions,
    )


def fork_id(run_id: str, row: int, count: int) -> str:
    """Return the id of the fork before a row: a repetition of the same decision after a crash makes the same fork."""
    return text_digest(f"{words.FORK}\n{run_id}\n{row}\n{count}")[:32]


def resolution_in(row: JournalRow) -> JsonObject | None:
    """Return the decision that a CLAIMED row holds; None for any other row."""
    if row.stage is not JournalStage.CLAIMED:
        return None
    found = object_or_empty(row.view).get(words.RESOLUTION)
    return object_or_empty(found) or None


def resolution_mismatch(rows: Sequence[JournalRow]) -> str | None:
    """Return which row of a decision lacks its claim, or its author and reason; None if there is none."""
    decided: set[str] = set()
    for row in rows:
        claim = resolution_in(row)
        if claim is not None:
            if not claim.get(words.DECIDED_BY) or not claim.get(words.COMMENT):
                return f"row {row.seq} has a decision without its author and reason"
            decided.add(str(claim.get(words.ACTION)))
        elif is_skip(row) and row.action_id not in decided:
            return f"row {row.seq} skips {row.action_id!r}, and no row before it has that decision"
    return None


def _recorded_id(run_id: str, rows: Sequence[JournalRow], name: str) -> str:
    """Return the id of a recorded call that replay enters; the root of the id may be left out."""
    known = {call for row in rows if (call := _around(row) or _own_id(row)) is not None}
    action_id = next((each for each in (name, f"{words.RUN_PREFIX}{name}") if each in known), None)
    if action_id is None:
        raise CallerError(
            f"run {run_id!r} has no recorded call {name!r}. Its record has: {_some(rows, known)}."
        )
    finished = {row.action_id for row in rows if row.stage in _CLOSING}
    above = action_id.rpartition("/")[0]
    while above:
        if above in finished:
            raise _refused(
                run_id, action_id, f"it is inside of {above!r}, which has ended: decide about that"
            )
        above = above.rpartition("/")[0]
    if (fold := _fold_over(rows, action_id)) is not None:
        raise _refused(
            run_id, action_id, f"it is one of the turns that row {fold.seq} folds. Fork before that row"
        )
    if any(row.action_id == action_id and is_skip(row) for row in rows):
        raise _refused(run_id, action_id, "it is skipped already")
    return action_id


def _fold_over(rows: Sequence[JournalRow], action_id: str) -> Stretch | None:
    """Return the folded stretch that a call is inside of; None if replay makes it again."""
    folds, own = Stretches(rows), [row for row in rows if row.action_id == action_id]
    return next(filter(None, map(folds.over, own)), None)


def _some(rows: Sequence[JournalRow], known: set[str]) -> str:
    found = dict.fromkeys(each for row in rows if (each := _own_id(row)) in known)
    names = [str(each) for each in found]
    return ", ".join(names[-10:]) or "none"


def _own_id(row: JournalRow) -> str | None:
    """Return the id of a call of the program; None for rows of the runtime, of gates and of finished branches."""
    is_other = (
        row.kind is None
        or row.kind is AgentActionKind.APPROVAL_WAIT
        or row.stage is JournalStage.FOLDED
        or row.action_id == RESULT
        or row.action_id.startswith(f"{RESULT}/")
        or label_of(row.action_id).startswith(words.CHANGED)
    )
    return None if is_other or _around(row) is not None else row.action_id


def _around(row: JournalRow) -> str | None:
    return None if row.kind is None else call_around(row.action_id, row.kind)


def _call(rows: Sequence[JournalRow], action_id: str, own: Sequence[JournalRow]) -> ResolvedCall:
    answered = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
    beside = [row for row in rows if _around(row) == action_id]
    questions = tuple(
        row for row in beside if row.kind is AgentActionKind.APPROVAL_WAIT and row.action_id not in answered
    )
    first = (own or beside)[0]
    kind = (own[0].kind if own else None) or _kind_of(action_id)
    attempts = [row.attempt for row in own if row.stage is JournalStage.AFTER]
    attempt = max(attempts) + 1 if attempts else max((row.attempt for row in own), default=1)
    action = _action(action_id, kind, first.fingerprint, first.idempotency)
    return ResolvedCall(action, first.number, attempt, questions)


def _kind_of(action_id: str) -> AgentActionKind:
    """Return the kind of a call of which only a question is recorded."""
    is_tool = label_of(action_id).startswith(words.TOOL)
    return AgentActionKind.TOOL_CALL if is_tool else AgentActionKind.STEP


def _action(action_id: str, kind: AgentActionKind, fingerprint: str, idempotency: Idempotency) -> Action:
    return Action(
        id=action_id,
        kind=kind,
        name=label_of(action_id).partition(":")[2] or action_id,
        asked=None,
        view=None,
        idempotency=idempotency,
        is_read_only=False,
        fingerprint=fingerprint,
    )


def _refused(run_id: str, action_id: str, why: str) -> CallerError:
    return CallerError(f"run {run_id!r}: {action_id!r} cannot be resolved so: {why}.")


def fork_rows(run_id: str, rows: Sequence[JournalRow], at: int | None = None) -> list[JournalRow]:
    """Return the first rows of a fork at row `at`: the start of the run, and the rows of all actions that are done.

    Open questions and the result are left out: the fork gets its own. So is an approval of an action that was not done
    by then: it is bound to an attempt of the original run.

    Raises:
        CallerError: there is no such row, or an action is open there, so that its outcome is unknown.
    """
    last = rows[-1].seq if at is None else at
    if not 1 <= last <= rows[-1].seq:
        raise CallerError(f"run {run_id!r} has the rows 1 to {rows[-1].seq}; it cannot be forked at {last}.")
    earlier = [row for row in rows if row.seq <= last]
    closed = {row.action_id for row in earlier if row.stage in (JournalStage.AFTER, JournalStage.FOLDED)}
    rejected = {row.action_id for row in earlier if _is_rejection(row)}
    copied = [rows[0]]
    for row in earlier:
        if row.kind is None or row.action_id == RESULT_ACTION:
            continue
        if row.kind is AgentActionKind.APPROVAL_WAIT:
            if _is_settled(row.action_id, closed, rejected):
                copied.append(row)
        elif row.action_id in closed:
            copied.append(row)
        else:
            raise CallerError(
                f"run {run_id!r} cannot be forked at row {last}: {row.action_id!r} is open there, and its outcome is "
                "unknown. Fork at another row."
            )
    return copied


def _is_settled(question: str, closed: set[str], rejected: set[str]) -> bool:
    """Return whether an answered question allows nothing more: its action is done, or was rejected."""
    about = question.rpartition("/")[0]
    return about != RESULT_ACTION and question in closed and (about in closed or question in rejected)


def _is_rejection(row: JournalRow) -> bool:
    is_answer = row.kind is AgentActionKind.APPROVAL_WAIT and row.stage is JournalStage.AFTER
    return is_answer and decode_row(row, is_rejection)
