"""The stream of a model: projected to neutral events for architectures, and assembled to a reply.

Pure, but for `whole_replies`, which reads a stream. A tool call is projected once, in pieces or whole: a start, its
arguments, an end. The end of a stream, DONE, may carry the whole response; where it carries none, the reply is the sum
of the events. A stream without an end has no reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pilotage.agent.messages import ModelToolCall, ReasoningPart, plain_parts
from pilotage.agent.model_reply import (
    RESTARTED,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.errors import ModelCallError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.safety.fields import SensitiveFieldDescriptor

# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_MESSAGE = ModelStreamEventKind.MESSAGE_DELTA
_REASONING = ModelStreamEventKind.REASONING_DELTA
_START = ModelStreamEventKind.TOOL_CALL_START
_ARGUMENTS = ModelStreamEventKind.TOOL_CALL_ARGS_DELTA
_END = ModelStreamEventKind.TOOL_CALL_END
_CALL = ModelStreamEventKind.TOOL_CALL_CANDIDATE
_STRUCTURED = ModelStreamEventKind.STRUCTURED_OUTPUT
_ERROR = ModelStreamEventKind.ERROR
_DONE = ModelStreamEventKind.DONE

_message_delta = unchecked(MessageDeltaEvent)
_call_start, _call_arguments = unchecked(ToolCallStartEvent), unchecked(ToolCallArgsDeltaEvent)
_call_end = unchecked(ToolCallEndEvent)

Emit: TypeAlias = Callable[[AgentEvent], None]

_NOTHING_HIDDEN: Mapping[str, Sequence[SensitiveFieldDescriptor]] = {}


def call_id_at(message_id: str, position: int) -> str:
    """Return the id of a call that came without one of its own: by its place in the reply, from 1 on."""
    return f"{message_id}:call-{position}"


def restarted_id(message_id: str, restarts: int) -> str:
    """Return the id of the message of a reply that has begun anew."""
    return f"{message_id}:try-{restarts + 1}"


class _ProjectedCall:
    """A tool call of the reply, and which of its events were projected."""

    __slots__ = ("has_arguments", "id", "is_ended", "name")

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.has_arguments = False
        self.is_ended = False


class ModelEventProjector:
    """Projects the stream of one model call; its texts and calls belong to one message.

    A call without an id, or with the id of an earlier call of the reply, gets `call_id_at` its place. The end of
    a call whose arguments have not come is projected with them: when the whole call comes, or the whole reply. So are
    the arguments of tools that are `hidden` in part: nothing finds a sensitive field in half a text.
    """

    def __init__(
        self,
        by: AgentEventAttribution,
        message_id: str,
        reasoning_id: str | None = None,
        hidden: Mapping[str, Sequence[SensitiveFieldDescriptor]] = _NOTHING_HIDDEN,
    ) -> None:
        self.message_id = message_id
        """The id of the message; a reply that begins anew is another message."""
        self._first_id = message_id
        self._hidden = hidden
        self._by = by
        self._reasoning_id = reasoning_id
        self._calls: dict[str, _ProjectedCall] = {}
        self._partial: dict[str | None, list[_ProjectedCall]] = {}

    def project(self, event: ModelStreamEvent) -> Sequence[AgentEvent]:
        """Return the neutral events of an event of the model."""
        kind = event.kind
        if kind is _TOKEN:
            text = event.token_delta
            return (_message_delta(self._by, self.message_id, text),) if text else ()
        if kind is _REASONING:
            text = event.reasoning_delta
            return (ReasoningDeltaEvent(self._by, self._id_of_reasoning, text),) if text else ()
        if kind is _MESSAGE:
            return self._message(event)
        projected: list[AgentEvent] = []
        call = event.tool_call
        if kind is _DONE:
            calls = event.response.tool_calls if event.response else ()
            if calls or self._calls:
                self._done(calls, projected.append)
        elif kind is _CALL and call:
            self._whole(call, projected.append)
        elif kind is _ARGUMENTS:
            self._arguments(event.call_id, event.tool_call_args_delta or "", projected.append)
        elif kind is _END:
            self._end(event.call_id, projected.append)
        elif kind is _START and call:
            self._start(call, projected.append)
        return projected

    @property
    def _id_of_reasoning(self) -> str:
        return self._reasoning_id or f"{self.message_id}:reasoning"

    def _message(self, event: ModelStreamEvent) -> Sequence[AgentEvent]:
        if event.is_restart:
            return self._restarted(event.metadata)
        text = event.message_delta
        return (_message_delta(self._by, self.message_id, text),) if text else ()

    def _restarted(self, facts: JsonObject) -> Sequence[AgentEvent]:
        """Return the marks on what was projected of the reply so far; what follows belongs to another message."""
        mark: JsonObject = {SUPERSEDED: True}
        projected: list[AgentEvent] = [ToolCallEndEvent(self._by, call_id, mark) for call_id in self._calls]
        if facts.get("reasoning"):
            projected.append(ReasoningDeltaEvent(self._by, self._id_of_reasoning, "", mark))
        if facts.get("text"):
            projected.append(MessageDeltaEvent(self._by, self.message_id, "", mark))
        restarts = facts[RESTARTED]
        self.message_id = restarted_id(self._first_id, restarts if isinstance(restarts, int) else 1)
        self._reasoning_id = None
        self._calls.clear()
        self._partial.clear()
        return projected

    def _start(self, call: ModelToolCall, emit: Emit) -> None:
        # Two calls without an id cannot be one; a call with an id is projected once.
        if call.call_id is None or not self._partial.get(call.call_id):
            self._partial.setdefault(call.call_id, []).append(self._begun(call, emit))

    def _begun(self, call: ModelToolCall, emit: Emit) -> _ProjectedCall:
        own_id = call.call_id
        if not own_id or own_id in self._calls:
            own_id = call_id_at(self.message_id, len(self._calls) + 1)
        begun = self._calls[own_id] = _ProjectedCall(own_id, call.name)
        emit(_call_start(self._by, own_id, call.name, self.message_id))
        return begun

    def _arguments(self, call_id: str | None, piece: str, emit: Emit) -> None:
        call = self._latest(call_id)
        if call and piece and not call.is_ended and call.name not in self._hidden:
            call.has_arguments = True
            emit(_call_arguments(self._by, call.id, piece))

    def _end(self, call_id: str | None, emit: Emit) -> None:
        call = self._latest(call_id)
        if call and call.has_arguments:
            self._ended(call, emit)

    def _latest(self, call_id: str | None) -> _ProjectedCall | None:
        """Return the call that a piece belongs to; a piece without an id belongs to the call begun last."""
        partial = self._partial.get(call_id)
        if partial:
            return partial[-1]
        return next(reversed(self._calls.values()), None) if call_id is None else None

    def _whole(self, call: ModelToolCall, emit: Emit) -> None:
        partial = self._partial.setdefault(call.call_id, [])
        begun = partial.pop(0) if partial else self._begun(call, emit)
        if not begun.has_arguments and not begun.is_ended:
            begun.has_arguments = True
            shown = call.guarded(self._hidden[call.name]) if call.name in self._hidden else call
            emit(_call_arguments(self._by, begun.id, canonical_json(shown.arguments)))
        self._ended(begun, emit)

    def _ended(self, call: _ProjectedCall, emit: Emit) -> None:
        if not call.is_ended:
            call.is_ended = True
            emit(_call_end(self._by, call.id))

    def _done(self, calls: Sequence[ModelToolCall], emit: Emit) -> None:
        """Project what the whole reply has and the stream left out."""
        for position, call in enumerate(calls):
            is_new = call.call_id not in self._partial or position >= len(self._calls)
            if is_new or self._partial[call.call_id]:
                self._whole(call, emit)
        for begun in self._calls.values():
            if not begun.is_ended:
                self._ended(begun, emit)


class ReplyAssembly:
    """The parts of one reply, in the order in which its stream gave them."""

    _structured: JsonValue = None
    _usage: ModelUsage | None = None

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._announced: list[ModelToolCall] = []
        self._calls: list[ModelToolCall] = []

    @property
    def has_calls(self) -> bool:
        """Return whether a tool call has begun."""
        return bool(self._announced or self._calls)

    def add(self, event: ModelStreamEvent) -> None:
        """Add the part of the reply that an event has.

        Raises:
            ModelCallError: the event reports that the call failed.
        """
        kind = event.kind
        if kind is _TOKEN or kind is _MESSAGE:
            self.text.append(event.token_delta or event.message_delta or "")
        elif event.reasoning_delta is not None:
            self.reasoning.append(event.reasoning_delta)
        elif kind is _START and event.tool_call is not None:
            self._announced.append(event.tool_call)
        elif kind is _CALL and event.tool_call is not None:
            self._calls.append(event.tool_call)
        elif kind is _STRUCTURED:
            self._structured = event.structured_output
        elif kind is _ERROR:
            raise _reported(event)
        if event.usage is not None:
            self._usage = event.usage

    def reply(self, end: ModelStreamEvent, spec: StructuredOutputSpec | None) -> ModelResponse:
        """Return the whole reply: the response that the end carries, or the sum of the events.

        Raises:
            ModelCallError: a call was announced and never came whole.
            AgentStructuredOutputError: its structured output is not of the type that was asked for.
        """
        return with_output(end.response or self._sum(end), spec)

    def _sum(self, end: ModelStreamEvent) -> ModelResponse:
        if len(self._announced) > len(self._calls):
            names = ", ".join(repr(call.name) for call in self._announced)
            raise ModelCallError(
                f"the model announced calls of {names}, and {len(self._calls)} of them came whole. "
                "Each call needs a TOOL_CALL_CANDIDATE event with all of its arguments before DONE."
            )
        structured = self._structured if end.structured_output is None else end.structured_output
        usage = self._usage or ModelUsage()
        text, calls = "".join(self.text), tuple(self._calls)
        ordered = (
            (ReasoningPart("".join(self.reasoning)), *plain_parts(text, calls)) if self.reasoning else None
        )
        return ModelResponse(text, structured, calls, usage, end.metadata, ordered=ordered)


def with_output(response: ModelResponse, spec: StructuredOutputSpec | None) -> ModelResponse:
    """Return a response with its structured output as a value of the type that was asked for.

    Raises:
        AgentStructuredOutputError: it is not of that type.
    """
    if spec is None or response.output is not None or response.structured_output is None:
        return response
    return replace(response, output=spec.decode(response.structured_output))


async def whole_replies(
    events: AsyncIterator[ModelStreamEvent], request: ModelRequest
) -> AsyncIterator[ModelStreamEvent]:
    """Yield the events of a stream, its end with the whole reply to the request. Closes the stream.

    Raises:
        ModelCallError: the model reports an error, or announced a call that never came whole.
        AgentStructuredOutputError: the structured output is not of the type that was asked for.
    """
    assembly = ReplyAssembly()
    try:
        async for event in events:
            assembly.add(event)
            if event.kind is _DONE:
                yield replace(event, response=assembly.reply(event, request.structured_output))
            else:
                yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


def _reported(event: ModelStreamEvent) -> ModelCallError:
    """Return the error that the model reports in its stream."""
    error = event.error
    if error is None:
        return ModelCallError("the model reports an error without saying which", retryable=False)
    return ModelCallError(error.message, retryable=error.retryable, failure=error.code)
