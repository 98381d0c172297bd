"""What all runs of one declarative agent have in common: its loop, its model, its tools. Worked out once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.agent.tools.catalog import discover_agent_tools
from pilotage.agent.tools.deferred import deferred_tool
from pilotage.errors import CallerError
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.runtime.architecture.tools import BoundTool, ToolOffer
from pilotage.runtime.catalogs import provided_tools
from pilotage.runtime.children.delegation import teammates_of
from pilotage.runtime.door.capabilities import models_held_by
from pilotage.runtime.services import Services
from pilotage.values import value

_BLUEPRINT = "__pilotage_blueprint__"


@value
class Blueprint:
    """One agent of one application, ready to be run. `model` is the one it injects; without one the application's."""

    services: Services
    instructions: str
    architecture: Architecture
    model: IAgentModel | None
    offer: ToolOffer
    output: StructuredOutputSpec | None


def blueprint_of(definition: AgentDefinition, instance: object, services: Services) -> Blueprint:
    """The blueprint of an agent, kept with the agent itself.

    Raises:
        AgentDefinitionError: nobody knows the loop or a teammate it names.
    """
    known: Blueprint | None = getattr(instance, _BLUEPRINT, None)
    if known is not None and known.services is services:
        return known
    spec = definition.spec
    drawn = Blueprint(
        services,
        definition.instructions or "",
        find_architecture(spec.architecture),
        next(iter(models_held_by(instance)), None),
        ToolOffer.of(_tools_held_by(instance), teammates_of(spec, services.definition_of)),
        _output_of(spec.output_type),
    )
    object.__setattr__(instance, _BLUEPRINT, drawn)
    return drawn


def _tools_held_by(instance: object) -> Sequence[BoundTool]:
    """The tools that an agent offers: its own, those of the pods it holds, each pod once, and of their catalogs."""
    owners = {id(owner): owner for owner in (instance, *vars(instance).values())}
    return [*(tool for owner in owners.values() for tool in _tools_of(owner)), *provided_tools(instance)]


def _tools_of(owner: object) -> list[BoundTool]:
    kind: type = type(owner)
    tools: list[BoundTool] = [getattr(owner, name) for name in _tool_names(kind)]
    return tools


@lru_cache(maxsize=1024)
def _tool_names(owner: type) -> tuple[str, ...]:
    """The attributes of a class that are tools; nothing of the standard library has any."""
    if owner.__module__ == "builtins":
        return ()
    # By identity: what else a class holds may be anything, and need not be hashable.
    tools = {id(descriptor.callable) for descriptor in discover_agent_tools(owner).descriptors}
    return tuple(name for name in dir(owner) if tools and id(_function(owner, name)) in tools)


def _function(owner: type, name: str) -> object:
    member: object = inspect.getattr_static(owner, name, None)
    return getattr(member, "__func__", member)


@lru_cache(maxsize=256)
def _output_of(output_type: object) -> StructuredOutputSpec | None:
    return StructuredOutputSpec.from_type(output_type) if output_type is not None else None


def can_wait_for_callers(definition: AgentDefinition) -> bool:
    """Whether runs of an agent can be given tools that their callers carry out."""
    return definition.is_declarative and definition.spec.is_durable


def deferred_tools_of(
    services: Services, definition: AgentDefinition, given: Sequence[ModelToolSpec]
) -> tuple[ModelToolSpec, ...]:
    """The tools that come with an input, each one that a model can be offered.

    Raises:
        AgentDefinitionError: a name or a schema is wrong.
        CallerError: the agent cannot wait for its callers, or has a tool of that name itself.
    """
    if not can_wait_for_callers(definition):
        raise CallerError(
            f"agent {definition.agent_id!r} cannot wait for tools that its caller carries out: that takes runs which "
            "are kept, and a loop that a model drives. Leave the tools out."
        )
    known = set(_names(blueprint_of(definition, services.instance_of(definition), services).offer))
    for tool in given:
        if tool.name in known:
            raise CallerError(
                f"the input brings a tool {tool.name!r}, and there is one of that name already. Rename it."
            )
        known.add(tool.name)
        deferred_tool(tool)
    return tuple(given)


def with_deferred(offer: ToolOffer, tools: Sequence[ModelToolSpec]) -> ToolOffer:
    """The offer with the tools of the caller; where the agent got one of the same name meanwhile, that one counts."""
    known = set(_names(offer))
    more = [deferred_tool(tool).callable for tool in tools if tool.name not in known]
    return ToolOffer.of([*offer.tools, *more], offer.teammates) if more else offer


def _names(offer: ToolOffer) -> list[str]:
    return [tool.name for tool in offer.calling.tools] if offer.calling is not None else []
