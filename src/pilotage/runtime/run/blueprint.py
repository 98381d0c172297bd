"""The parts that all runs of an agent share, built once: of attempts, of loops, models and tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.ports.budget import IAgentBudget, IAgentPricing
from pilotage.agent.ports.handlers import IAgentContextProvider
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.observability import IAgentTelemetry
from pilotage.agent.safety_checks import hidden_output
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.tools.catalog import discover_agent_tools
from pilotage.agent.tools.deferred import deferred_tool
from pilotage.container.graph import Graph, One
from pilotage.errors import AgentModelConfigurationError, CallerError, Problem, start_error
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.runtime.architecture.tool_search import ToolSearchSettings, searched_of
from pilotage.runtime.architecture.tools import BoundTool, ToolOffer
from pilotage.runtime.catalogs import PROVIDED
from pilotage.runtime.children.delegation import Teammate, teammates_of
from pilotage.runtime.door.hooks import Hooks
from pilotage.runtime.door.model import misfits, models_held_by
from pilotage.runtime.door.run import Admission, Run
from pilotage.runtime.exposure.modes import AT_ONCE, OPEN_EXPOSURE, Exposure
from pilotage.runtime.exposure.redactor import NO_REDACTOR, Redactor
from pilotage.runtime.run.cancel import Cleanup
from pilotage.runtime.run.ending import EndingPolicy
from pilotage.runtime.services import Services
from pilotage.values import value

_BLUEPRINT = "__pilotage_blueprint__"


@value
class Blueprint:
    """One agent of one application, ready to run. `model` is the injected one; None for the application's model."""

    services: Services
    instructions: str
    architecture: Architecture
    model: IAgentModel | None
    offer: ToolOffer
    output: StructuredOutputSpec | None
    shields: bool
    """Whether its loop may cancel calls: then those that may not be repeated are protected."""
    provided: Sequence[BoundTool] = ()
    """The tools of its providers, as they were when it was built."""


def blueprint_of(definition: AgentDefinition, instance: object, services: Services) -> Blueprint:
    """Return the blueprint of an agent, cached on its instance while its providers have the same tools.

    Raises:
        AgentDefinitionError: the agent's architecture or a teammate is not registered.
    """
    provided: Sequence[BoundTool] = ()
    if hasattr(instance, PROVIDED) and (found := services.catalogs.provided(instance)) is not None:
        provided = found.tools
    known: Blueprint | None = getattr(instance, _BLUEPRINT, None)
    if known is not None and known.services is services and known.provided is provided:
        return known
    spec = definition.spec
    architecture = find_architecture(spec.architecture)
    created = Blueprint(
        services=services,
        instructions=definition.instructions or "",
        architecture=architecture,
        model=next(iter(models_held_by(instance)), None),
        offer=_offer_of(
            _tools_held_by(instance), provided, teammates_of(spec, services.definition_of), services
        ),
        output=_output_of(spec.output_type),
        shields=getattr(architecture, "cancels_calls", True),
        provided=provided,
    )
    object.__setattr__(instance, _BLUEPRINT, created)
    return created


def _offer_of(
    held: Sequence[BoundTool],
    provided: Sequence[BoundTool],
    teammates: Mapping[str, Teammate],
    services: Services,
) -> ToolOffer:
    """Return the offer of an agent's tools; of many tools of providers only a search is shown."""
    if not provided:
        return ToolOffer.of(held, teammates)
    settings = services.app.get_or_none(ToolSearchSettings) or ToolSearchSettings()
    return ToolOffer.of([*held, *provided], teammates, searched=searched_of(provided, settings))


def _tools_held_by(instance: object) -> Sequence[BoundTool]:
    """Return the tools of an agent: its own, and those of its injected pods, each pod once."""
    owners = {id(owner): owner for owner in (instance, *vars(instance).values())}
    return [tool for owner in owners.values() for tool in _tools_of(owner)]


def _tools_of(owner: object) -> list[BoundTool]:
    kind: type = type(owner)
    tools: list[BoundTool] = [getattr(owner, name) for name in _tool_names(kind)]
    return tools


@lru_cache(maxsize=1024)
def _tool_names(owner: type) -> tuple[str, ...]:
    """Return the names of a class's attributes that are tools; built-in types have none."""
    if owner.__module__ == "builtins":
        return ()
    # By identity: other attributes of a class may not be hashable.
    tools = {id(descriptor.callable) for descriptor in discover_agent_tools(owner).descriptors}
    return tuple(name for name in dir(owner) if tools and id(_function(owner, name)) in tools)


def _function(owner: type, name: str) -> object:
    member: object = inspect.getattr_static(owner, name, None)
    return getattr(member, "__func__", member)


@lru_cache(maxsize=256)
def _output_of(output_type: object) -> StructuredOutputSpec | None:
    return StructuredOutputSpec.from_type(output_type) if output_type is not None else None


def can_wait_for_callers(definition: AgentDefinition) -> bool:
    """Return whether runs of an agent accept tools that their callers carry out."""
    return definition.spec.is_durable


def deferred_tools_of(
    services: Services, definition: AgentDefinition, given: Sequence[ModelToolSpec]
) -> tuple[ModelToolSpec, ...]:
    """Return the deferred tools of an input, after checking that a model can be offered each.

    Raises:
        AgentDefinitionError: a name or a schema is wrong.
        CallerError: the agent cannot wait for its callers, or has a tool of the same name.
    """
    if not can_wait_for_callers(definition):
        raise CallerError(
            f"agent {definition.agent_id!r} cannot wait for tools that its caller carries out: that takes durable "
            "runs. Make it durable, or leave the tools out."
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


def check_can_be_steered(definition: AgentDefinition) -> None:
    """Check that a run of an agent can wait for a steering instruction.

    Raises:
        CallerError: it does not accept such signals, so the run would wait for ever.
    """
    kind = AgentSignalKind.STEERING_INSTRUCTION
    if kind not in definition.spec.accepted_signals:
        raise CallerError(
            f"agent {definition.agent_id!r} cannot wait for a steering instruction: it does not accept "
            f"{kind.value!r} signals. Name the kind in its accepted_signals."
        )


def with_deferred(offer: ToolOffer, tools: Sequence[ModelToolSpec]) -> ToolOffer:
    """Return the offer with the caller's tools; an agent's own tool of the same name takes precedence."""
    known = set(_names(offer))
    more = [deferred_tool(tool).callable for tool in tools if tool.name not in known]
    return offer.changed([*offer.tools, *more]) if more else offer


def _names(offer: ToolOffer) -> list[str]:
    if offer.calling is None:
        return []
    return list(dict.fromkeys([*(tool.name for tool in offer.calling.tools), *offer.calling.functions]))


def check_models(services: Services) -> None:
    """Check that the models of all declarative agents have the capabilities that their agents need.

    Called when all other pods have started: an adapter may have to query its server for the capabilities of the model.

    Raises:
        AgentModelConfigurationError: with all problems found.
    """
    graph = services.app.graph
    problems = [
        problem
        for node in graph.nodes
        if isinstance(node.pod, AgentDefinition) and node.pod.is_declarative and node.is_eager
        for problem in _problems_of(node.pod, graph, services)
    ]
    if problems:
        raise start_error(services.app.name, problems)


def check_budget(services: Services) -> None:
    """Check that the application's budget can be enforced: a bound on cost needs prices.

    Raises:
        AgentModelConfigurationError: nothing provides them.
    """
    budget = services.gate.budget if services.app.contains(IAgentBudget) else None
    if budget is not None and "cost" in budget.bounded_amounts() and services.pricing is None:
        problem = Problem(
            "agent_pricing_missing",
            f"{type(budget).__name__} bounds cost, which cannot be enforced: nothing provides IAgentPricing, which "
            "knows what tokens cost.",
            "Bind one: app.bind(IAgentPricing, ...), or leave max_cost out of the windows.",
            family=AgentModelConfigurationError,
        )
        raise start_error(services.app.name, [problem])


def check_context(services: Services) -> None:
    """Check that context can be provided for every agent that declares to have it fetched for each model step.

    Raises:
        ApplicationStartError: nothing provides it.
    """
    if services.app.contains(IAgentContextProvider):
        return
    refreshing = [
        node.pod.target.__name__
        for node in services.app.graph.nodes
        if isinstance(node.pod, AgentDefinition) and node.pod.spec.refresh_context_each_step
    ]
    if refreshing:
        problems = [
            Problem(
                "agent_context_provider_missing",
                f"{name} has its context fetched for each model step, and nothing provides IAgentContextProvider.",
                "Add one: app.add(...), or leave refresh_context_each_step out.",
            )
            for name in refreshing
        ]
        raise start_error(services.app.name, problems)


def _problems_of(definition: AgentDefinition, graph: Graph, services: Services) -> list[Problem]:
    instance = services.instance_of(definition)
    model = next(iter(models_held_by(instance)), None) or _shared_model(graph, services)
    return [] if model is None else problems_with(model, definition, instance, services)


def _shared_model(graph: Graph, services: Services) -> IAgentModel | None:
    """Return the model of agents that inject none, if it exists already; a lazy model is not created."""
    chosen = graph.choose(IAgentModel)
    return services.model if isinstance(chosen, One) and chosen.node.is_eager else None


def problems_with(
    model: IAgentModel, definition: AgentDefinition, instance: object, services: Services
) -> list[Problem]:
    """Return the problems of driving an agent with a model."""
    capability = model.capability
    calling = None if capability.tools else blueprint_of(definition, instance, services).offer.calling
    tools = [tool.name for tool in calling.tools] if calling is not None else []
    return list(misfits(definition, tools, capability))


@value
class RunPlan:
    """The parts of attempts that follow from their agent and application alone: composed once.

    `redactor` is the one of all runs that have nothing to redact; None where each attempt has its own.
    """

    definition: AgentDefinition
    is_declarative: bool
    redactor: Redactor | None
    exposure: Exposure | None
    """The shared one, likewise."""
    is_context_fitted: bool
    """Whether requests are fitted to their context though the run is ephemeral, and was given none."""
    admission: Admission
    """The admission of effects in a run without a deadline."""
    pricing: IAgentPricing | None
    hooks: Hooks | None
    telemetry: IAgentTelemetry | None
    warns: bool
    """Whether the budget of the application may warn."""
    ending: EndingPolicy


def plan_of(definition: AgentDefinition, services: Services, cleanup: Callable[[Run], Cleanup]) -> RunPlan:
    """Return the plan of an agent's runs in an application; `cleanup` makes the clean-up of a cancelled one.

    Raises:
        PodNotFoundError: the application does not have the output guards that the agent names.
    """
    spec = definition.spec
    is_open = spec.redaction is None and services.secrets is None
    return RunPlan(
        definition=definition,
        is_declarative=definition.is_declarative,
        redactor=NO_REDACTOR if is_open else None,
        exposure=OPEN_EXPOSURE if is_open and spec.effective_exposure_mode in AT_ONCE else None,
        is_context_fitted=spec.effective_context_budget is not None or services.has_context_ports,
        admission=services.admission(definition, has_deadline=False),
        pricing=services.pricing,
        hooks=services.hooks,
        telemetry=services.provided.telemetry,
        warns=services.gate.budget is not None,
        ending=EndingPolicy(
            cleanup,
            services.output_guard,
            hidden_output(definition),
            services.output_guard_profile(definition),
        ),
    )
