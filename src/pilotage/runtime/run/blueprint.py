"""What all runs of one declarative agent have in common: its loop, its models, its tools. Worked out once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.model import IAgentModel, ModelSelection
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.agent.tools.catalog import discover_agent_tools
from pilotage.agent.tools.deferred import deferred_tool
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import One
from pilotage.errors import CallerError, ModelNotFoundError, PodNotFoundError, Problem, start_error
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.runtime.architecture.tools import BoundTool, ToolOffer
from pilotage.runtime.catalogs import provided_tools
from pilotage.runtime.children.delegation import teammates_of
from pilotage.runtime.door.model import misfits, models_held_by
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


class ModelCheck(ILifecycle):
    """Refuses the start where a model cannot do what its agent asks of it.

    It starts behind all others: an adapter may know what its model can do only when it has asked the server.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def start(self) -> None:
        """Check the agents that models drive.

        Raises:
            AgentModelConfigurationError: with everything that does not fit.
        """
        app = self._services.app
        graph = app.graph
        problems = [
            problem
            for node in graph.nodes
            if isinstance(node.pod, AgentDefinition) and node.pod.is_declarative and node.is_eager
            for problem in self._problems_of(node.pod, graph)
        ]
        if problems:
            raise start_error(app.name, problems)

    def _problems_of(self, definition: AgentDefinition, graph: Graph) -> list[Problem]:
        instance = self._services.instance_of(definition)
        model = next(iter(models_held_by(instance)), None) or self._shared_model(graph)
        return [] if model is None else problems_with(model, definition, instance, self._services)

    def _shared_model(self, graph: Graph) -> IAgentModel | None:
        """The model of agents that inject none; one that is not made yet is not made for this."""
        chosen = graph.choose(IAgentModel)
        return self._services.model if isinstance(chosen, One) and chosen.node.is_eager else None


def problems_with(
    model: IAgentModel, definition: AgentDefinition, instance: object, services: Services
) -> list[Problem]:
    """What stands against driving an agent with a model."""
    capability = model.capability
    calling = None if capability.tools else blueprint_of(definition, instance, services).offer.calling
    tools = [tool.name for tool in calling.tools] if calling is not None else []
    return list(misfits(definition, tools, capability))


def selected_model(app: Application, model_ref: str) -> IAgentModel:
    """The model of this name: that of its pod, else the one that the model itself is known by.

    Raises:
        ModelNotFoundError: there is none, or there are several.
    """
    models = {node.name: app.get(IAgentModel, node.name) for node in app.graph.providers(IAgentModel)}
    if model_ref in models:
        return models[model_ref]
    found = [name for name, model in models.items() if model.capability.model == model_ref]
    if len(found) == 1:
        return models[found[0]]
    if found:
        raise ModelNotFoundError(
            f"{', '.join(map(repr, found))} are all called {model_ref!r}. Select one by the name of its pod."
        )
    known = [f"{name!r} ({model.capability.model!r})" for name, model in models.items()]
    raise ModelNotFoundError(
        f"application {app.name!r} has no model {model_ref!r}. It has {', '.join(known) or 'none'}."
    )


def check_driven(services: Services, definition: AgentDefinition) -> None:
    """Refuse a run that no model would drive, before anything of it is written.

    Raises:
        ModelNotFoundError: the application has several models, and nobody says which one.
    """
    if not definition.is_declarative or definition.agent_id in services.driven:
        return
    try:
        services.model_of(services.instance_of(definition))
    except PodNotFoundError as error:
        names = [node.name for node in services.app.graph.providers(IAgentModel)]
        raise ModelNotFoundError(
            f"nobody says which model drives {definition.agent_id!r}: there are {', '.join(map(repr, names))}. Inject "
            "one of them into the agent, or select one: RunAgentInput(model_selection=ModelSelection(...))."
        ) from error
    services.driven.add(definition.agent_id)


def selection_of(services: Services, definition: AgentDefinition, selection: ModelSelection) -> str:
    """The model that an input selects for a run of the agent.

    Raises:
        ModelNotFoundError: the application has no such model.
        CallerError: the agent uses the models it injects, or the model cannot do what the agent asks of it.
    """
    wanted = selection.model_ref
    if not definition.is_declarative:
        raise CallerError(
            f"{definition.target.__name__} has an execute() of its own, which uses the models it injects. "
            f"Leave model_selection={wanted!r} out."
        )
    model = selected_model(services.app, wanted)
    if problems := problems_with(model, definition, services.instance_of(definition), services):
        raise CallerError("\n".join(map(str, problems)))
    return wanted
