"""The tools of a request: what the model is shown of them, and the way from its call to the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from inspect import isawaitable, ismethod, signature
from typing import TypeAlias

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.structured_output import JsonSchemaConstraint
from pilotage.agent.tools.active import active_tool_calls
from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_agent_tool_invocation
from pilotage.agent.tools.declare import get_agent_tool_definition, tool_label
from pilotage.agent.tools.schema import tool_interface
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError, AgentToolDispatchError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.schema.records import NoDefault
from pilotage.values import value

ToolFunction = Callable[..., object]
HiddenArguments: TypeAlias = Mapping[str, Sequence[SensitiveFieldDescriptor]]
_NOTHING_HIDDEN: HiddenArguments = {}


class ModelToolChoice(StrEnum):
    """Whether the model may, must not or must call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@value
class ModelToolSpec:
    """A tool as the model sees it."""

    name: str
    parameters: JsonSchemaConstraint
    description: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, description=self.description)


def _no_functions() -> Mapping[str, ToolFunction]:
    return {}


@value(slots=False)
class ToolCallingSpec:
    """The tools on offer and the choice the model has; `tool_name` forces one tool."""

    tools: Sequence[ModelToolSpec]
    choice: ModelToolChoice = ModelToolChoice.AUTO
    tool_name: str | None = None
    functions: Mapping[str, ToolFunction] = field(default_factory=_no_functions, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        names = [tool.name for tool in self.tools]
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise AgentDefinitionError(
                f"ToolCallingSpec.tools has several tools called {', '.join(map(repr, twins))}. "
                "Name them apart: @agent_tool(schema_name=...)."
            )
        if self.tool_name is not None and self.tool_name not in names:
            offered = ", ".join(map(repr, names)) or "none"
            raise AgentDefinitionError(
                f"ToolCallingSpec.tool_name is {self.tool_name!r}, which is none of its tools ({offered})."
            )

    @classmethod
    def from_tools(
        cls,
        tools: Iterable[ToolFunction],
        *,
        choice: ModelToolChoice = ModelToolChoice.AUTO,
        tool_name: str | None = None,
        strict: bool = True,
    ) -> ToolCallingSpec:
        """The spec of functions and bound methods marked with `@agent_tool`: `from_tools([self.docs.search])`.

        Raises:
            AgentDefinitionError: one of them is no tool, or a method without its instance.
        """
        functions = list(tools)
        specs = [_spec_of(function, strict) for function in functions]
        by_name = {spec.name: function for spec, function in zip(specs, functions, strict=True)}
        return cls(specs, choice, tool_name, by_name)

    @cached_property
    def hidden(self) -> HiddenArguments:
        """By tool, which of its arguments only the tool itself may see; tools without any are left out."""
        found = {name: tool_interface(_plain(each)) for name, each in self.functions.items()}
        return {
            name: tool.input_sensitive_fields for name, tool in found.items() if tool.input_sensitive_fields
        }

    async def invoke(self, call: ModelToolCall) -> object:
        """Call the tool a model asks for. Inside a run the call is an action of the run.

        Raises:
            AgentToolDispatchError: no function of that name is on offer, or it needs what only a run can fill.
            AgentToolBindingError: the arguments do not fit; `problems` has a sentence for each reason.
        """
        function = self.functions.get(call.name)
        if function is None:
            offered = ", ".join(map(repr, self.functions)) or "none"
            raise AgentToolDispatchError(f"there is no tool {call.name!r} on offer ({offered}).")
        bound = bind_agent_tool_invocation(function, call.arguments)
        calls = active_tool_calls.get()
        if calls is not None:
            return await calls.invoke(function, bound.arguments, call.call_id)
        _require_fillable(call.name, bound)
        result = function(**bound.arguments)
        return await result if isawaitable(result) else result


def hidden_arguments(calling: ToolCallingSpec | None) -> HiddenArguments:
    """By tool, which of its arguments only the tool itself may see; tools without any are left out."""
    return calling.hidden if calling is not None else _NOTHING_HIDDEN


def _plain(tool: ToolFunction) -> ToolFunction:
    plain: ToolFunction = getattr(tool, "__func__", tool)
    return plain


def _spec_of(tool: ToolFunction, strict: bool) -> ModelToolSpec:
    function = _plain(tool)
    definition = get_agent_tool_definition(function)
    if definition is None:
        raise AgentDefinitionError(f"{tool_label(tool)} is no tool. Mark it with @agent_tool.")
    if not ismethod(tool) and next(iter(signature(function).parameters), None) == "self":
        raise AgentDefinitionError(
            f"{tool_label(tool)} is a method without its instance. Hand over the method of an instance: "
            f"self.tools.{definition.name}."
        )
    interface = tool_interface(function)
    schema: JsonObject = {"title": f"{definition.schema_name}.input", **interface.input_schema}
    constraint = JsonSchemaConstraint(schema, strict and interface.may_be_strict)
    return ModelToolSpec(definition.schema_name, constraint, definition.description)


def _require_fillable(name: str, bound: AgentToolBoundInvocation) -> None:
    """Secrets and the runtime context are filled by a run; outside one, only a default can take their place."""
    missing = [parameter.name for parameter in bound.injected if isinstance(parameter.default, NoDefault)]
    if missing:
        raise AgentToolDispatchError(
            f"{name!r} needs {', '.join(missing)}, which a run fills, and there is no run here. "
            "Call the method itself and pass them."
        )
