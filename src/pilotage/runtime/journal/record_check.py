"""Contradictions between the rows of a run, its state, its signals, its approvals and erased payloads. Pure.

A question names the digest of the arguments that a person was asked about. The action that began after the answer must
have been asked for with these arguments, and a changed call must have run with those of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, ApprovalDecision
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.jsonvalue import JsonObject, JsonValue, json_digest
from pilotage.runtime.events.event_log import is_erased
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.record_fields import object_or_empty
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.records import taken_ids

_BELOW = f"{words.SEPARATOR}{words.APPROVAL}"
_SCALARS = (str, int, bool, type(None))


def approval_mismatch(rows: Iterable[JournalRow]) -> str | None:
    """Return which action did not begin as it was approved, in words; None where all did. Records must be open."""
    asked: dict[str, JsonObject] = {}
    answered: dict[str, JsonObject] = {}
    for row in rows:
        name = row.action_id.removesuffix(_BELOW)
        if row.kind is AgentActionKind.APPROVAL_WAIT and name != row.action_id:
            records = asked if row.stage is JournalStage.BEFORE else answered
            records[name] = object_or_empty(row.record)
        elif row.stage is JournalStage.BEFORE and row.action_id in answered:
            reason = _difference(
                asked.get(row.action_id, {}), answered[row.action_id], object_or_empty(row.record)
            )
            if reason is not None:
                return f"{row.action_id!r} (row {row.seq}) {reason}"
    return None


def _difference(question: JsonObject, answer: JsonObject, begun: JsonObject) -> str | None:
    digest, request_id = question.get("argument_digest"), question.get(words.ID)
    if digest is not None and digest != json_digest([request_id, begun.get(words.ASKED)]):
        return "began with other arguments than the ones that were approved"
    decision = answer.get(words.DECISION)
    if decision == ApprovalDecision.REJECT.value:
        return "began, and was rejected"
    given = answer.get(words.MODIFIED_PAYLOAD)
    if decision == ApprovalDecision.MODIFY.value and isinstance(given, Mapping):
        executed = object_or_empty(begun.get(words.EXECUTED))
        if any(_differs(argument, executed.get(name)) for name, argument in given.items()):
            return "ran with other arguments than the ones that the answer gave"
    return None


def _differs(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two scalars differ; values of other types are compared by the chain alone, as they are encoded."""
    return type(one) is type(other) and isinstance(one, _SCALARS) and one != other


_APPROVALS = frozenset({AgentStateReason.APPROVAL_REQUIRED, AgentStateReason.APPROVAL_DEFERRED})


def state_mismatch(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """Return how a state contradicts the rows of its run, in words; None where it does not."""
    if not rows:
        return f"its state is {state.status}, and its journal has no rows"
    result = result_row(rows)
    if result is not None and result.stage is JournalStage.AFTER:
        return _end_mismatch(state, rows, object_or_empty(result.view))
    if state.is_terminal and not _is_cancelled(state):
        return f"its state is {state.status}, and there is no result in its journal"
    if not state.is_terminal:
        return _question_mismatch(state, rows)
    return None if _is_quarantined(rows) else _open_action_mismatch(state, rows)


def _is_cancelled(state: AgentState) -> bool:
    return (
        state.status is AgentStatus.CANCELLED or state.reason is AgentStateReason.CANCELLATION_CLEANUP_FAILED
    )


def signal_mismatch(rows: Iterable[JournalRow], pending: Sequence[AgentSignal]) -> str | None:
    """Return which signal was taken in and is still in the queue, in words; None where there is none."""
    taken = {signal_id for row in rows for signal_id in taken_ids(row)}
    left = next((signal for signal in pending if signal.id in taken), None)
    return None if left is None else f"signal {left.id!r} was taken in, and is still in the queue"


def erased_by_hand(state: AgentState, rows: Sequence[JournalRow]) -> Damage | None:
    """Return the first row that is marked as erased in a run that was not erased, or is whole in one that was."""
    was_erased = words.ERASED in state.metadata
    for row in rows:
        if is_erased(row) is not was_erased:
            how = (
                "it is whole, and the run was erased"
                if was_erased
                else "it is marked as erased, and the run is not"
            )
            return Damage(row.seq, row.action_id, how)
    return None


def _end_mismatch(state: AgentState, rows: Sequence[JournalRow], result: JsonObject) -> str | None:
    if not state.is_terminal:
        return f"it has a result in its journal, and its state is {state.status}"
    has_failed = result.get(words.ERROR) is not None
    if has_failed is (state.status is AgentStatus.COMPLETED):
        outcome = "an error" if has_failed else "an answer"
        return f"its journal ends with {outcome}, and its state is {state.status}"
    return _open_action_mismatch(state, rows)


def _is_quarantined(rows: Sequence[JournalRow]) -> bool:
    """Return whether the last owner did not read the rows of the run: its open actions have no outcome."""
    claim = next((row for row in reversed(rows) if row.stage is JournalStage.CLAIMED), None)
    return claim is not None and words.POISON in object_or_empty(claim.view)


def _open_action_mismatch(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    under_way = Recording(rows).under_way()
    return f"{under_way[0][0].id!r} has no outcome, and its state is {state.status}" if under_way else None


def _question_mismatch(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """Return how a waiting state contradicts the open questions: it needs one, or a child run that may have one."""
    if state.status is not AgentStatus.INTERRUPTED or state.reason not in _APPROVALS:
        return None
    closed = {row.action_id for row in rows if row.stage is not JournalStage.BEFORE}
    waits = (AgentActionKind.APPROVAL_WAIT, AgentActionKind.DELEGATION)
    if any(row.kind in waits and row.action_id not in closed for row in rows):
        return None
    return f"its state is {state.status} ({state.reason}), and no question is open"


def result_row(rows: Sequence[JournalRow]) -> JournalRow | None:
    """Return the row with the result of a run; None before its end."""
    return next((row for row in reversed(rows) if row.action_id == words.RESULT_ACTION), None)
