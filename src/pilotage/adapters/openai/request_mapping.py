"""From a model request to the body of a chat completion. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.adapters.openai.dialect import AnswerFormat, Dialect
from pilotage.adapters.openai.message_mapping import mentioned_tools, wire_messages
from pilotage.adapters.openai.settings import OpenAICompatibleSettings
from pilotage.adapters.openai.wire_names import WireNames
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty

_ANSWER = "answer"


def names_of(request: ModelRequest) -> WireNames:
    """What the tools of a request, now and earlier, are called on the wire."""
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
    """The body, with nothing in it that was not asked for.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    messages = wire_messages(request.assemble_messages(), names, settings.evidence_role)
    body: dict[str, JsonValue] = {"model": settings.model, "messages": messages}
    body |= _sampling(request, settings.max_tokens_field)
    tools = _offered(request.tool_calling)
    if tools and request.tool_calling is not None:
        body |= _tools(request.tool_calling, tools, names, dialect, capability)
    if request.structured_output is not None:
        body |= _format(request.structured_output, request.tool_calling, dialect)
    if streams:
        body["stream"] = True
        if request.streaming.include_usage:
            body["stream_options"] = {"include_usage": True}
    return {**body, **dialect.parameters, **settings.extra_body}


def _sampling(request: ModelRequest, max_tokens_field: str) -> dict[str, JsonValue]:
    sampling = request.sampling
    asked: dict[str, JsonValue] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        max_tokens_field: sampling.max_tokens,
    }
    return {name: each for name, each in asked.items() if each is not None}


def _offered(calling: ToolCallingSpec | None) -> Sequence[ModelToolSpec]:
    """The tools to send. `none` beside tools leaves them in the prompt, and models call what they read there."""
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
    asked: dict[str, JsonValue] = {"tools": [_tool(tool, names, dialect) for tool in tools]}
    if calling.tool_name is not None:
        asked["tool_choice"] = {"type": "function", "function": {"name": names.wire(calling.tool_name)}}
    else:
        asked["tool_choice"] = calling.choice.value
    if dialect.says_parallel or not capability.parallel_tool_calls:
        asked["parallel_tool_calls"] = capability.parallel_tool_calls
    return asked


def _tool(tool: ModelToolSpec, names: WireNames, dialect: Dialect) -> JsonObject:
    function: dict[str, JsonValue] = {"name": names.wire(tool.name), "parameters": tool.parameters.schema}
    if tool.description:
        function["description"] = tool.description
    if _is_strict(tool.parameters, dialect):
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
    shape: JsonObject = {
        "name": _ANSWER,
        "schema": schema,
        "strict": _is_strict(spec.constraint, dialect),
    }
    return {"response_format": {"type": "json_schema", "json_schema": shape}}


def _may_answer(calling: ToolCallingSpec | None, tools: Sequence[ModelToolSpec], dialect: Dialect) -> bool:
    """Whether this turn may be the answer and the format leaves room for calls."""
    is_free = calling is not None and calling.choice is ModelToolChoice.AUTO and calling.tool_name is None
    return is_free and all(_is_strict(tool.parameters, dialect) for tool in tools)


def _is_strict(constraint: JsonSchemaConstraint, dialect: Dialect) -> bool:
    return constraint.strict and (not dialect.needs_closed_schemas or is_closed(constraint.schema))


def is_closed(schema: JsonValue) -> bool:
    """Whether every object in a schema names all its fields, requires them, and allows no others."""
    if isinstance(schema, Mapping):
        if "properties" in schema or schema.get("type") == "object":
            known = object_or_empty(schema.get("properties"))
            required = list_or_empty(schema.get("required"))
            if schema.get("additionalProperties") is not False or set(required) != set(known):
                return False
        return all(map(is_closed, schema.values()))
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return all(map(is_closed, schema))
    return True
