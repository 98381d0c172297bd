"""Looking at the models of an application's agents when it starts: whether each can do what is asked of it."""

from __future__ import annotations

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel, ModelSelection
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import One
from pilotage.errors import CallerError, ModelNotFoundError, PodNotFoundError, Problem, start_error
from pilotage.runtime.door.capabilities import misfits, models_held_by
from pilotage.runtime.run.blueprint import blueprint_of
from pilotage.runtime.services import Services


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
