"""A model's reply, or how it failed, as JSON and back, and the events a replayed reply gives. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.journal.records import decode_usage, encode_usage

_response = unchecked(ModelResponse)

_REASONING, _TOKEN, _CALL, _STRUCTURED, _DONE = (
    ModelStreamEventKind.REASONING_DELTA,
    ModelStreamEventKind.TOKEN_DELTA,
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    ModelStreamEventKind.STRUCTURED_OUTPUT,
    ModelStreamEventKind.DONE,
)
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
    # What `encode_response` wrote. No `cast`: that is a call, and a long run has thousands of replies.
    said: Mapping[str, Any] = record
    reason, structured = said.get("finish_reason"), said.get("structured_output")
    spec = request.structured_output
    return _response(
        said.get("content", ""),
        structured,
        tuple(map(_decode_call, said.get("tool_calls", ()))),
        decode_usage(said.get("usage")),
        said.get("metadata", {}),
        ModelFinishReason(reason) if reason else None,
        spec.decode(structured) if spec and structured is not None else None,
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
) -> list[ModelStreamEvent]:
    """A stream that adds up to the reply: what was thought and said in one piece each, the calls, the end."""
    events: list[ModelStreamEvent] = []
    if reasoning:
        events.append(ModelStreamEvent(_REASONING, reasoning_delta=reasoning))
    if response.content:
        events.append(ModelStreamEvent(_TOKEN, token_delta=response.content))
    tools = request.tool_calling
    events += [ModelStreamEvent(_CALL, tool_call=call, tools=tools) for call in response.tool_calls]
    if response.structured_output is not None:
        events.append(ModelStreamEvent(_STRUCTURED, structured_output=response.structured_output))
    events.append(ModelStreamEvent(_DONE, usage=response.usage, response=response))
    return events


def replayed_misfit(record: JsonObject) -> Iterator[ModelStreamEvent]:
    """The stream of a reply that was not of the type asked for: what was said, then what is wrong with it."""
    yield ModelStreamEvent(_TOKEN, token_delta=cast(str, record.get("text", "")))
    problems = cast("list[str]", record["problems"])
    raise AgentStructuredOutputError(record["error"], problems=problems)


def _encode_call(call: ModelToolCall) -> JsonObject:
    said: dict[str, JsonValue] = {"name": call.name, "arguments": to_json_value(call.arguments)}
    if call.call_id is not None:
        said["call_id"] = call.call_id
    if call.metadata:
        said["metadata"] = to_json_value(call.metadata)
    return said


def _decode_call(call: Mapping[str, Any]) -> ModelToolCall:
    return ModelToolCall(call["name"], call["arguments"], call.get("call_id"), call.get("metadata", {}))
