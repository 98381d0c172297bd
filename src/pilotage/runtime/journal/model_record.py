"""A model's reply, or how it failed, as JSON and back, and the events a replayed reply gives. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.journal.amounts import decode_usage, encode_usage

_UNSAID: tuple[JsonValue, ...] = (None, "", [], {})


def encode_response(response: ModelResponse) -> JsonObject:
    """The reply as replay needs it, without what was not said; the decoded output is made again from its JSON."""
    said: dict[str, JsonValue] = {}
    if response.content:
        said["content"] = response.content
    if response.structured_output not in _UNSAID:
        said["structured_output"] = response.structured_output
    if response.tool_calls:
        said["tool_calls"] = [_encode_call(call) for call in response.tool_calls]
    if usage := encode_usage(response.usage):
        said["usage"] = usage
    if response.metadata:
        said["metadata"] = response.metadata
    if response.finish_reason is not None:
        said["finish_reason"] = response.finish_reason.value
    return said


def decode_response(record: JsonObject, request: ModelRequest) -> ModelResponse:
    """The recorded reply to a request."""
    reason = cast("str | None", record.get("finish_reason"))
    structured = record.get("structured_output")
    spec = request.structured_output
    return ModelResponse(
        content=cast(str, record.get("content", "")),
        structured_output=structured,
        tool_calls=[_decode_call(call) for call in cast("list[JsonValue]", record.get("tool_calls", ()))],
        usage=decode_usage(cast("JsonObject | None", record.get("usage"))),
        metadata=cast(JsonObject, record.get("metadata", {})),
        finish_reason=ModelFinishReason(reason) if reason else None,
        output=spec.decode(structured) if spec and structured is not None else None,
    )


def call_failure(error: Exception) -> ModelCallError:
    """What a program gets when its model failed: never an adapter's own class, which replay could not give back."""
    if not isinstance(error, ModelCallError):
        return ModelCallError(f"{type(error).__name__}: {error}")
    return ModelCallError(str(error), retryable=error.retryable, failure=error.failure)


def encode_failure(failure: ModelCallError) -> JsonObject:
    """How a call failed."""
    record: JsonObject = {"error": str(failure), "retryable": failure.retryable}
    return {**record, "failure": str(failure.failure)} if failure.failure else record


def decode_failure(record: JsonObject) -> ModelCallError:
    """The recorded failure."""
    failure = cast("str | None", record.get("failure"))
    return ModelCallError(record["error"], retryable=bool(record["retryable"]), failure=failure)


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


def _encode_call(call: ModelToolCall) -> JsonObject:
    said: dict[str, JsonValue] = {"name": call.name, "arguments": to_json_value(call.arguments)}
    if call.call_id is not None:
        said["call_id"] = call.call_id
    if call.metadata:
        said["metadata"] = to_json_value(call.metadata)
    return said


def _decode_call(record: JsonValue) -> ModelToolCall:
    call = cast("Mapping[str, JsonValue]", record)
    return ModelToolCall(
        cast(str, call["name"]),
        cast(JsonObject, call["arguments"]),
        cast("str | None", call.get("call_id")),
        cast(JsonObject, call.get("metadata", {})),
    )
