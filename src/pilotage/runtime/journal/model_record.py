"""A model's reply as JSON and back, and the events a replayed reply gives. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value


def encode_response(response: ModelResponse) -> JsonObject:
    """The reply as replay needs it; the decoded output is made again from its JSON."""
    return {
        "content": response.content,
        "structured_output": response.structured_output,
        "tool_calls": [to_json_value(call) for call in response.tool_calls],
        "usage": to_json_value(response.usage),
        "metadata": response.metadata,
        "finish_reason": response.finish_reason.value if response.finish_reason else None,
    }


def decode_response(record: JsonObject, request: ModelRequest) -> ModelResponse:
    """The recorded reply to a request."""
    reason = cast("str | None", record["finish_reason"])
    structured = record["structured_output"]
    spec = request.structured_output
    return ModelResponse(
        content=cast(str, record["content"]),
        structured_output=structured,
        tool_calls=[_decode_call(call) for call in cast("list[JsonValue]", record["tool_calls"])],
        usage=ModelUsage(**cast("dict[str, int | None]", record["usage"])),
        metadata=cast(JsonObject, record["metadata"]),
        finish_reason=ModelFinishReason(reason) if reason else None,
        output=spec.decode(structured) if spec and structured is not None else None,
    )


def replayed_events(
    response: ModelResponse, request: ModelRequest, reasoning: str = ""
) -> Iterator[ModelStreamEvent]:
    """A stream that adds up to the reply: what was thought and said in one piece each, the calls, the end."""
    if reasoning:
        yield ModelStreamEvent(ModelStreamEventKind.REASONING_DELTA, reasoning_delta=reasoning)
    if response.content:
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=response.content)
    for call in response.tool_calls:
        yield ModelStreamEvent(
            ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call, tools=request.tool_calling
        )
    if response.structured_output is not None:
        kind = ModelStreamEventKind.STRUCTURED_OUTPUT
        yield ModelStreamEvent(kind, structured_output=response.structured_output)
    yield ModelStreamEvent(ModelStreamEventKind.DONE, usage=response.usage, response=response)


def _decode_call(record: JsonValue) -> ModelToolCall:
    call = cast("Mapping[str, JsonValue]", record)
    return ModelToolCall(
        cast(str, call["name"]),
        cast(JsonObject, call["arguments"]),
        cast("str | None", call["call_id"]),
        cast(JsonObject, call["metadata"]),
    )
