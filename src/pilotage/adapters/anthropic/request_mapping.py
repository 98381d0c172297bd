"""Maps a request to the body of `/v1/messages`. Pure.

Roles alternate on this wire: messages of one side that follow each other are one, with the results of tools in front.
System messages are beside the transcript, wherever they stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.adapters.anthropic.cache_marks import mark_prefix, steady_prefix
from pilotage.adapters.anthropic.settings import AnthropicSettings
from pilotage.adapters.model_http.bodies import growing_last
from pilotage.adapters.model_http.evidence import framed
from pilotage.adapters.model_http.media import IN_REPLY, not_carried, text_in_file
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.strict_schema import strict_schema
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
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue

SIGNATURE, BLOCK = "signature", "block"
"""The kinds of state: the signature of a thought, and a whole block."""


def names_of(request: ModelRequest) -> WireNames:
    """Return the wire names of the tools of a request, current and earlier ones."""
    called = (call.name for message in request.messages for call in message.tool_calls)
    return WireNames([tool.name for tool in _offered(request.tool_calling)], called)


def messages_body(
    request: ModelRequest,
    settings: AnthropicSettings,
    capability: ModelCapability,
    names: WireNames,
    *,
    streams: bool,
) -> dict[str, JsonValue]:
    """Return the body, without unset parameters.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    sampling = request.sampling
    body: dict[str, JsonValue] = {
        **counted_body(request, settings, names),
        "max_tokens": sampling.max_tokens or settings.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop_sequences": list(sampling.stop) or None,
        "stream": streams or None,
        "tool_choice": _choice(request.tool_calling, capability, names),
        "thinking": _thinking(request),
        "output_config": _output(request),
    }
    given = {name: each for name, each in body.items() if each is not None}
    return growing_last({**given, **settings.extra_body}, "messages")


def counted_body(
    request: ModelRequest, settings: AnthropicSettings, names: WireNames
) -> dict[str, JsonValue]:
    """Return the parts of the body that are counted as input: model, system, messages, tools."""
    messages = request.assemble_messages()
    instructing = [each for each in messages if _is_system(each) and each.text.strip()]
    system: list[JsonValue] = [{"type": "text", "text": each.text} for each in instructing]
    tools: list[JsonValue] = [_tool(each, names) for each in _offered(request.tool_calling)]
    turns = wire_turns(messages, names, settings.provider)
    if request.cache is not None or (settings.cache_marks and request.context_manifest is not None):
        steady = steady_prefix(request, messages)
        mark_prefix(
            system,
            tools,
            turns,
            steady_system=len(steady_prefix(request, instructing)),
            steady_turns=turns
            if len(steady) == len(messages)
            else wire_turns(steady, names, settings.provider),
            is_long=request.cache is not None and request.cache.is_long,
        )
    body: dict[str, JsonValue] = {
        "model": settings.model,
        "tools": tools,
        "system": system,
        "messages": [*turns],
    }
    return {name: each for name, each in body.items() if each}


def wire_turns(messages: Sequence[ModelMessage], names: WireNames, provider: Provider) -> list[JsonObject]:
    """Return the messages on the wire, in turns of both sides."""
    turns: list[JsonObject] = []
    for message in messages:
        if _is_system(message):
            continue
        role = "assistant" if message.role is ModelMessageRole.ASSISTANT else "user"
        blocks = list(_blocks(message, names, provider))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            earlier = turns.pop()["content"]
            blocks = [*(earlier if isinstance(earlier, list) else ()), *blocks]
        turns.append({"role": role, "content": _results_first(blocks) if role == "user" else [*blocks]})
    return turns


def _results_first(blocks: Sequence[JsonValue]) -> list[JsonValue]:
    results = [each for each in blocks if isinstance(each, dict) and each.get("type") == "tool_result"]
    return [*results, *(each for each in blocks if each not in results)] if results else [*blocks]


def _is_system(message: ModelMessage) -> bool:
    return message.role is ModelMessageRole.SYSTEM


def _blocks(message: ModelMessage, names: WireNames, provider: Provider) -> Iterator[JsonValue]:
    match message.role:
        case ModelMessageRole.ASSISTANT:
            for position, part in enumerate(message.parts, start=1):
                yield from _of_reply(part, position, names, provider)
        case ModelMessageRole.TOOL:
            yield _result(message)
        case ModelMessageRole.EVIDENCE:
            yield {"type": "text", "text": framed(message)}
        case ModelMessageRole.USER | ModelMessageRole.SYSTEM:
            yield from _of_content(message.content)


def _of_reply(part: MessagePart, position: int, names: WireNames, provider: Provider) -> Iterator[JsonValue]:
    match part:
        case TextPart() | RefusalPart():
            if part.text.strip():
                yield {"type": "text", "text": part.text}
        case ModelToolCall():
            call_id = part.call_id or f"call_{position}"
            yield {"type": "tool_use", "id": call_id, "name": names.wire(part.name), "input": part.arguments}
        case ReasoningPart():
            # Without its signature a thought is refused.
            if (signature := provider.data_of(part.state, SIGNATURE)) is not None:
                yield {"type": "thinking", "thinking": part.text, "signature": signature}
        case OpaquePart():
            if (block := provider.data_of(part.state, BLOCK)) is not None:
                yield block
        case MediaPart():
            yield {"type": "text", "text": not_carried(part, IN_REPLY)}


def _result(message: ModelMessage) -> JsonObject:
    if message.tool_call_id is None:
        raise AgentDefinitionError(
            "a tool's message has no tool_call_id, which the server requires. "
            "Use ModelMessage.tool(call_id, result)."
        )
    content: JsonValue = (
        message.content if isinstance(message.content, str) else [*_of_content(message.content)]
    )
    result: JsonObject = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
    return {**result, "is_error": True} if message.is_error else result


def _of_content(content: str | Sequence[ContentPart]) -> Iterator[JsonValue]:
    for part in (TextPart(content),) if isinstance(content, str) else content:
        if isinstance(part, MediaPart):
            yield _medium(part)
        elif part.text.strip():
            yield {"type": "text", "text": part.text}


def _medium(part: MediaPart) -> JsonObject:
    if (text := text_in_file(part)) is not None:
        return {"type": "text", "text": text}
    kind = "image" if part.media_type.partition("/")[0] == "image" else "document"
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    return {"type": kind, "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _offered(calling: ToolCallingSpec | None) -> Sequence[ModelToolSpec]:
    return () if calling is None else calling.tools


def _tool(tool: ModelToolSpec, names: WireNames) -> JsonObject:
    strict = strict_schema(tool.parameters.schema) if tool.parameters.strict else None
    schema = tool.parameters.schema if strict is None else strict
    wire: dict[str, JsonValue] = {"name": names.wire(tool.name), "input_schema": schema}
    if tool.description:
        wire["description"] = tool.description
    if strict is not None:
        wire["strict"] = True
    return wire


def _choice(calling: ToolCallingSpec | None, capability: ModelCapability, names: WireNames) -> JsonValue:
    if calling is None or not calling.tools:
        return None
    is_single = calling.parallel is False or not capability.parallel_tool_calls
    alone: JsonObject = {"disable_parallel_tool_use": True} if is_single else {}
    if calling.tool_name is not None:
        return {"type": "tool", "name": names.wire(calling.tool_name), **alone}
    match calling.choice:
        case ModelToolChoice.NONE:
            return {"type": "none"}
        case ModelToolChoice.REQUIRED:
            return {"type": "any", **alone}
        case ModelToolChoice.AUTO:
            return {"type": "auto", **alone} if alone else None


def _thinking(request: ModelRequest) -> JsonValue:
    asked = request.reasoning
    if asked is None or asked.budget_tokens is None:
        return None
    return {"type": "enabled", "budget_tokens": asked.budget_tokens}


def _output(request: ModelRequest) -> JsonValue:
    config: dict[str, JsonValue] = {}
    if request.reasoning is not None and request.reasoning.effort is not None:
        config["effort"] = request.reasoning.effort
    if request.structured_output is not None:
        schema = request.structured_output.constraint.schema
        config["format"] = {"type": "json_schema", "schema": strict_schema(schema) or schema}
    return config or None
