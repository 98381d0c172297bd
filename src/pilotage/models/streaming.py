"""A complete reply as a stream of events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pilotage.agent.compaction import BYTE_ESTIMATOR
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import canonical_json

_WORD = re.compile(r"\s*\S+\s?|\s+")
_ARGUMENT_PIECE = 8


def text_deltas(text: str) -> Iterator[ModelStreamEvent]:
    """Yield a text word by word."""
    for piece in _WORD.findall(text):
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=piece)


def deltas_of(
    text: str, calls: Sequence[ModelToolCall], reasoning: str, request: ModelRequest
) -> Iterator[ModelStreamEvent]:
    """Yield the events before the final one: reasoning, text, calls."""
    for piece in _WORD.findall(reasoning):
        yield ModelStreamEvent(ModelStreamEventKind.REASONING_DELTA, reasoning_delta=piece)
    yield from text_deltas(text)
    for call in calls:
        yield from _call_events(call, request)


def final_events(response: ModelResponse, request: ModelRequest) -> Iterator[ModelStreamEvent]:
    """Yield the structured answer, if there is one, and the end."""
    if response.structured_output is not None:
        yield ModelStreamEvent(
            ModelStreamEventKind.STRUCTURED_OUTPUT, structured_output=response.structured_output
        )
    usage = response.usage if request.streaming.include_usage else None
    yield ModelStreamEvent(ModelStreamEventKind.DONE, usage=usage, response=response)


def estimated_usage(
    messages: Sequence[ModelMessage], text: str, calls: Sequence[ModelToolCall], reasoning: str
) -> ModelUsage:
    """Return a deterministic estimate of the tokens."""
    tokens = BYTE_ESTIMATOR.tokens_of
    asked = sum(tokens(message.text) for message in messages)
    arguments = sum(tokens(canonical_json(call.arguments)) for call in calls)
    answered = tokens(text) + tokens(reasoning) + arguments
    return ModelUsage(asked, answered, asked + answered)


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
