"""Records of questions to people and of their answers. Pure.

A question is the BEFORE row of an APPROVAL_WAIT action: every field of its request. Its answer is the AFTER row.
Decoders raise `DamagedRecordError` where a record has another shape.
"""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.decisions import AgentApprovalDecisionOutcome
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryCancelled,
    RecoveryDecision,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.signals import ApprovalDecision
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    contract_value,
    count_field,
    objects_field,
    optional_text,
    text_field,
    value_field,
)

Question: TypeAlias = AgentApprovalRequest | AgentRecoveryRequest


def encode_question(question: Question) -> JsonObject:
    """Return the fields of a question as JSON, without what is only known when it is read; most have nothing inside."""
    record = as_object(to_json_value(question))
    left_out = (words.BEGUN,) if record.get(words.INSIDE) else (words.BEGUN, words.INSIDE)
    return {name: each for name, each in record.items() if name not in left_out}


def decode_question(record: JsonObject) -> Question:
    """Return the question that a row holds, of either kind."""
    return decode_recovery(record) if words.ACTION_KIND in record else decode_approval(record)


def decode_approval(record: JsonValue) -> AgentApprovalRequest:
    """Return a question for approval."""
    return contract_value(AgentApprovalRequest, record)


def decode_recovery(record: JsonValue) -> AgentRecoveryRequest:
    """Return a question about an unknown outcome, or for the result of a deferred call."""
    return contract_value(AgentRecoveryRequest, record)


def encode_approval_answer(
    outcome: AgentApprovalDecisionOutcome, decided_by: str | None = None
) -> JsonObject:
    """Return the answer to a question for approval; `decided_by` where the signal names the person."""
    record: JsonObject = {
        words.DECISION: outcome.decision.value,
        words.MODIFIED_PAYLOAD: outcome.modified_payload,
        words.COMMENT: outcome.comment,
    }
    return record if decided_by is None else {**record, words.DECIDED_BY: decided_by}


def is_rejection(record: JsonObject) -> bool:
    """Return whether the record of an answer rejects an action."""
    return record.get(words.DECISION) == ApprovalDecision.REJECT.value


def encode_recovery_answer(answer: RecoveryAnswer, decided_by: str | None = None) -> JsonObject:
    """Return the answer about an unknown outcome: the name of its class and its fields."""
    record: JsonObject = {words.ANSWER: type(answer).__name__, **as_object(to_json_value(answer))}
    if isinstance(answer, RecoveryRetried):
        inside: list[JsonValue] = [encode_recovery_answer(each) for each in answer.inside]
        record = {key: each for key, each in record.items() if key != words.INSIDE}
        record = {**record, words.INSIDE: inside} if inside else record
    return record if decided_by is None else {**record, words.DECIDED_BY: decided_by}


_DECISIONS = {
    words.RETRIED: RecoveryDecision.RETRY,
    words.DONE: RecoveryDecision.DONE,
    words.FAILED: RecoveryDecision.FAIL,
    words.CANCELLED: RecoveryDecision.CANCEL,
}


def decision_in(record: JsonObject) -> str:
    """Return the word of the decision that the record of an answer holds, of either kind of question."""
    if words.DECISION in record:
        return text_field(record, words.DECISION)
    found = _DECISIONS.get(text_field(record, words.ANSWER))
    if found is None:
        raise DamagedRecordError(words.ANSWER, "an answer")
    return found.value


def answers_inside(record: JsonObject) -> tuple[RecoveryRetried | RecoveryDone, ...]:
    """Return the answers to actions inside of the one that a question was about."""
    if words.INSIDE not in record:
        return ()
    answers = [decode_recovery_answer(each) for each in objects_field(record, words.INSIDE)]
    going_on = tuple(each for each in answers if isinstance(each, RecoveryRetried | RecoveryDone))
    if len(going_on) < len(answers):
        raise DamagedRecordError(words.INSIDE, "answers that let the run go on")
    return going_on


def decode_recovery_answer(record: JsonObject) -> RecoveryAnswer:
    """Return the answer that `encode_recovery_answer` wrote."""
    request_id, action_id = text_field(record, words.REQUEST_ID), text_field(record, words.ACTION_ID)
    comment = optional_text(record, words.COMMENT)
    match text_field(record, words.ANSWER):
        case words.RETRIED:
            attempt = count_field(record, words.ATTEMPT)
            return RecoveryRetried(request_id, action_id, attempt, comment, answers_inside(record))
        case words.DONE:
            return RecoveryDone(request_id, action_id, value_field(record, words.RESULT), comment)
        case words.FAILED:
            return RecoveryFailed(request_id, action_id, comment)
        case words.CANCELLED:
            return RecoveryCancelled(request_id, action_id, comment)
        case _:
            raise DamagedRecordError(words.ANSWER, "an answer")
