"""Records of questions to people and of their answers. Pure.

A question is the BEFORE row of an APPROVAL_WAIT action: every field of its request. Its answer is the AFTER row.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryCancelled,
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
    optional_object,
    optional_text,
    text_field,
    value_field,
)
from pilotage.values import value

Question: TypeAlias = AgentApprovalRequest | AgentRecoveryRequest


def encode_question(question: Question) -> JsonObject:
    """Return every field of a question as JSON."""
    return as_object(to_json_value(question))


def decode_question(record: JsonObject) -> Question:
    """Return the question that a row holds, of either kind.

    Raises:
        DamagedRecordError: the record is neither.
    """
    return decode_recovery(record) if words.ACTION_KIND in record else decode_approval(record)


def decode_approval(record: JsonValue) -> AgentApprovalRequest:
    """Return a question for approval.

    Raises:
        DamagedRecordError: the record is none.
    """
    return contract_value(AgentApprovalRequest, record)


def decode_recovery(record: JsonValue) -> AgentRecoveryRequest:
    """Return a question about an unknown outcome, or for the result of a deferred call.

    Raises:
        DamagedRecordError: the record is none.
    """
    return contract_value(AgentRecoveryRequest, record)


@value
class ApprovalAnswer:
    """The recorded answer to a question for approval; `decided_by` where the signal names the person."""

    decision: ApprovalDecision
    modified_payload: JsonObject | None = None
    comment: str | None = None
    decided_by: str | None = None

    def encode(self) -> JsonObject:
        """Return the answer as JSON."""
        record: dict[str, JsonValue] = {
            words.DECISION: self.decision.value,
            words.MODIFIED_PAYLOAD: self.modified_payload,
            words.COMMENT: self.comment,
        }
        if self.decided_by is not None:
            record[words.DECIDED_BY] = self.decided_by
        return record

    @classmethod
    def decode(cls, record: JsonObject) -> ApprovalAnswer:
        """Return the answer that `encode` wrote."""
        decision = text_field(record, words.DECISION)
        try:
            decided = ApprovalDecision(decision)
        except ValueError as error:
            raise DamagedRecordError(words.DECISION, "a decision") from error
        return cls(
            decided,
            optional_object(record, words.MODIFIED_PAYLOAD),
            optional_text(record, words.COMMENT),
            optional_text(record, words.DECIDED_BY),
        )


def is_rejection(record: JsonObject) -> bool:
    """Whether the record of an answer says no to an action."""
    return record.get(words.DECISION) == ApprovalDecision.REJECT.value


@value
class RecoveryAnswerRecord:
    """The recorded answer about an unknown outcome; `decided_by` where the signal names the person."""

    answer: RecoveryAnswer
    decided_by: str | None = None

    def encode(self) -> JsonObject:
        """Return the answer as JSON: the name of its class and its fields."""
        answer = self.answer
        record: dict[str, JsonValue] = {
            words.ANSWER: _name_of(answer),
            words.REQUEST_ID: answer.request_id,
            words.ACTION_ID: answer.action_id,
            words.COMMENT: answer.comment,
        }
        if isinstance(answer, RecoveryRetried):
            record[words.ATTEMPT] = answer.attempt
        elif isinstance(answer, RecoveryDone):
            record[words.RESULT] = to_json_value(answer.result)
        if self.decided_by is not None:
            record[words.DECIDED_BY] = self.decided_by
        return record

    @classmethod
    def decode(cls, record: JsonObject) -> RecoveryAnswerRecord:
        """Return the answer that `encode` wrote."""
        return cls(_decode_recovery_answer(record), optional_text(record, words.DECIDED_BY))


def _name_of(answer: RecoveryAnswer) -> str:
    match answer:
        case RecoveryRetried():
            return words.RETRIED
        case RecoveryDone():
            return words.DONE
        case RecoveryFailed():
            return words.FAILED
        case RecoveryCancelled():
            return words.CANCELLED
        case _:
            assert_never(answer)


def _decode_recovery_answer(record: JsonObject) -> RecoveryAnswer:
    request_id, action_id = text_field(record, words.REQUEST_ID), text_field(record, words.ACTION_ID)
    comment = optional_text(record, words.COMMENT)
    match text_field(record, words.ANSWER):
        case words.RETRIED:
            return RecoveryRetried(request_id, action_id, count_field(record, words.ATTEMPT), comment)
        case words.DONE:
            return RecoveryDone(request_id, action_id, value_field(record, words.RESULT), comment)
        case words.FAILED:
            return RecoveryFailed(request_id, action_id, comment)
        case words.CANCELLED:
            return RecoveryCancelled(request_id, action_id, comment)
        case _:
            raise DamagedRecordError(words.ANSWER, "an answer")
