"""Maps a request to the body of a call, with its tool names and messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.adapters.model_http.bodies import growing_last
from pilotage.adapters.model_http.evidence import framed
from pilotage.adapters.model_http.media import IN_REPLY, IN_RESULT, not_carried, text_in_file
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.strict_schema import answer_schema, strict_schema
from pilotage.adapters.openai.dialect import AnswerFormat, Dialect
from pilotage.adapters.openai.settings import EvidenceRole, OpenAICompatibleSettings
from pilotage.agent.messages import (
    ContentPart,
    MediaPart,
    ModelMessage,
    ModelMessageRole,
    ReasoningPart,
    TextPart,
)
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    canonical_json,
)

_ANSWER = "answer"
EXTRA = "extra_content"
"""The field of a call that some servers want back with it, such as the signature of a thought."""
DETAILS = "reasoning_details"
"""The field of a message that some servers want back with the reasoning beside it."""


def names_of(request: ModelRequest) -> WireNames:
    """Return the wire names of the tools of a request, current and earlier ones."""
    offered = [tool.name for tool in _offered(request.tool_calling)]
    return WireNames(offered, mentioned_tools(request.messages))


def chat_body(
    request: ModelRequest,
    settings: OpenAICompatibleSettings,
    dialect: Dialect,
    capability: ModelCapability,
    names: WireNames,
    *,
    streams: bool,
) -> dict[str, JsonValue]:
    """Return the body, without unset parameters.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    messages = wire_messages(request.assemble_messages(), names, settings.evidence_role, settings.provider)
    body: dict[str, JsonValue] = {"model": settings.model, "messages": messages}
    body |= _sampling(request, settings.max_tokens_field)
    body |= _reasoning(request, dialect)
    body |= _cache(request)
    tools = _offered(request.tool_calling)
    if tools and request.tool_calling is not None:
        body |= _tools(request.tool_calling, tools, names, dialect, capability)
    if request.structured_output is not None:
        body |= _format(request.structured_output, request.tool_calling, dialect)
    if streams:
        body["stream"] = True
        if request.streaming.include_usage:
            body["stream_options"] = {"include_usage": True}
    return growing_last({**body, **dialect.parameters, **settings.extra_body}, "messages")


def _sampling(request: ModelRequest, max_tokens_field: str) -> dict[str, JsonValue]:
    sampling = request.sampling
    body: dict[str, JsonValue] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        max_tokens_field: sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
    }
    return {name: each for name, each in body.items() if each is not None}


def _reasoning(request: ModelRequest, dialect: Dialect) -> dict[str, JsonValue]:
    """Return the parameters of the reasoning, as far as the server has them."""
    asked = request.reasoning
    if asked is None:
        return {}
    body: dict[str, JsonValue] = {
        "reasoning_effort": asked.effort,
        dialect.reasoning_budget or "": asked.budget_tokens,
        dialect.reasoning_shown or "": asked.is_shown,
    }
    return {name: each for name, each in body.items() if name and each is not None}


def _cache(request: ModelRequest) -> dict[str, JsonValue]:
    hints = request.cache
    if hints is None:
        return {}
    body: dict[str, JsonValue] = {} if hints.key is None else {"prompt_cache_key": hints.key}
    return {**body, "prompt_cache_retention": "24h"} if hints.is_long else body


def _offered(calling: ToolCallingSpec | None) -> Sequence[ModelToolSpec]:
    """Return the tools to send; none with the choice NONE, because models call tools that are in their prompt."""
    if calling is None or (calling.choice is ModelToolChoice.NONE and calling.tool_name is None):
        return ()
    return calling.tools


def _tools(
    calling: ToolCallingSpec,
    tools: Sequence[ModelToolSpec],
    names: WireNames,
    dialect: Dialect,
    capability: ModelCapability,
) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = {"tools": [_tool(tool, names, dialect) for tool in tools]}
    if calling.tool_name is not None:
        body["tool_choice"] = {"type": "function", "function": {"name": names.wire(calling.tool_name)}}
    else:
        body["tool_choice"] = calling.choice.value
    parallel = capability.parallel_tool_calls and calling.parallel is not False
    if dialect.sends_parallel or not parallel or calling.parallel is not None:
        body["parallel_tool_calls"] = parallel
    return body


def _tool(tool: ModelToolSpec, names: WireNames, dialect: Dialect) -> JsonObject:
    strict = _strict(tool.parameters, dialect)
    parameters = tool.parameters.schema if strict is None else strict
    function: dict[str, JsonValue] = {"name": names.wire(tool.name), "parameters": parameters}
    if tool.description:
        function["description"] = tool.description
    if strict is not None:
        function["strict"] = True
    return {"type": "function", "function": function}


def _format(
    spec: StructuredOutputSpec, calling: ToolCallingSpec | None, dialect: Dialect
) -> dict[str, JsonValue]:
    schema, tools = spec.constraint.schema, _offered(calling)
    if tools and dialect.format_hides_tools and not _may_answer(calling, tools, dialect):
        return {}
    if not tools and spec.constraint.strict:
        if dialect.answer_format is AnswerFormat.STRUCTURED_OUTPUTS:
            return {"structured_outputs": {"json": schema}}
        if dialect.answer_format is AnswerFormat.GUIDED_JSON:
            return {"guided_json": schema}
    if dialect.needs_closed_schemas:
        schema = answer_schema(schema)
    strict = _strict(JsonSchemaConstraint(schema, spec.constraint.strict), dialect)
    is_strict = strict is not None
    shape: JsonObject = {"name": _ANSWER, "schema": schema if strict is None else strict, "strict": is_strict}
    return {"response_format": {"type": "json_schema", "json_schema": shape}}


def _may_answer(calling: ToolCallingSpec | None, tools: Sequence[ModelToolSpec], dialect: Dialect) -> bool:
    """Return whether this turn may be the answer and the format permits calls."""
    is_free = calling is not None and calling.choice is ModelToolChoice.AUTO and calling.tool_name is None
    return is_free and all(_strict(tool.parameters, dialect) is not None for tool in tools)


def _strict(constraint: JsonSchemaConstraint, dialect: Dialect) -> JsonObject | None:
    """Return the schema that the server is asked to enforce; None where it cannot be, or is not wanted."""
    if not constraint.strict:
        return None
    return strict_schema(constraint.schema) if dialect.needs_closed_schemas else constraint.schema


def wire_messages(
    messages: Sequence[ModelMessage],
    names: WireNames,
    evidence_role: EvidenceRole,
    provider: Provider | None = None,
) -> list[JsonObject]:
    """Return the messages on the wire; what the provider wants back goes with them.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    users = [i for i, message in enumerate(messages) if message.role is ModelMessageRole.USER]
    turn = users[-1] if users else -1
    return [
        {
            **_wire_message(message, names, evidence_role, provider),
            **_wanted_back(message, provider, is_in_turn=position > turn),
        }
        for position, message in enumerate(messages)
    ]


def _wanted_back(
    message: ModelMessage, provider: Provider | None, *, is_in_turn: bool
) -> dict[str, JsonValue]:
    """Return the reasoning that this provider gave with a reply.

    The reasoning itself goes back while the turn with its calls is under way, in the field that it came in: some
    servers refuse it later, and some refuse a turn without it.
    """
    if provider is None or message.ordered is None:
        return {}
    fields: dict[str, JsonValue] = {}
    for part in message.ordered:
        if not isinstance(part, ReasoningPart):
            continue
        if (details := provider.data_of(part.state, DETAILS)) is not None:
            fields[DETAILS] = details
        field = provider.field_of(part.origin)
        if field is not None and is_in_turn and message.tool_calls:
            fields[field] = f"{fields.get(field, '')}{part.text}"
    return fields


def mentioned_tools(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """Return the names of all tools that were called."""
    return (call.name for message in messages for call in message.tool_calls)


def _wire_message(
    message: ModelMessage, names: WireNames, evidence_role: EvidenceRole, provider: Provider | None
) -> JsonObject:
    match message.role:
        case ModelMessageRole.ASSISTANT:
            return _assistant(message, names, provider)
        case ModelMessageRole.TOOL:
            return _tool_message(message)
        case ModelMessageRole.EVIDENCE:
            return {"role": evidence_role.value, "content": framed(message)}
        case ModelMessageRole.SYSTEM | ModelMessageRole.USER:
            return {"role": message.role.value, "content": _content(message.content)}


def _assistant(message: ModelMessage, names: WireNames, provider: Provider | None) -> JsonObject:
    if not message.tool_calls:
        return {"role": "assistant", "content": _texts(message.content, IN_REPLY)}
    calls: list[JsonValue] = []
    for position, call in enumerate(message.tool_calls, start=1):
        extra = None if provider is None else provider.data_of(call.state, EXTRA)
        wire: JsonObject = {
            "id": call.call_id or f"call_{position}",
            "type": "function",
            "function": {"name": names.wire(call.name), "arguments": canonical_json(call.arguments)},
        }
        calls.append(wire if extra is None else {**wire, EXTRA: extra})
    return {"role": "assistant", "content": _texts(message.content, IN_REPLY) or None, "tool_calls": calls}


def _tool_message(message: ModelMessage) -> JsonObject:
    if message.tool_call_id is None:
        raise AgentDefinitionError(
            "a tool's message has no tool_call_id, which the server requires. "
            "Use ModelMessage.tool(call_id, result)."
        )
    return {
        "role": "tool",
        "tool_call_id": message.tool_call_id,
        "content": _texts(message.content, IN_RESULT),
    }


def _content(content: str | Sequence[ContentPart]) -> JsonValue:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _texts(content: str | Sequence[ContentPart], place: str) -> JsonValue:
    """Return the content of a message that this wire sends as text only: its media are named, not shown."""
    if isinstance(content, str):
        return content
    texts = [
        part.text if isinstance(part, TextPart) else text_in_file(part) or not_carried(part, place)
        for part in content
    ]
    return [{"type": "text", "text": text} for text in texts]


def _part(part: ContentPart) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if (text := text_in_file(part)) is not None:
        return {"type": "text", "text": text}
    kind = part.media_type.partition("/")[0]
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _url(part)}}
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": _url(part)}}
    if kind == "audio":
        return _audio(part)
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": _url(part)}}


def _audio(part: MediaPart) -> JsonObject:
    if part.data is None:
        return {"type": "audio_url", "audio_url": {"url": part.url}}
    sound: JsonObject = {"data": part.data, "format": _audio_format(part.media_type)}
    return {"type": "input_audio", "input_audio": sound}


def _audio_format(media_type: str) -> str:
    subtype = media_type.partition("/")[2].partition(";")[0].removeprefix("x-")
    return "mp3" if subtype == "mpeg" else subtype


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type};base64,{part.data}"
