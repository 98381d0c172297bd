"""Model calls as hooks and readers of evidence may see them: redacted, without hidden arguments. Pure."""

from __future__ import annotations

from dataclasses import replace

from pilotage.agent.messages import ModelMessage, ModelToolCall, TextPart
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.tool_calling import HiddenArguments, ToolCallingSpec, hidden_arguments
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.safety.guard import guard_json_value


def shown_request(request: ModelRequest, redactor: Redactor) -> ModelRequest:
    """Return a request as hooks may see it; the same object if nothing is hidden."""
    hidden = hidden_arguments(request.tool_calling)
    if redactor.is_idle and not hidden:
        return request
    return replace(request, messages=[_message(each, redactor, hidden) for each in request.messages])


def shown_response(response: ModelResponse, request: ModelRequest, redactor: Redactor) -> ModelResponse:
    """Return a reply as hooks may see it; the same object if nothing is hidden."""
    hidden = hidden_arguments(request.tool_calling)
    if redactor.is_idle and not hidden:
        return response
    return replace(
        response,
        content=redactor.text(response.content),
        structured_output=redactor.json(response.structured_output),
        tool_calls=[_call(each, redactor, hidden) for each in response.tool_calls],
        output=None,
    )


def recorded_reply(record: JsonObject, calling: ToolCallingSpec | None) -> JsonObject:
    """Return the record of a reply as others may read it: without the hidden arguments of its tool calls."""
    hidden, reply = hidden_arguments(calling), record.get("result")
    if not hidden or not isinstance(reply, dict) or "tool_calls" not in reply:
        return record
    calls = reply["tool_calls"]
    guarded = [_recorded_call(call, hidden) for call in calls] if isinstance(calls, list) else []
    return {**record, "result": {**reply, "tool_calls": guarded}}


def _message(message: ModelMessage, redactor: Redactor, hidden: HiddenArguments) -> ModelMessage:
    content = message.content
    shown = (
        redactor.text(content)
        if isinstance(content, str)
        else [TextPart(redactor.text(part.text)) if isinstance(part, TextPart) else part for part in content]
    )
    calls = [_call(each, redactor, hidden) for each in message.tool_calls]
    return replace(message, content=shown, tool_calls=calls)


def _call(call: ModelToolCall, redactor: Redactor, hidden: HiddenArguments) -> ModelToolCall:
    guarded = call.guarded(hidden.get(call.name, ()))
    return replace(guarded, arguments=redactor.json(guarded.arguments))


def _recorded_call(call: JsonValue, hidden: HiddenArguments) -> JsonValue:
    if not isinstance(call, dict):
        return None
    descriptors = hidden.get(str(call["name"]), ())
    return {**call, "arguments": guard_json_value(call["arguments"], descriptors)}
