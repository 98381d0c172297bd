"""Agents of an application as MCP tools: names, schemas, hints, the input of a call, the structure of a result. Pure.

A tool takes an object and gives an object, so that clients of both eras of the protocol can use it: an input or an
output of another type is the only member of one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from pilotage.adapters.mcp_server.exports import McpExports, McpTasks
from pilotage.adapters.mcp_server.forms import McpForm, input_with_forms, refuse_unfit_agent
from pilotage.adapters.mcp_server.tool_agents import exported_tool_of
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.media_places import mentions_media
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.tools.metadata import AgentToolMetadata, Idempotency
from pilotage.errors import AgentDefinitionError, PilotageError
from pilotage.inbound.agents import agents_in
from pilotage.jsonvalue import JsonObject, JsonValue, is_list, is_object
from pilotage.runtime.services import Services
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.values import value

KEY = "io.pilotage/idempotency-key"
"""The name in `_meta` of a call: the key of its caller."""
HONOURS_KEY = "io.pilotage/honours-idempotency-key"
"""The name in `_meta` of a listed tool: whether a call with the key of an earlier one is that call again."""

INSTRUCTION, RESULT = "instruction", "result"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DEFS, _REF = "$defs", "#/$defs/"
_OBJECT = "object"


@value(slots=False)
class ServedTool:
    """An agent as a tool. `parameter` is the one that takes the whole input, where it is an object itself."""

    definition: AgentDefinition
    tool: types.Tool
    tasks: McpTasks
    parameter: str | None = None
    is_wrapped: bool = True
    has_output: bool = True
    forms: Sequence[McpForm] = ()

    def input_of(self, arguments: Mapping[str, Any]) -> Any:
        """Return the input of a run, of the arguments of a call, with the forms that the run may ask for.

        Raises:
            AgentDefinitionError: there is no instruction, or something beside it.
        """
        return input_with_forms(self.definition, self._given_by(arguments), self.forms)

    def _given_by(self, arguments: Mapping[str, Any]) -> Any:
        if self.definition.is_declarative:
            if set(arguments) != {INSTRUCTION} or not isinstance(arguments[INSTRUCTION], str):
                raise AgentDefinitionError(
                    f"{self.tool.name!r} takes {INSTRUCTION!r}, a text, and nothing else."
                )
            return arguments[INSTRUCTION]
        return dict(arguments) if self.parameter is None else {self.parameter: dict(arguments)}

    def structure_of(self, output: JsonValue) -> Any:
        """Return the structured content of an output; None for a tool without."""
        if not self.has_output:
            return None
        return {RESULT: output} if self.is_wrapped else output


class Catalog:
    """The tools of an application, by name."""

    def __init__(self, services: Services, exports: McpExports) -> None:
        self.is_durable = services.app.contains(IAgentJournal)
        """Whether runs are stored: then they outlive their process, and the caller that started them."""
        found = [_offered(each, exports, is_durable=self.is_durable) for each in _chosen(services, exports)]
        self._tools = {each.tool.name: each for each in found}
        self._by_agent = {each.definition.agent_id: each for each in found}

    @property
    def tools(self) -> Sequence[types.Tool]:
        """The tools as clients list them."""
        return [each.tool for each in self._tools.values()]

    @property
    def offered(self) -> Sequence[ServedTool]:
        """All offered tools."""
        return list(self._tools.values())

    def tool(self, name: str) -> ServedTool | None:
        """Return the tool of a name."""
        return self._tools.get(name)

    def of_agent(self, agent_type: str) -> ServedTool | None:
        """Return the tool whose runs are of this agent."""
        return self._by_agent.get(agent_type)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments."""
        found = self.tool(name)
        return None if found is None else found.tool.input_schema


def _chosen(services: Services, exports: McpExports) -> Sequence[AgentDefinition]:
    if exports.agents is None:
        return agents_in(services.app.graph)
    return [services.definition_of(each) for each in exports.agents]


def _offered(definition: AgentDefinition, exports: McpExports, *, is_durable: bool) -> ServedTool:
    name = definition.agent_id
    if _NAME.fullmatch(name) is None:
        raise AgentDefinitionError(
            f"agent {name!r} has a name that no MCP tool can have. Use up to 64 letters, digits, '.', '-' and '_', "
            "or leave the agent out: McpExports(agents=[...])."
        )
    schema, parameter = _input_of(definition)
    output = _schema_of(output_type_of(definition))
    structure = None if mentions_media(output) or _is_hidden(definition) else output
    is_whole = structure is not None and structure.get("type") == _OBJECT
    if structure and not is_whole:
        structure = _wrapped({RESULT: structure}, [RESULT])
    tool = types.Tool(
        name=name,
        description=_description(definition),
        input_schema=schema,
        output_schema=structure or None,
        annotations=_hints(definition),
        _meta={HONOURS_KEY: is_durable},
    )
    return ServedTool(
        definition,
        tool,
        _mode(definition, exports) if is_durable else McpTasks.NEVER,
        parameter,
        is_wrapped=not is_whole,
        has_output=bool(structure),
        forms=_forms_of(definition, exports),
    )


def _forms_of(definition: AgentDefinition, exports: McpExports) -> Sequence[McpForm]:
    named = (definition.agent_id, definition.target)
    forms = next((forms for each, forms in exports.forms.items() if each in named), ())
    if forms:
        refuse_unfit_agent(definition)
    return forms


def _mode(definition: AgentDefinition, exports: McpExports) -> McpTasks:
    named = (definition.agent_id, definition.target)
    return next((mode for each, mode in exports.tasks.items() if each in named), McpTasks.WHEN_SLOW)


def _description(definition: AgentDefinition) -> str:
    """Return what an agent is for: its objective, else its docstring.

    Of an agent whose docstring is the instructions of its model, it is the first line: the rest is not for callers.
    """
    words = inspect.cleandoc(definition.target.__doc__ or "")
    if definition.is_declarative:
        words = words.partition("\n")[0]
    return definition.spec.objective or words or definition.agent_id


def _input_of(definition: AgentDefinition) -> tuple[dict[str, Any], str | None]:
    """Return the schema of the arguments, and the only parameter if they are its members."""
    contract = definition.execution
    if contract is None:
        words = {"type": "string", "minLength": 1, "description": "What the agent is asked, in words."}
        return _wrapped({INSTRUCTION: words}, [INSTRUCTION]), None
    members = {name: _schema_of(type_) for name, type_ in contract.parameters.items()}
    if len(members) == 1:
        ((name, only),) = members.items()
        if only.get("type") == _OBJECT and "properties" in only:
            return only, name
    return _wrapped(members, contract.required), None


def _wrapped(members: Mapping[str, Mapping[str, Any]], required: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an object with these members; the definitions of all of them are at its root."""
    schema: dict[str, Any] = {"type": _OBJECT, "properties": {}, "required": list(required)}
    definitions: dict[str, Any] = {}
    for name, member in members.items():
        own = dict(member)
        renamed = {each: _free_name(each, found, definitions) for each, found in own.pop(_DEFS, {}).items()}
        for each, found in dict(member).get(_DEFS, {}).items():
            definitions[renamed[each]] = _referring(found, renamed)
        schema["properties"][name] = _referring(own, renamed)
    schema["additionalProperties"] = False
    return {**schema, _DEFS: definitions} if definitions else schema


def _free_name(name: str, found: Any, taken: Mapping[str, Any]) -> str:
    """Return a name for a definition that no other one has."""
    while name in taken and taken[name] != found:
        name = f"{name}_"
    return name


def _referring(schema: object, renamed: Mapping[str, str]) -> Any:
    """Return a schema with its references to definitions under their new names."""
    if is_object(schema):
        return {name: _renamed(name, each, renamed) for name, each in schema.items()}
    return [_referring(each, renamed) for each in schema] if is_list(schema) else schema


def _renamed(name: str, member: object, renamed: Mapping[str, str]) -> Any:
    if name != "$ref" or not isinstance(member, str) or not member.startswith(_REF):
        return _referring(member, renamed)
    own = member.removeprefix(_REF)
    return f"{_REF}{renamed.get(own, own)}"


def output_type_of(definition: AgentDefinition) -> object:
    """Return the type of the result of an agent; a text where it declares none."""
    declared = definition.spec.output_type
    if declared is None and definition.execution is not None:
        declared = definition.execution.output_type
    return str if declared is None else declared


def _schema_of(type_: object) -> dict[str, Any]:
    """Return the schema of a type with the definition it refers to in place; an empty one where it has none."""
    try:
        schema: JsonObject = StructuredOutputSpec.from_type(type_).constraint.schema
    except PilotageError:
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str) and isinstance(definitions := schema.get(_DEFS), Mapping):
        target = definitions.get(reference.removeprefix(_REF))
        if isinstance(target, Mapping):
            return {**{name: each for name, each in schema.items() if name != "$ref"}, **target}
    return dict(schema)


def _is_hidden(definition: AgentDefinition) -> bool:
    """Return whether a reader may get another value than the output: then it need not fit a schema."""
    spec = definition.spec
    sensitive = find_sensitive_fields(output_type_of(definition))
    return bool(sensitive) or spec.redaction is not None or spec.output_guard is not None


def _hints(definition: AgentDefinition) -> types.ToolAnnotations | None:
    tool = exported_tool_of(definition.target)
    return None if tool is None else _hints_of(tool.metadata)


def _hints_of(metadata: AgentToolMetadata) -> types.ToolAnnotations:
    effects = metadata.effects
    return types.ToolAnnotations(
        read_only_hint=metadata.is_read_only,
        destructive_hint=effects.destructive,
        idempotent_hint=metadata.idempotency is Idempotency.IDEMPOTENT or metadata.is_read_only,
        open_world_hint=effects.network,
    )
