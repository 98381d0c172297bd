"""A scripted reply as a response and as a stream of events. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import cast

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.testing.script import ScriptedReply

_WORD = re.compile(r"\s*\S+\s?|\s+")
_ARGUMENT_PIECE = 8
_CHARACTERS_PER_TOKEN = 4


def response_of(reply: ScriptedReply, request: ModelRequest) -> ModelResponse:
    """The whole response, with the answer decoded into the type the request asks for.

    Raises:
        AgentStructuredOutputError: the answer is not of that type.
    """
    reason = reply.finish_reason or (ModelFinishReason.TOOL_CALLS if reply.calls else ModelFinishReason.STOP)
    is_answer = reason is ModelFinishReason.STOP
    structured = _structured(reply, request) if is_answer else None
    spec = request.structured_output
    return ModelResponse(
        reply.text,
        structured,
        reply.calls,
        _usage(reply, request.assemble_messages()),
        finish_reason=reason,
        output=spec.decode(structured) if spec and is_answer else None,
    )


def text_deltas(text: str) -> Iterator[ModelStreamEvent]:
    """A text word by word."""
    for piece in _WORD.findall(text):
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=piece)


def deltas_of(reply: ScriptedReply, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    """The events in front of the final one: reasoning, text, calls."""
    for piece in _WORD.findall(reply.reasoning):
        yield ModelStreamEvent(ModelStreamEventKind.REASONING_DELTA, reasoning_delta=piece)
    yield from text_deltas(reply.text)
    for call in reply.calls:
        yield from _call_events(call, request)


def final_events(response: ModelResponse, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    """The structured answer, where there is one, and the end."""
    if response.structured_output is not None:
        yield ModelStreamEvent(
            ModelStreamEventKind.STRUCTURED_OUTPUT, structured_output=response.structured_output
        )
    usage = response.usage if request.streaming.include_usage else None
    yield ModelStreamEvent(ModelStreamEventKind.DONE, usage=usage, response=response)


def _call_events(call: ModelToolCall, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    begun = ModelToolCall(call.name, {}, call.call_id)
    yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_START, tool_call=begun)
    text = canonical_json(call.arguments)
    for start in range(0, len(text), _ARGUMENT_PIECE):
        yield ModelStreamEvent(
            ModelStreamEventKind.TOOL_CALL_ARGS_DELTA,
            tool_call=begun,
            tool_call_args_delta=text[start : start + _ARGUMENT_PIECE],
        )
    yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_END, tool_call=begun)
    yield ModelStreamEvent(
        ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call, tools=request.tool_calling
    )


def _structured(reply: ScriptedReply, request: ModelRequest) -> JsonValue:
    """What a server that was asked for JSON gives: the declared output, or the text read as JSON."""
    if request.structured_output is None or reply.output is not None:
        return reply.output
    try:
        return cast(JsonValue, json.loads(reply.text))
    except ValueError as error:
        problem = f"the answer is no JSON: {reply.text!r}."
        raise AgentStructuredOutputError(problem, problems=[problem]) from error


def _usage(reply: ScriptedReply, messages: Sequence[ModelMessage]) -> ModelUsage:
    asked = sum(_tokens(message.text) for message in messages)
    arguments = sum(_tokens(canonical_json(call.arguments)) for call in reply.calls)
    answered = _tokens(reply.text) + _tokens(reply.reasoning) + arguments
    return ModelUsage(asked, answered, asked + answered)


def _tokens(text: str) -> int:
    """As a rule of thumb; what counts is that it is the same every time."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
