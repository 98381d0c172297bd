"""The parts of a recorded reply: what its text, reasoning and calls do not say. Pure.

Text and calls are recorded as they always were. Where they are not all of a reply, its record has the order of its
parts as well: each with its kind, the length of its piece of text, and the state that its provider wants back. A view
has the order without the states and without any text of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from pilotage.agent.messages import (
    MediaPart,
    MessagePart,
    ModelToolCall,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
    state_of,
)
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, in_record_order, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    contract_value,
    count_field,
    object_field,
    optional_object,
    optional_text,
    text_field,
    value_field,
)


def has_own_parts(response: ModelResponse) -> bool:
    """Return whether the text and the calls of a reply are not all of it."""
    calls = response.tool_calls
    return response.ordered is not None or (bool(calls) and any(call.state is not None for call in calls))


def encode_parts(parts: Iterable[MessagePart], reasoning: str) -> list[JsonValue]:
    """Return the order of parts; their reasoning is left out where it is what the record has as such."""
    listed = tuple(parts)
    is_recorded = "".join(part.text for part in listed if isinstance(part, ReasoningPart)) == reasoning
    return [_encoded(part, is_recorded=is_recorded) for part in listed]


def decode_parts(
    entries: JsonValue, content: str, calls: Sequence[ModelToolCall], reasoning: str
) -> tuple[MessagePart, ...]:
    """Return the parts of a recorded reply with this text, these calls and this reasoning.

    Raises:
        DamagedRecordError: the order does not fit them.
    """
    if not isinstance(entries, list | tuple):
        raise DamagedRecordError(words.PARTS, "a list")
    texts, thoughts, asked = _Text(content), _Text(reasoning), iter(calls)
    parts = tuple(_decoded(entry, texts, thoughts, asked) for entry in entries)
    if texts.is_left or next(asked, None) is not None:
        raise DamagedRecordError(words.PARTS, "the whole text and all calls of the reply")
    return parts


def event_in_record_order(
    event: ModelStreamEvent, ordered_calls: Sequence[ModelToolCall] = ()
) -> ModelStreamEvent:
    """Return an event whose JSON has the order of its record, as in replay; the event itself if it has.

    `ordered_calls` are those of earlier events, which a whole reply has again.
    """
    call, response = event.tool_call, event.response
    changed: dict[str, Any] = {}
    if event.metadata and (metadata := in_record_order(event.metadata)) is not event.metadata:
        changed["metadata"] = metadata
    given = event.structured_output
    if given is not None and (structured := in_record_order(given)) is not given:
        changed["structured_output"] = structured
    if call is not None and (ordered := _call_in_order(call)) is not call:
        changed["tool_call"] = ordered
    if response is not None and (reply := _reply_in_order(response, ordered_calls)) is not response:
        changed["response"] = reply
    return replace(event, **changed) if changed else event


def _reply_in_order(response: ModelResponse, ordered_calls: Sequence[ModelToolCall]) -> ModelResponse:
    """Return a reply in the order of its record; a changed structured output is to be decoded again."""
    if (
        not (response.metadata or response.tool_calls or response.ordered)
        and response.structured_output is None
    ):
        return response
    metadata = in_record_order(response.metadata) if response.metadata else response.metadata
    structured = response.structured_output and in_record_order(response.structured_output)
    calls = response.tool_calls
    if len(calls) != len(ordered_calls) or not all(map(is_, calls, ordered_calls)):
        calls = tuple(map(_call_in_order, calls))
    ordered = None if response.ordered is None else tuple(map(_part_in_order, response.ordered))
    is_so = structured is response.structured_output
    if (
        is_so
        and metadata is response.metadata
        and all(map(is_, calls, response.tool_calls))
        and (ordered is None or all(map(is_, ordered, response.ordered or ())))
    ):
        return response
    return replace(
        response,
        metadata=as_object(metadata),
        structured_output=structured,
        output=response.output if is_so else None,
        tool_calls=calls,
        ordered=ordered,
    )


def _part_in_order(part: MessagePart) -> MessagePart:
    match part:
        case ModelToolCall():
            return _call_in_order(part)
        case TextPart() | ReasoningPart() | OpaquePart() if part.state is not None:
            state = _state_in_order(part.state)
            return part if state is part.state else replace(part, state=state)
        case _:
            return part


def _call_in_order(call: ModelToolCall) -> ModelToolCall:
    arguments = in_record_order(call.arguments)
    metadata = in_record_order(call.metadata) if call.metadata else call.metadata
    state = None if call.state is None else _state_in_order(call.state)
    if arguments is call.arguments and metadata is call.metadata and state is call.state:
        return call
    return replace(call, arguments=as_object(arguments), metadata=as_object(metadata), state=state)


def _state_in_order(state: ProviderState) -> ProviderState:
    data = in_record_order(state.data)
    return state if data is state.data else replace(state, data=data)


def encode_state(state: ProviderState) -> JsonObject:
    """Return the record of a provider's state: the only JSON that it has."""
    return {
        words.PROVIDER: state.provider,
        words.MODEL: state.model,
        words.KIND: state.kind,
        words.DATA: to_json_value(state.data),
    }


def decode_state(record: JsonObject) -> ProviderState:
    """Return the state that `encode_state` wrote."""
    return ProviderState(
        text_field(record, words.PROVIDER),
        text_field(record, words.MODEL),
        text_field(record, words.KIND),
        value_field(record, words.DATA),
    )


def _encoded(part: MessagePart, *, is_recorded: bool) -> JsonObject:
    state = state_of(part)
    entry: dict[str, JsonValue] = {} if state is None else {words.STATE: encode_state(state)}
    match part:
        case ModelToolCall():
            return {words.KIND: words.CALL, **entry}
        case TextPart():
            return {words.KIND: words.TEXT, words.CHARS: len(part.text), **entry}
        case RefusalPart():
            return {words.KIND: words.REFUSAL, words.CHARS: len(part.text)}
        case ReasoningPart():
            if part.origin is not None:
                entry[words.ORIGIN] = part.origin
            if not is_recorded:
                entry[words.TEXT] = part.text
            return {words.KIND: words.REASONING, words.CHARS: len(part.text), **entry}
        case MediaPart():
            return {words.KIND: words.MEDIA, words.MEDIA: to_json_value(part)}
        case OpaquePart():
            return {words.KIND: words.OPAQUE, **entry}


class _Text:
    """A text of which parts take pieces, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def is_left(self) -> bool:
        return self._at < len(self._text)

    def take(self, entry: JsonObject) -> str:
        begin, self._at = self._at, self._at + count_field(entry, words.CHARS)
        if self._at > len(self._text):
            raise DamagedRecordError(words.CHARS, "no more than the text of the reply")
        return self._text[begin : self._at]


def _decoded(each: JsonValue, texts: _Text, thoughts: _Text, asked: Iterator[ModelToolCall]) -> MessagePart:
    if not isinstance(each, Mapping):
        raise DamagedRecordError(words.PARTS, "a list of objects")
    entry: JsonObject = dict(each)
    given = optional_object(entry, words.STATE)
    state = None if given is None else decode_state(given)
    match text_field(entry, words.KIND):
        case words.TEXT:
            return TextPart(texts.take(entry), state)
        case words.REFUSAL:
            return RefusalPart(texts.take(entry))
        case words.REASONING:
            own = optional_text(entry, words.TEXT)
            text = thoughts.take(entry) if own is None else own
            return ReasoningPart(text, optional_text(entry, words.ORIGIN), state)
        case words.CALL:
            call = next(asked, None)
            if call is None:
                raise DamagedRecordError(words.PARTS, "no more calls than the reply has")
            return ModelToolCall(call.name, call.arguments, call.call_id, call.metadata, state)
        case words.MEDIA:
            return contract_value(MediaPart, object_field(entry, words.MEDIA))
        case words.OPAQUE if state is not None:
            return OpaquePart(state)
        case kind:
            raise DamagedRecordError(words.PARTS, f"parts of a known kind, not {kind!r}")
