"""What hooks and readers of evidence see of model calls: redacted, without what only a tool may see. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from pilotage.agent.messages import ModelMessage, ModelToolCall, TextPart
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.tool_calling import HiddenArguments, ToolCallingSpec, hidden_arguments
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.safety.guard import guard_json_value


def shown_request(request: ModelRequest, redactor: Redactor) -> ModelRequest:
    """A request as hooks may see it; itself where nothing is hidden."""
    hidden = hidden_arguments(request.tool_calling)
    if redactor.is_idle and not hidden:
        return request
    return replace(request, messages=[_message(each, redactor, hidden) for each in request.messages])


def shown_response(response: ModelResponse, request: ModelRequest, redactor: Redactor) -> ModelResponse:
    """A reply as hooks may see it; itself where nothing is hidden."""
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
    arguments = redactor.json(guarded.arguments)
    return replace(guarded, arguments=arguments if isinstance(arguments, dict) else {})


def recorded_reply(record: JsonObject, calling: ToolCallingSpec | None) -> JsonObject:
    """The record of a reply as others may read it: without what only a tool may see of its arguments."""
    hidden = hidden_arguments(calling)
    reply = record.get("result")
    if not hidden or not isinstance(reply, dict) or "tool_calls" not in reply:
        return record
    calls = [
        {**call, "arguments": guard_json_value(call["arguments"], hidden.get(cast(str, call["name"]), ()))}
        for call in cast("list[JsonObject]", reply["tool_calls"])
    ]
    return {**record, "result": {**reply, "tool_calls": calls}}
