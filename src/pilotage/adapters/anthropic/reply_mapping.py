"""Maps the events of `/v1/messages` to the events of a reply, and to the whole response. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.adapters.anthropic.request_mapping import BLOCK, CITATIONS, SIGNATURE, THINKING
from pilotage.adapters.model_http.decoding import (
    HalvesJoiner,
    SseEvent,
    parsed_object,
    read_arguments,
    read_json,
    storable,
    storable_event,
    whole_characters,
)
from pilotage.adapters.model_http.error_mapping import error_in_stream
from pilotage.adapters.model_http.errors import failed
from pilotage.adapters.model_http.finish_reasons import CALLS, read_reason
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.model_http.strict_schema import asked_answer, without_nulls
from pilotage.agent.messages import (
    MessagePart,
    ModelToolCall,
    OpaquePart,
    ReasoningPart,
    TextPart,
    calls_in,
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
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_SHOWN = ("text", "thinking", "tool_use")


class _Block:
    """A block of the reply so far: its first form, and the pieces that followed."""

    __slots__ = ("begun", "citations", "first", "halves", "is_ended", "kind", "pieces", "signature")

    def __init__(self, first: JsonObject, names: WireNames) -> None:
        self.first = first
        self.kind = str(first.get("type"))
        self.pieces: list[str] = []
        self.halves = HalvesJoiner()
        self.signature = str(first.get("signature") or "")
        self.citations = [*list_or_empty(first.get("citations"))]
        self.is_ended = False
        call_id = first.get("id")
        self.begun = ModelToolCall(
            names.own(str(first.get("name"))), {}, call_id if isinstance(call_id, str) else None
        )

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessagesReader(WireReader):
    """Reader of the events of one reply; call `finish` after the last. `facts` are those of its request."""

    def __init__(
        self, request: ModelRequest, names: WireNames, provider: Provider, facts: JsonObject | None = None
    ) -> None:
        self._request = request
        self._names = names
        self._provider = provider
        self._of_request = facts or {}
        self._facts: dict[str, JsonValue] = {}
        self._blocks: dict[int, _Block] = {}
        self._counted: dict[str, JsonValue] = {}
        self._reason: str | None = None
        self._is_whole = False

    @property
    def usage(self) -> ModelUsage:
        return usage_of(self._counted)

    def read(self, sent: SseEvent) -> Sequence[ModelStreamEvent]:
        event = storable_event(sent.data, has_piece=_has_piece)
        if (error := event.get("error")) is not None:
            raise error_in_stream(error)
        match event.get("type"):
            case "message_start":
                self._note(object_or_empty(event.get("message")))
            case "content_block_start":
                return self._begin(event)
            case "content_block_delta":
                return self._continue(event)
            case "content_block_stop":
                return self._end(self._block(event))
            case "message_delta":
                self._count(event.get("usage"))
                self._end_with(object_or_empty(event.get("delta")))
            case "message_stop":
                self.is_over = self._is_whole = True
            case _:
                pass  # pings, and events that came later than this reader
        return ()

    def read_whole(self, data: bytes) -> Sequence[ModelStreamEvent]:
        body = object_or_empty(storable(parsed_object(data)))
        if (error := body.get("error")) is not None:
            raise error_in_stream(error)
        if not isinstance(body.get("content"), list):
            raise failed(ModelFailure.UNREADABLE, "a body without content")
        self._note(body)
        self._end_with(body)
        self._is_whole = True
        self._reason = self._reason or ""
        events: list[ModelStreamEvent] = []
        for index, block in enumerate(list_or_empty(body["content"])):
            first = object_or_empty(block)
            events += self._begin({"index": index, "content_block": first})
            events += self._end(self._blocks[index])
        return events

    def finish(self, *, with_reasoning: bool = False) -> tuple[ModelResponse, list[ModelStreamEvent]]:
        if not self._is_whole:
            raise failed(ModelFailure.BROKEN_STREAM, "it ended without message_stop")
        reason = read_reason(self._reason)
        events = [event for block in self._blocks.values() for event in self._end(block)]
        response = self._response(reason, with_reasoning=with_reasoning)
        tools = self._request.tool_calling
        events += [ModelStreamEvent(_CALL, tool_call=call, tools=tools) for call in response.tool_calls]
        if response.structured_output is not None:
            kind = ModelStreamEventKind.STRUCTURED_OUTPUT
            events.append(ModelStreamEvent(kind, structured_output=response.structured_output))
        usage = response.usage if self._request.streaming.include_usage else None
        events.append(ModelStreamEvent(ModelStreamEventKind.DONE, usage=usage, response=response))
        return response, events

    def _begin(self, event: JsonObject) -> Sequence[ModelStreamEvent]:
        index, first = event.get("index"), object_or_empty(event.get("content_block"))
        if not isinstance(index, int) or index in self._blocks:
            raise failed(ModelFailure.UNREADABLE, f"a block begins at {index!r}")
        block = self._blocks[index] = _Block(first, self._names)
        if block.kind == "tool_use":
            if not first.get("name"):
                raise failed(ModelFailure.BROKEN_CALL, "a call without a name")
            return (ModelStreamEvent(_START, tool_call=block.begun),)
        text = first.get(block.kind) if block.kind in _SHOWN else None
        return self._piece(block, text) if isinstance(text, str) else ()

    def _continue(self, event: JsonObject) -> Sequence[ModelStreamEvent]:
        block, delta = self._block(event), object_or_empty(event.get("delta"))
        kind = str(delta.get("type"))
        if kind == "signature_delta":
            block.signature += whole_characters(str(delta.get("signature") or ""))
            return ()
        if kind == "citations_delta":
            block.citations.append(delta.get("citation"))
        piece = delta.get(_PIECES.get(kind, ""))
        if kind in _PIECES and not isinstance(piece, str):
            raise failed(ModelFailure.UNREADABLE, f"a {kind} without its text")
        return self._piece(block, piece) if isinstance(piece, str) else ()

    def _piece(self, block: _Block, piece: str) -> Sequence[ModelStreamEvent]:
        if piece and block.is_ended:
            raise failed(ModelFailure.UNREADABLE, "a block goes on after its end")
        return self._piece_events(block, block.halves.push(piece)) if piece else ()

    def _piece_events(self, block: _Block, piece: str) -> Sequence[ModelStreamEvent]:
        if not piece:
            return ()
        block.pieces.append(piece)
        match block.kind:
            case "text":
                return (ModelStreamEvent(_TOKEN, token_delta=piece),)
            case "thinking":
                return (ModelStreamEvent(_REASONING, reasoning_delta=piece),)
            case "tool_use":
                return (ModelStreamEvent(_ARGUMENTS, tool_call=block.begun, tool_call_args_delta=piece),)
            case _:
                return ()

    def _end(self, block: _Block) -> Sequence[ModelStreamEvent]:
        if block.is_ended:
            return ()
        block.is_ended = True
        rest = self._piece_events(block, block.halves.finish())
        return (*rest, ModelStreamEvent(_END, tool_call=block.begun)) if block.kind == "tool_use" else rest

    def _block(self, event: JsonObject) -> _Block:
        index = event.get("index")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            raise failed(ModelFailure.UNREADABLE, f"a piece of a block that has not begun ({index!r})")
        return block

    def _note(self, message: JsonObject) -> None:
        self._facts |= {name: text for name in ("id", "model") if isinstance(text := message.get(name), str)}
        self._count(message.get("usage"))

    def _count(self, usage: JsonValue) -> None:
        # The last event of some servers has the count of the output only.
        self._counted |= {name: each for name, each in object_or_empty(usage).items() if each is not None}

    def _end_with(self, fields: JsonObject) -> None:
        reason, stopped_by = fields.get("stop_reason"), fields.get("stop_sequence")
        if isinstance(reason, str):
            self._reason = reason
        if isinstance(stopped_by, str):
            self._facts["stop_reason"] = stopped_by

    def _response(self, reason: ModelFinishReason, *, with_reasoning: bool) -> ModelResponse:
        cut: list[str] = []
        parts = tuple(self._parts(reason, cut))
        calls, spec = calls_in(parts), self._request.structured_output
        if not calls and reason is ModelFinishReason.STOP and str(self._reason).lower() in CALLS:
            raise failed(ModelFailure.BROKEN_CALL, f"it finished with {self._reason!r} and without a call")
        is_answer = reason.is_answer and not calls
        facts: dict[str, JsonValue] = {**self._facts, **self._of_request}
        if cut:
            facts["cut_tool_calls"] = [*cut]
        thought = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        if with_reasoning and thought:
            facts["reasoning"] = thought
        if reason is ModelFinishReason.OTHER:
            facts[FINISH_WORD] = self._reason
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

    def _parts(self, reason: ModelFinishReason, cut: list[str]) -> Iterator[MessagePart]:
        """Yield the parts of the reply; the names of calls that its end cut off are added to `cut`."""
        for _, block in sorted(self._blocks.items()):
            match block.kind:
                case "text":
                    cited = self._provider.state(CITATIONS, block.citations) if block.citations else None
                    yield TextPart(block.text, cited)
                case "thinking":
                    if block.signature:
                        state = self._provider.state(SIGNATURE, block.signature)
                        yield ReasoningPart(block.text, None, state)
                    else:
                        yield ReasoningPart(block.text, self._provider.origin(THINKING))
                case "tool_use":
                    if call := self._called(block, reason):
                        yield call
                    elif reason.is_cut:
                        cut.append(block.begun.name)
                case _:
                    yield OpaquePart(self._provider.state(BLOCK, _whole(block)))

    def _called(self, block: _Block, reason: ModelFinishReason) -> ModelToolCall | None:
        if reason in (ModelFinishReason.CONTENT_FILTER, ModelFinishReason.REFUSAL):
            return None
        given = block.first.get("input")
        if given and not block.pieces:
            arguments = given if isinstance(given, dict) else unreadable_arguments(str(given))
        else:
            read = read_arguments(block.text, may_be_empty=not reason.is_cut)
            if read is None and reason.is_cut:
                return None
            arguments = (
                unreadable_arguments(block.text) if read is None else self._as_asked(block.begun.name, read)
            )
        return ModelToolCall(block.begun.name, arguments, block.begun.call_id)

    def _as_asked(self, name: str, arguments: JsonObject) -> JsonObject:
        calling = self._request.tool_calling
        tools = () if calling is None else calling.tools
        schema = next((tool.parameters.schema for tool in tools if tool.name == name), None)
        return arguments if schema is None else object_or_empty(without_nulls(arguments, schema))


def _has_piece(event: JsonObject) -> bool:
    return event.get("type") == "content_block_delta"


def _whole(block: _Block) -> JsonObject:
    """Return a block that only the provider reads, as it goes back."""
    if not block.pieces:
        return block.first
    return {**block.first, "input": read_arguments(block.text, may_be_empty=True) or {}}


def _answer(text: str, schema: JsonObject) -> JsonValue:
    try:
        return asked_answer(read_json(text), schema)
    except ValueError as error:
        problem = f"the answer is no JSON: {text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error


def usage_of(counted: JsonObject) -> ModelUsage:
    """Return the usage; the input of this wire leaves out what was read from a cache and written to it."""
    plain, cached = _count(counted, "input_tokens"), _count(counted, "cache_read_input_tokens")
    written, answered = _count(counted, "cache_creation_input_tokens"), _count(counted, "output_tokens")
    read = None if plain is None else plain + (cached or 0) + (written or 0)
    total = None if read is None or answered is None else read + answered
    on_server = object_or_empty(counted.get("server_tool_use"))
    others = {name: count for name in on_server if (count := _count(on_server, name))}
    if hour := _count(object_or_empty(counted.get("cache_creation")), "ephemeral_1h_input_tokens"):
        others["cache_written_1h_tokens"] = hour
    return ModelUsage(
        read, answered, total, cached_tokens=cached, cache_written_tokens=written, other_tokens=others or None
    )


def _count(fields: JsonObject, name: str) -> int | None:
    found = fields.get(name)
    return found if type(found) is int and found >= 0 else None
