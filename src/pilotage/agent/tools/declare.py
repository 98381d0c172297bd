"""`agent_tool`: marks a typed function or method as a tool and keeps what it declares."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import field
from types import FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

from pilotage.agent.tools.active import active_tool_calls
from pilotage.agent.tools.docstring import read_docstring
from pilotage.agent.tools.metadata import AgentToolMetadata
from pilotage.agent.tools.options import ToolOptions, takes_options_of
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

DEFINITION_SLOT = "__pilotage_agent_tool_definition__"


@value
class AgentToolDefinition:
    """What a function declared when it became a tool."""

    name: str
    schema_name: str
    description: str | None = None
    metadata: AgentToolMetadata = field(default_factory=AgentToolMetadata)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, schema_name=self.schema_name, description=self.description)


@takes_options_of(ToolOptions)
def agent_tool(tool: object = None, /, **options: Any) -> object:
    """Offer a typed function or method to the model; its signature is the schema.

    The result is a plain function of the same signature. Outside a run, calling it calls the function;
    inside one, the run performs the call. The options are the fields of `ToolOptions`.

    Raises:
        AgentDefinitionError: a value is blank or of the wrong type, or this is not a function.
    """
    declared = ToolOptions(**options)
    if tool is not None:
        return _declare(tool, declared)

    def decorate(function: object, /) -> object:
        return _declare(function, declared)

    return decorate


def get_agent_tool_definition(function: object) -> AgentToolDefinition | None:
    """What `function` declared, or None when it is not a tool.

    Raises:
        AgentDefinitionError: the place of the definition holds something else.
    """
    members: dict[str, object] = getattr(function, "__dict__", {})
    found = members.get(DEFINITION_SLOT)
    if found is None or isinstance(found, AgentToolDefinition):
        return found
    raise AgentDefinitionError(
        f"{tool_label(function)}: {DEFINITION_SLOT} holds {type(found).__qualname__}, not an "
        "AgentToolDefinition. Declare the tool with @agent_tool and leave that attribute alone."
    )


# By identity, because decorators that copy attributes would copy a mark as well.
_originals: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()


def original_function(tool: Callable[..., object]) -> Callable[..., object]:
    """The function behind a tool, unbound; calling it never goes through a run."""
    plain: Callable[..., object] = getattr(tool, "__func__", tool)
    return _originals.get(plain, plain) if isinstance(plain, FunctionType) else plain


def reject_covered_tool(function: Callable[..., object]) -> None:
    """Refuse a tool under another decorator: a run could not reach the function without the tool."""
    if original_function(function) is function:
        raise AgentDefinitionError(
            f"{tool_label(function)} is a tool under another decorator. Put @agent_tool on top of it."
        )


def tool_label(function: object) -> str:
    """How messages call a function or property: `Owner.method`."""
    function = getattr(function, "fget", function)
    name: str = getattr(function, "__qualname__", None) or repr(function)
    return name.rpartition("<locals>.")[2]


def _declare(tool: object, options: ToolOptions) -> object:
    function: object = getattr(tool, "__func__", tool)
    if isinstance(tool, staticmethod):
        return staticmethod(_wrap(function, options))
    if isinstance(tool, classmethod):
        return classmethod(_wrap(function, options))
    return _wrap(tool, options)


def _wrap(function: object, options: ToolOptions) -> Callable[..., object]:
    if not isinstance(function, FunctionType):
        kind = "class" if isinstance(function, type) else type(function).__name__
        raise AgentDefinitionError(
            f"@agent_tool marks {tool_label(function)}, which is a {kind}. Put it on a function or a method."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise AgentDefinitionError(
            f"{tool_label(function)} is a generator. A tool has one result: return it, as a list if need be."
        )
    if get_agent_tool_definition(function) is not None:
        raise AgentDefinitionError(f"{tool_label(function)} is a tool already. Put @agent_tool on it once.")
    return as_tool(function, _definition_of(function, options))


def as_tool(function: FunctionType, definition: AgentToolDefinition) -> Callable[..., object]:
    """The function as a tool: inside a run, calling it is an action of the run."""

    @functools.wraps(function)
    def tool(*args: Any, **kwargs: Any) -> object:
        calls = active_tool_calls.get()
        if calls is None:
            return function(*args, **kwargs)
        return calls.call(tool, args, kwargs)

    if sys.version_info >= (3, 12) and inspect.iscoroutinefunction(function):
        inspect.markcoroutinefunction(tool)
    tool.__dict__[DEFINITION_SLOT] = definition
    _originals[cast(FunctionType, tool)] = function
    return tool


def _definition_of(function: FunctionType, options: ToolOptions) -> AgentToolDefinition:
    options.reject_what_is_wrong(tool_label(function))
    name = options.name or function.__name__
    return AgentToolDefinition(
        name=name,
        schema_name=options.schema_name or name,
        description=options.description or read_docstring(function).summary,
        metadata=options.metadata(),
    )
