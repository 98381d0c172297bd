"""Maps a request to the body of `/v1/responses`. Pure.

Nothing is stored at the server and no earlier response is named: the whole transcript is sent, with the encrypted
reasoning that the server gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.adapters.model_http.bodies import growing_last
from pilotage.adapters.model_http.evidence import framed
from pilotage.adapters.model_http.media import IN_REPLY, not_carried, text_in_file
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.strict_schema import answer_schema, strict_schema
from pilotage.adapters.openai.settings import OpenAICompatibleSettings
from pilotage.agent.messages import (
    ContentPart,
    MediaPart,
    MessagePart,
    ModelMessage,
    ModelMessageRole,
    ModelToolCall,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json

ITEM, PHASE = "item", "phase"
"""The kinds of state: a whole item, and the phase of a message."""


def responses_body(
    request: ModelRequest,
    settings: OpenAICompatibleSettings,
    capability: ModelCapability,
    names: WireNames,
    provider: Provider,
    *,
    streams: bool,
    asks_encrypted: bool = True,
) -> dict[str, JsonValue]:
    """Return the body, without unset parameters.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    items = [item for each in request.assemble_messages() for item in _items(each, names, provider, settings)]
    sampling, hints = request.sampling, request.cache
    body: dict[str, JsonValue] = {
        "model": settings.model,
        "input": [*items],
        "store": False,
        "include": ["reasoning.encrypted_content"] if asks_encrypted else None,
        "max_output_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "reasoning": _reasoning(request),
        "text": _format(request),
        "stream": streams or None,
        "prompt_cache_key": None if hints is None else hints.key,
        "prompt_cache_retention": "24h" if hints is not None and hints.is_long else None,
        **_tools(request.tool_calling, capability, names),
    }
    given = {name: each for name, each in body.items() if each is not None}
    return growing_last({**given, **settings.extra_body}, "input")


def _tools(
    calling: ToolCallingSpec | None, capability: ModelCapability, names: WireNames
) -> dict[str, JsonValue]:
    if calling is None or not calling.tools:
        return {}
    if calling.choice is ModelToolChoice.NONE and calling.tool_name is None:
        return {}
    choice: JsonValue = calling.choice.value
    if calling.tool_name is not None:
        choice = {"type": "function", "name": names.wire(calling.tool_name)}
    body: dict[str, JsonValue] = {
        "tools": [_tool(each, names) for each in calling.tools],
        "tool_choice": choice,
    }
    if calling.parallel is False or not capability.parallel_tool_calls:
        body["parallel_tool_calls"] = False
    return body


def _tool(tool: ModelToolSpec, names: WireNames) -> JsonObject:
    schema, is_strict = _schema(tool.parameters)
    wire: JsonObject = {
        "type": "function",
        "name": names.wire(tool.name),
        "parameters": schema,
        "strict": is_strict,
    }
    return {**wire, "description": tool.description} if tool.description else wire


def _schema(constraint: JsonSchemaConstraint) -> tuple[JsonObject, bool]:
    strict = strict_schema(constraint.schema) if constraint.strict else None
    return (constraint.schema, False) if strict is None else (strict, True)


def _format(request: ModelRequest) -> JsonValue:
    if request.structured_output is None:
        return None
    asked = request.structured_output.constraint
    schema, is_strict = _schema(JsonSchemaConstraint(answer_schema(asked.schema), asked.strict))
    return {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict}}


def _reasoning(request: ModelRequest) -> JsonValue:
    asked = request.reasoning
    if asked is None:
        return None
    options: dict[str, JsonValue] = {} if asked.effort is None else {"effort": asked.effort}
    return {**options, "summary": "auto"} if asked.is_shown else options or None


def _items(
    message: ModelMessage, names: WireNames, provider: Provider, settings: OpenAICompatibleSettings
) -> Iterator[JsonValue]:
    match message.role:
        case ModelMessageRole.ASSISTANT:
            for position, part in enumerate(message.parts, start=1):
                yield from _of_reply(part, position, names, provider)
        case ModelMessageRole.TOOL:
            yield _output(message)
        case ModelMessageRole.EVIDENCE:
            yield {"role": settings.evidence_role.value, "content": framed(message)}
        case ModelMessageRole.SYSTEM | ModelMessageRole.USER:
            yield {"role": message.role.value, "content": _content(message.content)}


def _of_reply(part: MessagePart, position: int, names: WireNames, provider: Provider) -> Iterator[JsonValue]:
    match part:
        case TextPart():
            phase = provider.data_of(part.state, PHASE)
            item: JsonObject = {"role": "assistant", "content": part.text}
            yield item if phase is None else {**item, PHASE: phase}
        case RefusalPart():
            yield {"role": "assistant", "content": part.text}
        case ModelToolCall():
            yield {
                "type": "function_call",
                "call_id": part.call_id or f"call_{position}",
                "name": names.wire(part.name),
                "arguments": canonical_json(part.arguments),
            }
        case ReasoningPart() | OpaquePart():
            # Reasoning that is not encrypted has no place in the input of another request.
            if (item_of := provider.data_of(part.state, ITEM)) is not None:
                yield item_of
        case MediaPart():
            yield {"role": "assistant", "content": not_carried(part, IN_REPLY)}


def _output(message: ModelMessage) -> JsonObject:
    if message.tool_call_id is None:
        raise AgentDefinitionError(
            "a tool's message has no tool_call_id, which the server requires. "
            "Use ModelMessage.tool(call_id, result)."
        )
    return {
        "type": "function_call_output",
        "call_id": message.tool_call_id,
        "output": _content(message.content),
    }


def _content(content: str | Sequence[ContentPart]) -> JsonValue:
    if isinstance(content, str):
        return content
    return [
        _medium(part) if isinstance(part, MediaPart) else {"type": "input_text", "text": part.text}
        for part in content
    ]


def _medium(part: MediaPart) -> JsonObject:
    if (text := text_in_file(part)) is not None:
        return {"type": "input_text", "text": text}
    data = f"data:{part.media_type};base64,{part.data}"
    if part.media_type.partition("/")[0] == "image":
        return {"type": "input_image", "image_url": part.url or data}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or "file", "file_data": data}
