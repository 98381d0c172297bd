"""Tools of pods as agents of their own: each call is a run of one action, through the door like any other."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, cast

from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.stereotype import Agent
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.signature import read_signature
from pilotage.errors import AgentDefinitionError, AgentToolDispatchError
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.tool_binding import Invocation, offered_tool
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.journal.scope import current_place
from pilotage.schema.records import KnownDefault

_TOOL = "__pilotage_exported_tool__"


def exported_tools(owner: type[object], *names: str, durable: bool | None = None) -> list[type[object]]:
    """Return an agent for each tool of a pod, or for the named ones: `app.add(Bank, *exported_tools(Bank, "pay"))`.

    A run of such an agent calls its tool once. It has the name, the description, the parameters and the result of the
    tool; permissions, approval, budgets and the journal hold as in any other run. By default runs are durable, unless
    the tool only reads.

    Raises:
        AgentDefinitionError: the class has no such tool, or none at all.
    """
    found = {each.schema.name: each for each in discover_agent_tools(owner).descriptors}
    if missing := [each for each in names if each not in found]:
        known = ", ".join(map(repr, found)) or "none"
        raise AgentDefinitionError(
            f"{owner.__name__} has no tool {', '.join(map(repr, missing))}. It has {known}."
        )
    if not found:
        raise AgentDefinitionError(
            f"{owner.__name__} has no tools to export. Mark a method with @agent_tool."
        )
    return [_agent_for(owner, found[each], durable) for each in names or found]


def exported_tool_of(agent: type[object]) -> AgentToolDescriptor | None:
    """Return the tool that the runs of an agent call; None for every other agent."""
    found: object = getattr(agent, _TOOL, None)
    return found if isinstance(found, AgentToolDescriptor) else None


def _agent_for(owner: type[object], tool: AgentToolDescriptor, durable: bool | None) -> type[object]:
    if durable is None:
        durable = not tool.metadata.is_read_only
    name = "".join(each.title() for each in tool.name.split("_")) + "OfClients"
    members = {
        "__doc__": tool.description,
        "__module__": owner.__module__,
        "__init__": _constructor(owner),
        "execute": _execute(tool),
        _TOOL: tool,
    }
    spec = AgentExecutionSpec(name=tool.schema.name, objective=tool.description)
    return cast("type[object]", Agent(spec=spec, durable=durable)(type(name, (), members)))


def _constructor(owner: type[object]) -> Any:
    def constructor(self: Any, owner: Any) -> None:
        self.owner = owner

    constructor.__annotations__ = {"owner": owner, "return": None}
    return constructor


def _execute(tool: AgentToolDescriptor) -> Any:
    """Return an `execute()` with the parameters and the result of a tool."""

    method = cast("Any", tool.callable).__name__

    async def execute(self: Any, **arguments: Any) -> Any:
        place = current_place()
        if place is None or not isinstance(calls := place.calls, ToolCalls):
            raise AgentToolDispatchError(f"{tool.schema.name!r} is called in a run. Start one.")
        known, owner = offered_tool(getattr(self.owner, method))
        complete = known.parameters.with_defaults(arguments)
        return await perform(
            calls.run, calls.prepared(Invocation(known, owner, complete, True, arguments.keys()))
        )

    signature = read_signature(cast("Any", tool.callable))
    parameters = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            annotation=each.annotation,
            default=each.default.value if isinstance(each.default, KnownDefault) else Parameter.empty,
        )
        for each in signature.parameters
    ]
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    execute.__annotations__ = {
        **{each.name: each.annotation for each in parameters},
        "return": signature.returns,
    }
    cast("Any", execute).__signature__ = Signature([own, *parameters], return_annotation=signature.returns)
    return execute
