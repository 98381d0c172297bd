"""Maps the chunks of a server to the events of a reply, and to the whole response. Pure.

A body that is not streamed is read as a stream of one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from pilotage.adapters.openai.call_assembly import AssembledCalls, CallAssembly
from pilotage.adapters.openai.decoding import parsed_object, read_json
from pilotage.adapters.openai.error_mapping import error_in_stream
from pilotage.adapters.openai.errors import ModelFailure, failed
from pilotage.adapters.openai.request_mapping import WireNames
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty

# Looking up an enum member costs as much as the rest of the work for a delta.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_REASONING = ModelStreamEventKind.REASONING_DELTA
_NOTHING: Sequence[ModelStreamEvent] = ()

# Whether there are calls is decided by the calls: vLLM sends `stop` for the call of a named tool.
REASONS: Mapping[str, ModelFinishReason] = {
    "stop": ModelFinishReason.STOP,
    "eos": ModelFinishReason.STOP,
    "eos_token": ModelFinishReason.STOP,
    "end_turn": ModelFinishReason.STOP,
    "stop_sequence": ModelFinishReason.STOP,
    "tool_calls": ModelFinishReason.STOP,
    "function_call": ModelFinishReason.STOP,
    "length": ModelFinishReason.LENGTH,
    "max_tokens": ModelFinishReason.LENGTH,
    "model_length": ModelFinishReason.LENGTH,
    "content_filter": ModelFinishReason.CONTENT_FILTER,
    "refusal": ModelFinishReason.REFUSAL,
}
GIVEN_UP = frozenset({"abort", "cancelled", "error", "insufficient_system_resource"})
_DETAILS = {
    "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
}


class ReplyReader:
    """Reader of the chunks of one reply; call `finish` after the last."""

    def __init__(self, request: ModelRequest, names: WireNames, *, reasoning_is_answer: bool = False) -> None:
        self._request = request
        self._calls = CallAssembly(names)
        self._reasoning_is_answer = reasoning_is_answer
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refused = False
        self._reason: str | None = None
        self._usage: JsonValue = None
        self._facts: dict[str, JsonValue] = {}

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def read(self, data: bytes) -> Sequence[ModelStreamEvent]:
        """Return the events of one chunk.

        Raises:
            ModelServerError: it is no chunk, it reports an error, or it contradicts those before it.
        """
        chunk = parsed_object(data)
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if usage is not None:
            # If every chunk has it, it grows from one to the next.
            self._usage = usage
        if (error := chunk.get("error")) is not None:
            raise error_in_stream(error)
        if not choices:
            return _NOTHING
        if not self._facts:
            self._note(chunk)
        choice = _first_choice(choices)
        return _NOTHING if choice is None else self._read_choice(choice)

    def read_whole(self, data: bytes) -> Sequence[ModelStreamEvent]:
        """Return the events of a body that is not streamed.

        Raises:
            ModelServerError: it is no reply, or reports an error.
        """
        body = parsed_object(data)
        if body.get("error") is not None:
            raise error_in_stream(body["error"])
        self._usage = body.get("usage")
        self._note(body)
        choice = _first_choice(body.get("choices") or ())
        if choice is None:
            raise failed(ModelFailure.UNREADABLE, "a body without choices")
        message = choice.get("message")
        if not isinstance(message, dict):
            raise failed(ModelFailure.UNREADABLE, "a choice without a message")
        return self._read_choice({**choice, "delta": message})

    def finish(self, *, with_reasoning: bool = False) -> tuple[ModelResponse, list[ModelStreamEvent]]:
        """Return the response, and the last events, the last of which carries it.

        Raises:
            ModelServerError: the reply has no end, or one without success.
            AgentStructuredOutputError: the answer is not of the type that was asked for.
        """
        ended = read_reason(self._reason)
        reason = ModelFinishReason.REFUSAL if self._refused else ended
        events = self._calls.end()
        calls = self._assembled(reason)
        if self._must_answer_with_reasoning(calls, reason):
            self._text = list(self._reasoning)
            events.append(ModelStreamEvent(_TOKEN, token_delta=self.reasoning))
        response = self._response(reason, calls, with_reasoning=with_reasoning)
        events += [
            ModelStreamEvent(
                ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call, tools=self._request.tool_calling
            )
            for call in response.tool_calls
        ]
        if response.structured_output is not None:
            kind = ModelStreamEventKind.STRUCTURED_OUTPUT
            events.append(ModelStreamEvent(kind, structured_output=response.structured_output))
        usage = response.usage if self._request.streaming.include_usage else None
        events.append(ModelStreamEvent(ModelStreamEventKind.DONE, usage=usage, response=response))
        return response, events

    def _read_choice(self, choice: JsonObject) -> Sequence[ModelStreamEvent]:
        delta = choice.get("delta")
        events = self._read_delta(delta) if isinstance(delta, dict) else _NOTHING
        if events and self._reason is not None:
            raise failed(ModelFailure.UNREADABLE, "the reply goes on after its end")
        reason = choice.get("finish_reason")
        if reason is not None:
            self._end_with(str(reason), choice.get("stop_reason"))
        return events

    def _read_delta(self, delta: dict[str, JsonValue]) -> Sequence[ModelStreamEvent]:
        content = delta.get("content")
        if len(delta) == 1 and content and type(content) is str:
            # The fast path for nearly every chunk.
            self._text.append(content)
            return (ModelStreamEvent(_TOKEN, token_delta=content),)
        return self._read_parts(delta, content)

    def _read_parts(self, delta: dict[str, JsonValue], content: JsonValue) -> Sequence[ModelStreamEvent]:
        events: list[ModelStreamEvent] = []
        thought = _text(delta.get("reasoning")) or _text(delta.get("reasoning_content"))
        if thought:
            self._reasoning.append(thought)
            events.append(ModelStreamEvent(_REASONING, reasoning_delta=thought))
        refusal = _text(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        for text in (_text(content), refusal):
            if text:
                self._text.append(text)
                events.append(ModelStreamEvent(_TOKEN, token_delta=text))
        if delta.get("tool_calls"):
            events += self._calls.take(delta["tool_calls"], cast(str, self._facts.get("id", "reply")))
        return events

    def _end_with(self, reason: str, stop_reason: object) -> None:
        if self._reason is not None and reason != self._reason:
            raise failed(
                ModelFailure.UNREADABLE, f"the reply ends twice, with {self._reason!r} and {reason!r}"
            )
        self._reason = reason
        if isinstance(stop_reason, str):
            self._facts["stop_reason"] = stop_reason

    def _assembled(self, reason: ModelFinishReason) -> AssembledCalls:
        """Return the calls; none of a reply that was stopped by a filter, or refused."""
        if reason in (ModelFinishReason.STOP, ModelFinishReason.LENGTH):
            return self._calls.assembled(is_cut=reason is ModelFinishReason.LENGTH)
        return AssembledCalls()

    def _must_answer_with_reasoning(self, calls: AssembledCalls, reason: ModelFinishReason) -> bool:
        is_silent = not any(map(str.strip, self._text)) and not calls.whole
        return (
            self._reasoning_is_answer
            and is_silent
            and bool(self._reasoning)
            and reason is ModelFinishReason.STOP
        )

    def _response(
        self, reason: ModelFinishReason, calls: AssembledCalls, *, with_reasoning: bool
    ) -> ModelResponse:
        text, spec = "".join(self._text), self._request.structured_output
        is_answer = reason is ModelFinishReason.STOP and not calls.whole
        structured = _answer(text) if spec is not None and is_answer else None
        facts: dict[str, JsonValue] = {**self._facts, **usage_details(self._usage)}
        if calls.cut:
            facts["cut_tool_calls"] = list(calls.cut)
        if with_reasoning and self._reasoning:
            facts["reasoning"] = self.reasoning
        return ModelResponse(
            content=text,
            structured_output=structured,
            tool_calls=calls.whole,
            usage=usage_of(self._usage),
            metadata=facts,
            finish_reason=ModelFinishReason.TOOL_CALLS
            if calls.whole and reason is ModelFinishReason.STOP
            else reason,
            output=spec.decode(structured) if spec is not None and is_answer else None,
        )

    def _note(self, chunk: JsonObject) -> None:
        """Note the server's ids of the reply and the model, which occur in its log."""
        self._facts |= {name: text for name in ("id", "model") if isinstance(text := chunk.get(name), str)}


def _first_choice(choices: JsonValue) -> JsonObject | None:
    """Return the choice of index 0: extra parameters may have requested several."""
    if not isinstance(choices, list | tuple):
        raise failed(ModelFailure.UNREADABLE, "its choices are no list")
    for choice in choices:
        if not isinstance(choice, dict):
            raise failed(ModelFailure.UNREADABLE, "a choice is no object")
        if not choice.get("index"):
            return choice
    return None


def _text(part: object) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    raise failed(ModelFailure.UNREADABLE, f"{type(part).__name__} where text belongs")


def _answer(text: str) -> JsonObject:
    try:
        return cast(JsonObject, read_json(text))
    except ValueError as error:
        problem = f"the answer is no JSON: {text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error


def read_reason(word: str | None) -> ModelFinishReason:
    """Return the finish reason of a server's word.

    Raises:
        ModelServerError: there is none, it is none of success, or it is unknown.
    """
    if word is None:
        raise failed(ModelFailure.BROKEN_STREAM, "it ended without a reason to finish")
    if word in GIVEN_UP:
        raise failed(ModelFailure.ABORTED, f"it finished with {word!r}")
    if word not in REASONS:
        raise failed(ModelFailure.UNREADABLE, f"it finished with {word!r}, which is unknown")
    return REASONS[word]


def usage_of(counted: JsonValue) -> ModelUsage:
    """Return the usage; counts that the server did not send, or not as a number, are None."""
    fields = object_or_empty(counted)
    asked, answered = _count(fields.get("prompt_tokens")), _count(fields.get("completion_tokens"))
    total = _count(fields.get("total_tokens"))
    if total is None and asked is not None and answered is not None:
        total = asked + answered
    return ModelUsage(asked, answered, total)


def usage_details(counted: JsonValue) -> dict[str, JsonValue]:
    """Return the numbers of cached tokens and of reasoning tokens, if the server reports them."""
    fields = object_or_empty(counted)
    found = {
        name: _count(object_or_empty(fields.get(part)).get(key)) for name, (part, key) in _DETAILS.items()
    }
    return {name: count for name, count in found.items() if count is not None}


def _count(part: JsonValue) -> int | None:
    return part if isinstance(part, int) and not isinstance(part, bool) and part >= 0 else None
