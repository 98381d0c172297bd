"""Maps the chunks of a server to the events of a reply, and to the whole response. Pure.

A body that is not streamed is read as a stream of one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pilotage.adapters.model_http.decoding import SseEvent, parsed_object, read_json, whole_characters
from pilotage.adapters.model_http.error_mapping import error_in_stream
from pilotage.adapters.model_http.errors import failed
from pilotage.adapters.model_http.finish_reasons import CALLS, read_reason
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.model_http.strict_schema import asked_answer, without_nulls
from pilotage.adapters.openai.call_assembly import AssembledCalls, CallAssembly
from pilotage.adapters.openai.request_mapping import DETAILS
from pilotage.adapters.openai.spoken import Spoken, media_in, pieces_of, text_of
from pilotage.adapters.openai.usage_mapping import usage_of
from pilotage.agent.messages import ModelToolCall, TextPart
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
from pilotage.errors import AgentStructuredOutputError
from pilotage.filling import changing
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object, object_or_empty

# Looking up an enum member costs as much as the rest of the work for a delta.
_TOKEN = ModelStreamEventKind.TOKEN_DELTA
_REASONING = ModelStreamEventKind.REASONING_DELTA
_NOTHING: Sequence[ModelStreamEvent] = ()
_DONE = b"[DONE]"
_UNKNOWN = Provider("openai", "model")
_COMPLETE = (ModelFinishReason.STOP, ModelFinishReason.OTHER, ModelFinishReason.PAUSED)
_with_arguments = changing(ModelToolCall, "arguments")


class ReplyReader(WireReader):
    """Reader of the chunks of one reply; call `finish` after the last.

    `facts` are those of the request, for the metadata of the reply.
    """

    def __init__(
        self,
        request: ModelRequest,
        names: WireNames,
        provider: Provider = _UNKNOWN,
        *,
        facts: JsonObject | None = None,
        reasoning_is_answer: bool = False,
        strips_nulls: bool = False,
    ) -> None:
        self._request = request
        self._calls = CallAssembly(names, provider)
        self._spoken = Spoken(provider)
        self._text = self._spoken.text
        self._reasoning_is_answer = reasoning_is_answer
        self._strips_nulls = strips_nulls
        self._reason: str | None = None
        self._counted: JsonValue = None
        self._facts: dict[str, JsonValue] = {}
        self._of_request = facts or empty_object()

    @property
    def usage(self) -> ModelUsage:
        return usage_of(self._counted)

    def read(self, sent: SseEvent) -> Sequence[ModelStreamEvent]:
        if sent.data == _DONE:
            self.is_over = True
            return _NOTHING
        return self.read_chunk(sent.data)

    def read_chunk(self, data: bytes) -> Sequence[ModelStreamEvent]:
        """Return the events of one chunk.

        Raises:
            ModelServerError: it is no chunk, it reports an error, or it contradicts those before it.
        """
        chunk = parsed_object(data)
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if usage is not None:
            # If every chunk has it, it grows from one to the next.
            self._counted = usage
        if (error := chunk.get("error")) is not None:
            raise error_in_stream(error)
        if not choices:
            return _NOTHING
        if not self._facts:
            self._note(chunk)
        choice = _first_choice(choices)
        return _NOTHING if choice is None else self._read_choice(choice)

    def read_whole(self, data: bytes) -> Sequence[ModelStreamEvent]:
        body = parsed_object(data)
        if body.get("error") is not None:
            raise error_in_stream(body["error"])
        self._counted = body.get("usage")
        self._note(body)
        choice = _first_choice(body.get("choices") or ())
        if choice is None:
            raise failed(ModelFailure.UNREADABLE, "a body without choices")
        message = choice.get("message")
        if not isinstance(message, dict):
            raise failed(ModelFailure.UNREADABLE, "a choice without a message")
        # A body that came whole is a whole reply, whatever it is said to have ended with.
        reason = choice.get("finish_reason") or ""
        return self._read_choice({**choice, "delta": message, "finish_reason": reason})

    def finish(self, *, with_reasoning: bool = False) -> tuple[ModelResponse, list[ModelStreamEvent]]:
        ended = read_reason(self._reason)
        reason = ModelFinishReason.REFUSAL if self._spoken.refused else ended
        events = [*self._spoken.finish(), *self._calls.end()]
        calls = self._assembled(reason)
        if self._must_answer_with_reasoning(calls, reason):
            self._spoken.answer_with_reasoning()
            events.append(ModelStreamEvent(_TOKEN, token_delta=self._spoken.reasoning))
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
        if events and self._reason:
            raise failed(ModelFailure.UNREADABLE, "the reply goes on after its end")
        reason = choice.get("finish_reason")
        if reason is not None:
            self._end_with(str(reason), choice.get("stop_reason"))
        return events

    def _read_delta(self, delta: dict[str, JsonValue]) -> Sequence[ModelStreamEvent]:
        content = delta.get("content")
        if len(delta) == 1 and content and type(content) is str and content.isascii():
            # The fast path for nearly every chunk.
            self._text(content)
            return (ModelStreamEvent(_TOKEN, token_delta=content),)
        return self._read_parts(delta, content)

    def _read_parts(self, delta: dict[str, JsonValue], content: JsonValue) -> Sequence[ModelStreamEvent]:
        spoken, events = self._spoken, list[ModelStreamEvent]()
        for key in ("reasoning", "reasoning_content"):
            if thought := text_of(delta.get(key)):
                events += spoken.think(thought, key)
                break
        if (details := delta.get(DETAILS)) is not None:
            spoken.keep(details)
        if isinstance(content, list):
            for kind, piece in pieces_of(content):
                events += spoken.think(piece, None) if kind is _REASONING else spoken.say(piece)
            spoken.show(media_in(content))
        elif text := text_of(content):
            events += spoken.say(text)
        if refusal := text_of(delta.get("refusal")):
            events += spoken.refuse(refusal)
        if delta.get("tool_calls"):
            events += self._calls.take(delta["tool_calls"], cast(str, self._facts.get("id", "reply")))
        return events

    def _end_with(self, reason: str, stop_reason: object) -> None:
        if self._reason and reason and reason != self._reason:
            raise failed(
                ModelFailure.UNREADABLE, f"the reply ends twice, with {self._reason!r} and {reason!r}"
            )
        # Some servers send an empty reason with every chunk.
        self._reason = whole_characters(reason) or self._reason or ""
        if isinstance(stop_reason, str):
            self._facts["stop_reason"] = whole_characters(stop_reason)

    def _assembled(self, reason: ModelFinishReason) -> AssembledCalls:
        """Return the calls; none of a reply that was stopped by a filter, or refused.

        Raises:
            ModelServerError: the server says that tools are called, and there is no call.
        """
        if not (reason in _COMPLETE or reason.is_cut):
            return AssembledCalls()
        calls = self._calls.assembled(is_cut=reason.is_cut)
        if (
            not calls.whole
            and reason is ModelFinishReason.STOP
            and str(self._reason).strip().lower() in CALLS
        ):
            raise failed(ModelFailure.BROKEN_CALL, f"it finished with {self._reason!r} and without a call")
        return (
            AssembledCalls(tuple(map(self._as_asked, calls.whole)), calls.cut)
            if self._strips_nulls
            else calls
        )

    def _as_asked(self, call: ModelToolCall) -> ModelToolCall:
        """Return a call without the nulls that stand for arguments that were left out."""
        calling = self._request.tool_calling
        tools = () if calling is None else calling.tools
        schema = next((tool.parameters.schema for tool in tools if tool.name == call.name), None)
        if schema is None:
            return call
        return _with_arguments(call, object_or_empty(without_nulls(call.arguments, schema)))

    def _must_answer_with_reasoning(self, calls: AssembledCalls, reason: ModelFinishReason) -> bool:
        is_silent = self._spoken.is_silent and not calls.whole
        return (
            self._reasoning_is_answer
            and is_silent
            and bool(self._spoken.reasoning)
            and reason is ModelFinishReason.STOP
        )

    def _response(
        self, reason: ModelFinishReason, calls: AssembledCalls, *, with_reasoning: bool
    ) -> ModelResponse:
        parts = (*self._spoken.parts(), *calls.whole)
        spec = self._request.structured_output
        is_answer = reason.is_answer and not calls.whole
        structured = self._answer() if spec is not None and is_answer else None
        facts: dict[str, JsonValue] = {**self._facts, **self._of_request}
        if calls.cut:
            facts["cut_tool_calls"] = list(calls.cut)
        if with_reasoning and self._spoken.reasoning:
            facts["reasoning"] = self._spoken.reasoning
        if reason is ModelFinishReason.OTHER:
            facts[FINISH_WORD] = self._reason
        if reason.is_answer and (choice := self._request.missed_choice(calls.whole)) is not None:
            facts[CHOICE_MISSED] = choice
        return ModelResponse.of(
            parts,
            structured_output=structured,
            usage=self.usage,
            metadata=facts,
            finish_reason=ModelFinishReason.TOOL_CALLS
            if calls.whole and reason is ModelFinishReason.STOP
            else reason,
            output=spec.decode(structured) if spec is not None and is_answer else None,
        )

    def _answer(self) -> JsonValue:
        text = "".join(part.text for part in self._spoken.parts() if isinstance(part, TextPart))
        try:
            answer = read_json(text)
        except ValueError as error:
            problem = f"the answer is no JSON: {text!r}."
            raise AgentStructuredOutputError(problem, problems=[problem]) from error
        spec = self._request.structured_output
        return (
            asked_answer(answer, spec.constraint.schema)
            if spec is not None and self._strips_nulls
            else answer
        )

    def _note(self, chunk: JsonObject) -> None:
        """Note the server's ids of the reply and the model, which occur in its log."""
        self._facts |= {
            name: whole_characters(text)
            for name in ("id", "model")
            if isinstance(text := chunk.get(name), str)
        }


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
