"""Maps the events of `/v1/responses` to the events of a reply, and to the whole response. Pure.

The last event has the whole response, and its `status` counts: some servers call a reply completed that was cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pilotage.adapters.model_http.decoding import (
    HalvesJoiner,
    SseEvent,
    parsed_object,
    read_arguments,
    read_json,
    storable,
    storable_event,
)
from pilotage.adapters.model_http.error_mapping import error_in_stream
from pilotage.adapters.model_http.errors import failed
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.model_http.strict_schema import asked_answer, without_nulls
from pilotage.adapters.openai.responses_request import ITEM, PHASE
from pilotage.agent.messages import (
    MessagePart,
    ModelToolCall,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    calls_in,
    reasoning_in,
    text_in,
)
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import (
    CHOICE_MISSED,
    FINISH_WORD,
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.tools.bind import unreadable_arguments
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty

_TOKEN, _REASONING = ModelStreamEventKind.TOKEN_DELTA, ModelStreamEventKind.REASONING_DELTA
_START, _ARGUMENTS = ModelStreamEventKind.TOOL_CALL_START, ModelStreamEventKind.TOOL_CALL_ARGS_DELTA
_END, _CALL = ModelStreamEventKind.TOOL_CALL_END, ModelStreamEventKind.TOOL_CALL_CANDIDATE
_TEXTS = {"response.output_text.delta": _TOKEN, "response.refusal.delta": _TOKEN}
_THOUGHTS = {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}
_LAST = {"response.completed", "response.incomplete", "response.failed"}
_UNDER_WAY = ("queued", "in_progress")
_CUT: Mapping[str, ModelFinishReason] = {
    "max_output_tokens": ModelFinishReason.LENGTH,
    "max_tokens": ModelFinishReason.LENGTH,
    "content_filter": ModelFinishReason.CONTENT_FILTER,
}


class ResponsesReader(WireReader):
    """Reader of the events of one reply; call `finish` after the last. `facts` are those of its request."""

    def __init__(
        self, request: ModelRequest, names: WireNames, provider: Provider, facts: JsonObject | None = None
    ) -> None:
        self._request = request
        self._names = names
        self._provider = provider
        self._of_request = facts or {}
        self._items: dict[str, JsonObject] = {}
        self._calls: dict[str, ModelToolCall] = {}
        self._halves: dict[str, HalvesJoiner] = {_TOKEN: HalvesJoiner(), _REASONING: HalvesJoiner()}
        self._response: JsonObject | None = None

    @property
    def usage(self) -> ModelUsage:
        return usage_of((self._response or {}).get("usage"))

    def read(self, sent: SseEvent) -> Sequence[ModelStreamEvent]:
        if sent.data == b"[DONE]":
            return ()
        event = storable_event(sent.data, has_piece=_has_piece)
        kind = str(event.get("type"))
        if kind == "error" or (event.get("error") is not None and "type" not in event):
            raise error_in_stream(event.get("error") or event)
        key = _key_of(event)
        if kind in _TEXTS:
            return self._delta(event, _TEXTS[kind])
        if kind in _THOUGHTS:
            return self._delta(event, _REASONING)
        if kind == "response.function_call_arguments.delta":
            return self._argument(key, event.get("delta"))
        if kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            return (ModelStreamEvent(_REASONING, reasoning_delta="\n\n"),)
        if kind == "response.output_item.added":
            return self._begin(key, object_or_empty(event.get("item")))
        if kind == "response.output_item.done":
            return self._end(key, object_or_empty(event.get("item")))
        if kind in _LAST:
            self._take(object_or_empty(event.get("response")))
            self.is_over = True
        return ()

    def read_whole(self, data: bytes) -> Sequence[ModelStreamEvent]:
        body = object_or_empty(storable(parsed_object(data)))
        if body.get("error") is not None:
            raise error_in_stream(body["error"])
        if not isinstance(body.get("output"), list):
            raise failed(ModelFailure.UNREADABLE, "a body without output")
        self._take(body)
        return ()

    def finish(self, *, with_reasoning: bool = False) -> tuple[ModelResponse, list[ModelStreamEvent]]:
        response = self._response
        if response is None:
            raise failed(ModelFailure.BROKEN_STREAM, "it ended without response.completed")
        events = [*self._rest(_TOKEN), *self._rest(_REASONING)]
        events += [ModelStreamEvent(_END, tool_call=call) for call in self._calls.values()]
        reply = self._reply(response, with_reasoning=with_reasoning)
        tools = self._request.tool_calling
        events += [ModelStreamEvent(_CALL, tool_call=call, tools=tools) for call in reply.tool_calls]
        if reply.structured_output is not None:
            kind = ModelStreamEventKind.STRUCTURED_OUTPUT
            events.append(ModelStreamEvent(kind, structured_output=reply.structured_output))
        usage = reply.usage if self._request.streaming.include_usage else None
        events.append(ModelStreamEvent(ModelStreamEventKind.DONE, usage=usage, response=reply))
        return reply, events

    def _delta(self, event: JsonObject, kind: ModelStreamEventKind) -> Sequence[ModelStreamEvent]:
        piece = event.get("delta")
        if not isinstance(piece, str):
            raise failed(ModelFailure.UNREADABLE, f"{event.get('type')} without its text")
        return self._text_events(kind, self._halves[kind].push(piece))

    def _text_events(self, kind: ModelStreamEventKind, piece: str) -> Sequence[ModelStreamEvent]:
        if not piece:
            return ()
        if kind is _REASONING:
            return (ModelStreamEvent(kind, reasoning_delta=piece),)
        return (ModelStreamEvent(kind, token_delta=piece),)

    def _rest(self, kind: ModelStreamEventKind) -> Sequence[ModelStreamEvent]:
        """Return the event of the half of a character that no other half followed."""
        return self._text_events(kind, self._halves[kind].finish())

    def _argument(self, key: str, piece: JsonValue) -> Sequence[ModelStreamEvent]:
        call = self._calls.get(key)
        if call is None or not isinstance(piece, str):
            raise failed(ModelFailure.BROKEN_CALL, "a piece of a call that has not begun")
        piece = self._halves.setdefault(key, HalvesJoiner()).push(piece)
        return (ModelStreamEvent(_ARGUMENTS, tool_call=call, tool_call_args_delta=piece),) if piece else ()

    def _begin(self, key: str, item: JsonObject) -> Sequence[ModelStreamEvent]:
        if item.get("type") != "function_call":
            return ()
        call = self._calls[key] = self._called(item, {})
        return (ModelStreamEvent(_START, tool_call=call),)

    def _end(self, key: str, item: JsonObject) -> Sequence[ModelStreamEvent]:
        self._items[key] = item
        call = self._calls.pop(key, None)
        return () if call is None else (ModelStreamEvent(_END, tool_call=call),)

    def _take(self, response: JsonObject) -> None:
        if response.get("status") == "failed" or response.get("error") is not None:
            raise error_in_stream(response.get("error") or "the response failed")
        if response.get("status") == "cancelled":
            raise failed(ModelFailure.ABORTED, "the response was cancelled")
        if response.get("status") in _UNDER_WAY:
            raise failed(ModelFailure.BROKEN_STREAM, f"the response is still {response['status']!r}")
        self._response = response

    def _reply(self, response: JsonObject, *, with_reasoning: bool) -> ModelResponse:
        reason, word = _reason_of(response)
        cut: list[str] = []
        items = list_or_empty(response.get("output")) or [*self._items.values()]
        parts = tuple(part for item in items for part in self._parts(object_or_empty(item), reason, cut))
        calls, spec = calls_in(parts), self._request.structured_output
        if any(isinstance(part, RefusalPart) for part in parts):
            reason = ModelFinishReason.REFUSAL
        is_answer = reason.is_answer and not calls
        facts: dict[str, JsonValue] = {
            name: text for name in ("id", "model") if isinstance(text := response.get(name), str)
        }
        facts |= self._of_request
        if cut:
            facts["cut_tool_calls"] = [*cut]
        if with_reasoning and (thought := reasoning_in(parts)):
            facts["reasoning"] = thought
        if word is not None:
            facts[FINISH_WORD] = word
        if reason.is_answer and (choice := self._request.missed_choice(calls)) is not None:
            facts[CHOICE_MISSED] = choice
        structured = (
            None if spec is None or not is_answer else _answer(text_in(parts), spec.constraint.schema)
        )
        return ModelResponse.of(
            parts,
            structured_output=structured,
            usage=self.usage,
            metadata=facts,
            finish_reason=ModelFinishReason.TOOL_CALLS
            if calls and reason is ModelFinishReason.STOP
            else reason,
            output=None if spec is None or structured is None else spec.decode(structured),
        )

    def _parts(self, item: JsonObject, reason: ModelFinishReason, cut: list[str]) -> Iterator[MessagePart]:
        """Yield the parts of an item; the name of a call that the end of the reply cut off is added to `cut`."""
        match item.get("type"):
            case "message":
                yield from self._spoken(item)
            case "reasoning":
                is_encrypted = isinstance(item.get("encrypted_content"), str)
                yield ReasoningPart(
                    _thought(item), None, self._provider.state(ITEM, item) if is_encrypted else None
                )
            case "function_call":
                if reason is ModelFinishReason.CONTENT_FILTER:
                    return
                text = item.get("arguments")
                written = text if isinstance(text, str) else ""
                arguments = read_arguments(written, may_be_empty=not reason.is_cut)
                if arguments is None and reason.is_cut:
                    cut.append(self._called(item, {}).name)
                    return
                yield self._called(item, unreadable_arguments(written) if arguments is None else arguments)
            case _:
                yield OpaquePart(self._provider.state(ITEM, item))

    def _spoken(self, item: JsonObject) -> Iterator[MessagePart]:
        phase = item.get(PHASE)
        state = self._provider.state(PHASE, phase) if isinstance(phase, str) else None
        for part in map(object_or_empty, list_or_empty(item.get("content"))):
            if isinstance(refusal := part.get("refusal"), str):
                yield RefusalPart(refusal)
            elif isinstance(text := part.get("text"), str):
                yield TextPart(text, state)

    def _called(self, item: JsonObject, arguments: JsonObject) -> ModelToolCall:
        name, call_id = item.get("name"), item.get("call_id")
        if not isinstance(name, str) or not name:
            raise failed(ModelFailure.BROKEN_CALL, "a call without a name")
        own = self._names.own(name)
        calling = self._request.tool_calling
        tools = () if calling is None else calling.tools
        schema = next((tool.parameters.schema for tool in tools if tool.name == own), None)
        if schema is not None:
            arguments = object_or_empty(without_nulls(arguments, schema))
        return ModelToolCall(own, arguments, call_id if isinstance(call_id, str) else None)


def _has_piece(event: JsonObject) -> bool:
    return str(event.get("type")).endswith(".delta")


def _key_of(event: JsonObject) -> str:
    """Return the place of an item in the reply, which all events about it have."""
    index = event.get("output_index")
    if isinstance(index, int):
        return str(index)
    return str(event.get("item_id") or object_or_empty(event.get("item")).get("id"))


def _thought(item: JsonObject) -> str:
    """Return the reasoning of an item, or else its summary."""
    content = [object_or_empty(each).get("text") for each in list_or_empty(item.get("content"))]
    if content:
        return "".join(map(str, content))
    return "\n\n".join(str(object_or_empty(each).get("text")) for each in list_or_empty(item.get("summary")))


def _reason_of(response: JsonObject) -> tuple[ModelFinishReason, str | None]:
    """Return the reason to finish, and the server's word where there is none of its name."""
    status = str(response.get("status") or "completed")
    if status == "completed":
        return ModelFinishReason.STOP, None
    word = str(object_or_empty(response.get("incomplete_details")).get("reason"))
    if status == "incomplete" and word in _CUT:
        return _CUT[word], None
    if status == "incomplete":
        return ModelFinishReason.LENGTH, None
    return ModelFinishReason.OTHER, status


def _answer(text: str, schema: JsonObject) -> JsonValue:
    try:
        return asked_answer(read_json(text), schema)
    except ValueError as error:
        problem = f"the answer is no JSON: {text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error


def usage_of(counted: JsonValue) -> ModelUsage:
    """Return the usage; counts that the server did not send, or not as a number, are None."""
    fields = object_or_empty(counted)
    read, answered = _count(fields, "input_tokens"), _count(fields, "output_tokens")
    total = _count(fields, "total_tokens")
    if total is None and read is not None and answered is not None:
        total = read + answered
    of_input = object_or_empty(fields.get("input_tokens_details"))
    return ModelUsage(
        read,
        answered,
        total,
        cached_tokens=_count(of_input, "cached_tokens"),
        cache_written_tokens=_count(of_input, "cache_write_tokens"),
        reasoning_tokens=_count(object_or_empty(fields.get("output_tokens_details")), "reasoning_tokens"),
    )


def _count(fields: JsonObject, name: str) -> int | None:
    found = fields.get(name)
    return found if type(found) is int and found >= 0 else None
