"""The reply of a model without handed-out secrets: masked before it is assembled, recorded and read.

Texts are masked as streams: the pieces, joined, are the whole text masked, however the model cut it. What may still
become a secret is held back; so a reader gets the end of a text at the end of the reply, and of one that it leaves or
that breaks off it does not get the part held back. Tool calls and structured outputs are masked when they are whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pilotage.agent.messages import (
    MediaPart,
    MessagePart,
    ModelToolCall,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    TextPart,
    changed_parts,
)
from pilotage.agent.model_reply import ModelError, ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.exposure.redactor import Redactor, TextSession, secretless

_TextKey: TypeAlias = tuple[str, str | None]
"""What a delta continues: a kind of text and, of the arguments of a tool call, the id of the call."""

_TEXT, _REASONING, _ARGUMENTS = "text", "reasoning", "arguments"
_FIELDS = {
    "token_delta": _TEXT,
    "message_delta": _TEXT,
    "reasoning_delta": _REASONING,
    "tool_call_args_delta": _ARGUMENTS,
}
_DELTAS = frozenset(
    {
        ModelStreamEventKind.TOKEN_DELTA,
        ModelStreamEventKind.MESSAGE_DELTA,
        ModelStreamEventKind.REASONING_DELTA,
        ModelStreamEventKind.TOOL_CALL_ARGS_DELTA,
    }
)
_BORDERS = frozenset(
    {
        ModelStreamEventKind.TOOL_CALL_START,
        ModelStreamEventKind.TOOL_CALL_END,
        ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    }
)
"""The events at which the arguments of a call begin or have ended."""
_DONE = ModelStreamEventKind.DONE


class MaskedReply(AsyncIterator[ModelStreamEvent]):
    """The events of a model's stream without the secrets that were handed out by the time each of them came.

    `written` are the pieces of text and reasoning as the model wrote them: the tokens of a reply that ends early are
    estimated by them.
    """

    def __init__(
        self, events: AsyncIterator[ModelStreamEvent], redactor: Redactor, written: list[str]
    ) -> None:
        self.written = written
        self._events = events
        self._redactor = redactor
        self._revision = redactor.revision
        self._texts: dict[_TextKey, _StreamedText] = {}
        self._ready: deque[ModelStreamEvent] = deque()

    @property
    def ag_running(self) -> bool:
        """Whether the model is being waited for, as a generator says it."""
        return getattr(self._events, "ag_running", True)

    async def __anext__(self) -> ModelStreamEvent:
        while not self._ready:
            self._add(await self._events.__anext__())
        return self._ready.popleft()

    async def after(self, event: ModelStreamEvent) -> ModelStreamEvent:
        """Return the next event after one that was read from the model before its secrets were masked."""
        self._add(event)
        return await self.__anext__()

    def _add(self, event: ModelStreamEvent) -> None:
        """Mask an event of the model; what may be read of it is ready then."""
        if self._redactor.revision != self._revision:
            self._look_for_new_secrets()
        if event.kind is _DONE:
            for key in list(self._texts):
                self._finish(key)
        elif event.kind in _BORDERS:
            self._finish((_ARGUMENTS, event.call_id))
        masked = without_secrets_in(self._streamed(event), self._redactor)
        if event.kind not in _DELTAS or _says_something(masked):
            self._ready.append(masked)

    def _look_for_new_secrets(self) -> None:
        self._revision = self._redactor.revision
        for text in self._texts.values():
            self._redactor.update(text.session)

    def _streamed(self, event: ModelStreamEvent) -> ModelStreamEvent:
        """Return an event with the parts of its deltas that may be read now."""
        for field, kind in _FIELDS.items():
            piece: str | None = getattr(event, field)
            if not piece:
                continue
            if kind is not _ARGUMENTS:
                self.written.append(piece)
            text = self._text((kind, event.call_id if kind is _ARGUMENTS else None))
            text.field, text.last = field, event
            shown = "".join(text.session.push(piece))
            if shown != piece:
                event = _with_delta(event, field, shown)
        return event

    def _text(self, key: _TextKey) -> _StreamedText:
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _StreamedText(self._redactor.secret_session())
        return text

    def _finish(self, key: _TextKey) -> None:
        """Make the part of a text ready that was held back."""
        text = self._texts.pop(key, None)
        if text is None or text.last is None:
            return
        if rest := "".join(text.session.finish()):
            last = ModelStreamEvent(text.last.kind, tool_call=text.last.tool_call, tools=text.last.tools)
            self._ready.append(without_secrets_in(_with_delta(last, text.field, rest), self._redactor))


class _StreamedText:
    """One text of the reply: its session, its last delta, and the field of the delta that has the text."""

    __slots__ = ("field", "last", "session")

    def __init__(self, session: TextSession) -> None:
        self.session = session
        self.field = ""
        self.last: ModelStreamEvent | None = None


def _with_delta(event: ModelStreamEvent, field: str, text: str) -> ModelStreamEvent:
    changed: dict[str, Any] = {field: text}
    return replace(event, **changed)


def _says_something(delta: ModelStreamEvent) -> bool:
    """Return whether a delta is of use to a reader: it has text, or a report of the model."""
    has_text = any(getattr(delta, field) for field in _FIELDS)
    return has_text or delta.usage is not None or bool(delta.metadata)


def without_secrets_in(event: ModelStreamEvent, redactor: Redactor) -> ModelStreamEvent:
    """Return an event whose tool call, structured output, error, metadata and response have no secrets."""
    call, error, response = event.tool_call, event.error, event.response
    is_bare = call is None and error is None and response is None and event.structured_output is None
    if is_bare and not event.metadata:
        return event
    return replace(
        event,
        tool_call=None if call is None else _masked_call(call, redactor),
        structured_output=secretless(event.structured_output, redactor),
        error=None if error is None else _masked_error(error, redactor),
        metadata=secretless(event.metadata, redactor),
        response=None if response is None else _masked_response(response, redactor),
    )


def _masked_response(response: ModelResponse, redactor: Redactor) -> ModelResponse:
    """Return a reply without secrets; one in its structured output leaves the output to be decoded again."""
    structured, ordered = secretless(response.structured_output, redactor), response.ordered
    if ordered is not None:
        ordered = _masked_parts(ordered, redactor)
    return replace(
        response,
        content=redactor.without_secrets(response.content),
        structured_output=structured,
        tool_calls=[_masked_call(each, redactor) for each in response.tool_calls],
        metadata=secretless(response.metadata, redactor),
        output=response.output if structured is response.structured_output else None,
        ordered=ordered,
    )


def _masked_parts(parts: Sequence[MessagePart], redactor: Redactor) -> tuple[MessagePart, ...]:
    """Return the parts of a reply without secrets; a block that only its provider reads is left out if it has one."""
    known = [
        each for each in parts if not (isinstance(each, OpaquePart) and holds_secret(each.state, redactor))
    ]
    changed = changed_parts(known, redactor.without_secrets, lambda call: _masked_call(call, redactor))
    return tuple(_masked_part(each, redactor) for each in changed)


def _masked_part(part: MessagePart, redactor: Redactor) -> MessagePart:
    """Return a part with nothing of a secret beside its text and its arguments."""
    mask = redactor.without_secrets
    match part:
        case MediaPart():
            data = None if part.data is None else mask(part.data)
            return replace(part, media_type=mask(part.media_type), data=data)
        case ReasoningPart() if part.origin is not None:
            part = replace(part, origin=mask(part.origin))
        case _:
            pass
    if isinstance(part, TextPart | ReasoningPart) and holds_secret(part.state, redactor):
        return replace(part, state=None)
    return part


def _masked_call(call: ModelToolCall, redactor: Redactor) -> ModelToolCall:
    """Return a call without secrets; one that had some has no state: a signature does not fit other arguments."""
    masked = replace(
        call,
        name=redactor.without_secrets(call.name),
        arguments=secretless(call.arguments, redactor),
        call_id=None if call.call_id is None else redactor.without_secrets(call.call_id),
        metadata=secretless(call.metadata, redactor),
    )
    is_same = masked == call and not holds_secret(call.state, redactor)
    return call if is_same else replace(masked, state=None)


def holds_secret(state: ProviderState | None, redactor: Redactor) -> bool:
    """Return whether a secret is in a provider's state: in one of its texts, or over all texts of one name."""
    if state is None:
        return False
    texts = dict[str, list[str]]()
    _collect({"": [state.provider, state.model, state.kind], _DATA: state.data}, "", texts)
    every = [each for found in texts.values() for each in (*found, "".join(found))]
    return any(redactor.without_secrets(each) != each for each in every)


_DATA = "data"


def _collect(value: JsonValue, name: str, texts: dict[str, list[str]]) -> None:
    """Add all texts in a value, by the names that they stand under."""
    if isinstance(value, str):
        texts.setdefault(name, []).append(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            texts.setdefault("", []).append(key)
            _collect(each, key, texts)
    elif isinstance(value, Sequence):
        for each in value:
            _collect(each, name, texts)


def _masked_error(error: ModelError, redactor: Redactor) -> ModelError:
    mask = redactor.without_secrets
    return replace(
        error,
        code=mask(error.code),
        message=mask(error.message),
        metadata=secretless(error.metadata, redactor),
    )


def failure_without_secrets(failure: ModelCallError, redactor: Redactor) -> ModelCallError:
    """Return the failure of a call, as its program gets it, with the secrets in its words masked."""
    if not redactor.revision:
        return failure
    kind = None if failure.failure is None else redactor.without_secrets(str(failure.failure))
    words = redactor.without_secrets(str(failure))
    return ModelCallError(words, retryable=failure.retryable, failure=kind)


def misfit_without_secrets(
    misfit: AgentStructuredOutputError, redactor: Redactor
) -> AgentStructuredOutputError:
    """Return the error of a reply of the wrong type with the secrets in its words masked."""
    if not redactor.revision:
        return misfit
    problems = [redactor.without_secrets(each) for each in misfit.problems]
    return AgentStructuredOutputError(redactor.without_secrets(str(misfit)), problems=problems)
