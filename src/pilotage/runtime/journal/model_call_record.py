"""Records of model calls: a reply, whole or partial, a failure, or a reply of the wrong type. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.model_record import decode_failure, decode_response, encode_failure
from pilotage.runtime.journal.record_fields import (
    flag_field,
    object_field,
    optional_object,
    optional_text,
    text_field,
    texts_field,
)
from pilotage.runtime.journal.records import decode_usage, encode_usage
from pilotage.values import value


@value
class PartialCall:
    """What a call used that did not come to its end: the reader left the stream, or it failed on the way."""

    model: str
    usage: ModelUsage
    is_estimated: bool


@value
class ReplyRecord:
    """The record of a reply, as JSON until `response` decodes it: folds count usage without reading the reply.

    `is_partial` says that the reader left the stream early. `model` is absent in calls that used nothing.
    """

    reply: JsonObject
    reasoning: str = ""
    model: str | None = None
    is_partial: bool = False

    @property
    def usage(self) -> ModelUsage:
        """The tokens of the call.

        Raises:
            DamagedRecordError: the record holds something else.
        """
        return decode_usage(optional_object(self.reply, words.USAGE))

    def response(self, request: ModelRequest) -> ModelResponse:
        """Return the reply to a request.

        Raises:
            DamagedRecordError: the record holds something else.
        """
        return decode_response(self.reply, request)

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        record: dict[str, JsonValue] = {words.RESULT: self.reply}
        if self.reasoning:
            record[words.REASONING] = self.reasoning
        if self.model is not None:
            record[words.MODEL] = self.model
        if self.is_partial:
            record[words.LEFT] = True
        return record


@value
class FailureRecord:
    """The record of a call that failed; `used` where part of the reply had come."""

    failure: ModelCallError
    used: PartialCall | None = None

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        return {**encode_failure(self.failure), **_encode_used(self.used)}


@value
class MisfitRecord:
    """The record of a reply that does not have the type the program asked for."""

    error: str
    problems: tuple[str, ...]
    text: str = ""
    used: PartialCall | None = None

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        record: JsonObject = {
            words.ERROR: self.error,
            words.PROBLEMS: list(self.problems),
            words.TEXT: self.text,
        }
        return {**record, **_encode_used(self.used)}

    def events(self) -> Iterator[ModelStreamEvent]:
        """Replay the stream: the text that came, then the error.

        Raises:
            AgentStructuredOutputError: always, after the text.
        """
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=self.text)
        raise AgentStructuredOutputError(self.error, problems=list(self.problems))


ModelCallRecord: TypeAlias = ReplyRecord | FailureRecord | MisfitRecord


@value
class CallUsage:
    """What a recorded call used; `is_partial` where it did not come to its end, so that it counts by estimate."""

    model: str
    usage: ModelUsage
    is_partial: bool = False


def call_usage(record: JsonObject) -> CallUsage | None:
    """Return what a call used without decoding its reply; None where the record does not say, as of a denied call.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    if words.MODEL not in record:
        return None
    reply = record.get(words.RESULT)
    holder = reply if isinstance(reply, dict) else record
    usage = decode_usage(optional_object(holder, words.USAGE))
    return CallUsage(text_field(record, words.MODEL), usage, is_partial=words.LEFT in record)


def decode_model_call(record: JsonObject) -> ModelCallRecord:
    """Return the record of a model call.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    if words.PROBLEMS in record:
        return MisfitRecord(
            text_field(record, words.ERROR),
            texts_field(record, words.PROBLEMS),
            optional_text(record, words.TEXT) or "",
            _decode_used(record),
        )
    if words.ERROR in record:
        return FailureRecord(decode_failure(record), _decode_used(record))
    return ReplyRecord(
        object_field(record, words.RESULT),
        optional_text(record, words.REASONING) or "",
        optional_text(record, words.MODEL),
        flag_field(record, words.LEFT),
    )


def _encode_used(used: PartialCall | None) -> JsonObject:
    if used is None:
        return {}
    return {
        words.MODEL: used.model,
        words.LEFT: True,
        words.USAGE: encode_usage(used.usage),
        words.USAGE_ESTIMATED: used.is_estimated,
    }


def _decode_used(record: JsonObject) -> PartialCall | None:
    if words.MODEL not in record:
        return None
    usage = decode_usage(optional_object(record, words.USAGE))
    return PartialCall(
        text_field(record, words.MODEL), usage, is_estimated=flag_field(record, words.USAGE_ESTIMATED)
    )
