"""Approvals compared with the actions that began by them. Pure.

A question names the digest of the arguments that a person was asked about. The action that began after the answer must
have been asked for with these arguments, and a changed call must have run with those of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.jsonvalue import JsonObject, JsonValue, json_digest
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import object_or_empty

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
