"""Maps a request to the body of `/v1/messages`. Pure.

Roles alternate on this wire: messages of one side that follow each other are one, with the results of tools in front.
System messages are beside the transcript, wherever they stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pilotage.adapters.anthropic.cache_marks import mark_prefix, steady_prefix
from pilotage.adapters.anthropic.settings import AnthropicSettings
from pilotage.adapters.model_http.bodies import growing_last
from pilotage.adapters.model_http.evidence import framed
from pilotage.adapters.model_http.media import IN_REPLY, not_carried, text_in_file
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.strict_schema import ANTHROPIC, answer_schema, strict_schema
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
    state_of,
)
from pilotage.agent.model_request import (
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, list_or_empty, object_or_empty, parsed

SIGNATURE, BLOCK, CITATIONS = "signature", "block", "citations"
"""The kinds of state: the signature of a thought, a whole block, and the citations of a text."""
THINKING = "thinking"
"""The block of a thought, and its field."""
_MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16
"""What the provider takes in one request: tools with strict schemas, and in all of these fields that may be left out,
and fields of several types."""


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
        "max_tokens": sampling.max_tokens or settings.max_tokens + _budget(request),
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
    tools: list[JsonValue] = [*_tools(request, names)]
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
                text: JsonObject = {"type": "text", "text": part.text}
                cited = provider.data_of(state_of(part), CITATIONS)
                yield text if cited is None else {**text, CITATIONS: cited}
        case ModelToolCall():
            call_id = part.call_id or f"call_{position}"
            # In the order of the record, so that a request has the same bytes in every attempt of a run.
            given = parsed(canonical_json(part.arguments))
            yield {"type": "tool_use", "id": call_id, "name": names.wire(part.name), "input": given}
        case ReasoningPart():
            # A provider that signs thoughts refuses those of others; servers that do not sign them take their own.
            signature = provider.data_of(part.state, SIGNATURE)
            if signature is None and part.state is None and provider.field_of(part.origin) == THINKING:
                signature = ""
            if signature is not None:
                yield {"type": THINKING, THINKING: part.text, "signature": signature}
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


def _tools(request: ModelRequest, names: WireNames) -> Iterator[JsonObject]:
    """Yield the tools; with strict schemas as long as the provider takes more of them."""
    answer = _answer_format(request)
    strict_ones, (optional, unions) = 0, (0, 0) if answer is None else _extent(answer)
    for tool in _offered(request.tool_calling):
        strict = strict_schema(tool.parameters.schema, ANTHROPIC) if tool.parameters.strict else None
        if strict is not None:
            more = _extent(strict)
            total = strict_ones + 1, optional + more[0], unions + more[1]
            if total[0] > _MOST_STRICT or total[1] > _MOST_OPTIONAL or total[2] > _MOST_UNIONS:
                strict = None
            else:
                strict_ones, optional, unions = total
        yield _tool(tool, names, strict)


def _tool(tool: ModelToolSpec, names: WireNames, strict: JsonObject | None) -> JsonObject:
    schema = tool.parameters.schema if strict is None else strict
    wire: dict[str, JsonValue] = {"name": names.wire(tool.name), "input_schema": schema}
    if tool.description:
        wire["description"] = tool.description
    if strict is not None:
        wire["strict"] = True
    return wire


def _extent(schema: JsonValue) -> tuple[int, int]:
    """Return the numbers of fields in a schema that may be left out, and of those that have several types."""
    if isinstance(schema, list | tuple):
        parts = [_extent(each) for each in schema]
    elif isinstance(schema, Mapping):
        fields, required = object_or_empty(schema.get("properties")), list_or_empty(schema.get("required"))
        own = (
            len(fields.keys() - set(required)),
            int("anyOf" in schema or isinstance(schema.get("type"), list)),
        )
        parts = [own, *(_extent(each) for each in schema.values())]
    else:
        return 0, 0
    return sum(each for each, _ in parts), sum(each for _, each in parts)


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


def _budget(request: ModelRequest) -> int:
    """Return the tokens of reasoning, which are part of the tokens of a reply on this wire."""
    return 0 if request.reasoning is None else request.reasoning.budget_tokens or 0


def _thinking(request: ModelRequest) -> JsonValue:
    budget = _budget(request)
    return {"type": "enabled", "budget_tokens": budget} if budget else None


def _output(request: ModelRequest) -> JsonValue:
    config: dict[str, JsonValue] = {}
    if request.reasoning is not None and request.reasoning.effort is not None:
        config["effort"] = request.reasoning.effort
    if (answer := _answer_format(request)) is not None:
        config["format"] = {"type": "json_schema", "schema": answer}
    return config or None


def _answer_format(request: ModelRequest) -> JsonObject | None:
    """Return the schema of the answer, as the provider takes it if it has such a form."""
    if request.structured_output is None:
        return None
    schema = answer_schema(request.structured_output.constraint.schema)
    return strict_schema(schema, ANTHROPIC) or schema
