"""What all runs of one declarative agent have in common: its loop, its model, its tools. Worked out once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tools.catalog import discover_agent_tools
from pilotage.runtime.scoped.architecture_registry import find_architecture
from pilotage.runtime.scoped.teammates import teammates_of
from pilotage.runtime.scoped.tools import BoundTool, Offer
from pilotage.runtime.service.catalogs import provided_tools
from pilotage.runtime.service.fitness import models_held_by
from pilotage.runtime.service.services import Services
from pilotage.values import value

_BLUEPRINT = "__pilotage_blueprint__"


@value
class Blueprint:
    """One agent of one application, ready to be run. `model` is the one it injects; without one the application's."""

    services: Services
    instructions: str
    architecture: Architecture
    model: IAgentModel | None
    offer: Offer
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
        Offer.of(_tools_held_by(instance), teammates_of(spec, services.definition_of)),
        _output_of(spec.output_type),
    )
    object.__setattr__(instance, _BLUEPRINT, drawn)
    return drawn


def _tools_held_by(instance: object) -> Sequence[BoundTool]:
    """The tools that an agent offers: its own, those of the pods it holds, each pod once, and of their catalogs."""
    owners = {id(owner): owner for owner in (instance, *vars(instance).values())}
    return [*(tool for owner in owners.values() for tool in _tools_of(owner)), *provided_tools(instance)]


def _tools_of(owner: object) -> list[BoundTool]:
    return [cast(BoundTool, getattr(owner, name)) for name in _tool_names(cast(type, type(owner)))]


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
