"""Tools that a schema describes and no signature does, and the port that offers them.

To the rest of the framework such a tool is a function like any other: marked, with an interface, and an effect of the
run that it is called in. It belongs to a remote server, or to the caller of the run: then it is deferred, the run waits
for the caller's result, and everything about the tool is untrusted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from inspect import iscoroutinefunction, signature
from types import FunctionType
from typing import Any, cast

from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor, ToolBinding
from pilotage.agent.tools.declare import AgentToolDefinition, ToolOptions, as_tool
from pilotage.agent.tools.schema import AgentToolIdentity, AgentToolSchemaHandle, ToolInterface, use_interface
from pilotage.agent.tools.signature import RUNTIME_CONTEXT, InjectedParameter, ToolParameter
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.schema.records import NoDefault, UnknownDefault
from pilotage.schema.shape import CoreSchema
from pilotage.schema.validation import core_of_json

DESCRIPTOR_SLOT = "__pilotage_agent_tool_descriptor__"
_RETURNS_MEDIA = "__pilotage_returns_media__"
_VERSION = "__pilotage_tool_version__"
BY_NAME = "arguments_by_name"
"""The parameter under which a described tool takes all of its arguments."""

_NO_OUTPUT: JsonObject = {}


def described_tool(
    act: Callable[..., Awaitable[JsonValue]],
    options: ToolOptions,
    *,
    owner: type,
    input_schema: JsonObject,
    output_schema: JsonObject = _NO_OUTPUT,
    input_sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = (),
    output_sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = (),
    deferred: bool = False,
    returns_media: bool = False,
    version: str | None = None,
) -> AgentToolDescriptor:
    """Return a tool for a catalog: `act(arguments)` carries a call out and gives JSON.

    `options` are those of `@agent_tool`; the name is needed. `owner` is the provider's class: with the name it
    identifies the tool across restarts. A second parameter `runtime_context` of `act` is filled with the idempotency
    key, the attempt and the deadline of the call. A `deferred` tool is carried out outside of the application, and its
    arguments are checked there. With `returns_media` a result may also be a list of texts and media. An approval of a
    call covers the `version` of the tool and no other one. The description, the results and the failures of a described
    tool are untrusted, unless its options say `reads_untrusted=False`.

    Raises:
        AgentDefinitionError: the name, the schema or an option is wrong.
    """
    label = f"{owner.__name__}.{options.name or '?'}"
    properties = _checked(label, act, options, input_schema)
    name = cast(str, options.name)
    schema_name = options.schema_name or name
    takes_context = _takes_context(act)
    if options.reads_untrusted is None:
        options = replace(options, reads_untrusted=True)
    definition = AgentToolDefinition(
        name, schema_name, options.description, options.metadata(deferred=deferred)
    )
    tool = as_tool(_calling(act, takes_context=takes_context), definition)
    interface = ToolInterface(
        label=label,
        parameters=tuple(ToolParameter(each, object, UnknownDefault(), True) for each in properties),
        injected=(InjectedParameter(RUNTIME_CONTEXT, None, NoDefault()),) if takes_context else (),
        input_schema=dict(input_schema),
        output_schema=dict(output_schema),
        core_schema=_core_schema(input_schema, deferred=deferred),
        input_sensitive_fields=input_sensitive_fields,
        output_sensitive_fields=output_sensitive_fields,
        may_be_strict=_is_closed(input_schema, properties),
    )
    use_interface(tool, interface)
    descriptor = AgentToolDescriptor(
        identity=AgentToolIdentity(owner.__module__, owner.__qualname__, name),
        owner=owner,
        callable=tool,
        schema=_handle_of(schema_name, interface),
        description=options.description,
        metadata=definition.metadata,
        binding=ToolBinding.NOTHING,
    )
    tool.__dict__[DESCRIPTOR_SLOT] = descriptor
    tool.__dict__.update({_RETURNS_MEDIA: returns_media, _VERSION: version})
    return descriptor


def _handle_of(name: str, interface: ToolInterface) -> AgentToolSchemaHandle:
    """Return the schemas of an interface under the name that models see."""
    input_name, output_name = f"{name}.input", f"{name}.output"
    return AgentToolSchemaHandle(
        name=name,
        input_schema_name=input_name,
        output_schema_name=output_name,
        input_schema={**interface.input_schema, "title": input_name},
        output_schema={**interface.output_schema, "title": output_name},
        input_sensitive_fields=interface.input_sensitive_fields,
        output_sensitive_fields=interface.output_sensitive_fields,
    )


def described(function: object) -> AgentToolDescriptor | None:
    """Return the descriptor of a tool that a schema describes; None for every other function."""
    found: object = getattr(function, DESCRIPTOR_SLOT, None)
    return found if isinstance(found, AgentToolDescriptor) else None


def described_version(function: object) -> str | None:
    """Return the version of a described tool, as its provider names it; None for every other function."""
    found: object = getattr(function, _VERSION, None)
    return found if isinstance(found, str) else None


def may_return_media(function: object) -> bool:
    """Return whether the results of a described tool may be texts and media."""
    return getattr(function, _RETURNS_MEDIA, False) is True


def _calling(act: Callable[..., Awaitable[JsonValue]], *, takes_context: bool) -> FunctionType:
    """Return the function of the tool: it takes what the schema names, and hands it over as one object."""

    async def call(**arguments_by_name: Any) -> Any:
        given = dict(arguments_by_name)
        context = given.pop(RUNTIME_CONTEXT, None)
        return await (act(given, context) if takes_context else act(given))

    # What comes back is JSON, whatever it is: there is no type to read it by.
    del call.__annotations__["return"]
    return cast(FunctionType, call)


def _core_schema(input_schema: JsonObject, *, deferred: bool) -> CoreSchema:
    """Return the schema that checks arguments; the caller checks those of a deferred call."""
    if deferred:
        return {"type": "dict", "keys_schema": {"type": "str"}}
    return core_of_json({"properties": {}, **input_schema, "type": "object"})


def _checked(label: str, act: object, options: ToolOptions, schema: JsonObject) -> list[str]:
    options.reject_what_is_wrong(label)
    if options.name is None:
        raise AgentDefinitionError("described_tool has no name. Give it one: ToolOptions(name=...).")
    if not _is_async(act):
        raise AgentDefinitionError(
            f"{label}: what carries a described tool out must be async. Write: async def ..."
        )
    if options.reconcile is not None:
        raise AgentDefinitionError(
            f"{label}: a described tool has no method to reconcile by. Leave reconcile out, and let it take a "
            f"{RUNTIME_CONTEXT} with the idempotency key."
        )
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise AgentDefinitionError(
            f"{label}: the input schema of a tool describes an object, by its properties."
        )
    if RUNTIME_CONTEXT in properties:
        raise AgentDefinitionError(
            f"{label}: the input schema has a property {RUNTIME_CONTEXT!r}, which the runtime fills. Rename it."
        )
    return list(properties)


def _is_closed(schema: JsonObject, properties: list[str]) -> bool:
    """Return whether a schema is one for strict servers: every property required, no others."""
    required = set(list_or_empty(schema.get("required")))
    return schema.get("additionalProperties") is False and required == set(properties)


def _is_async(act: object) -> bool:
    return iscoroutinefunction(act) or iscoroutinefunction(getattr(act, "__call__", None))  # noqa: B004


def _takes_context(act: Callable[..., object]) -> bool:
    return RUNTIME_CONTEXT in signature(act).parameters


class IAgentToolProvider(ABC):
    """Offers tools to the agents it is injected into.

    Tools are made with `described_tool`. The catalog is read when the agent is made, when the application has started,
    and before each attempt at a run, which keeps it to its end. A provider whose tools change returns another catalog
    then, and the same one otherwise; names and schemas are part of what a run records.
    """

    @property
    @abstractmethod
    def tool_catalog(self) -> AgentToolCatalog:
        """The tools on offer."""
