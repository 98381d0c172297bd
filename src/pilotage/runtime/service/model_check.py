"""Looking at the models of an application's agents when it starts: whether each can do what is asked of it."""

from __future__ import annotations

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.node import One
from pilotage.errors import Problem, start_error
from pilotage.runtime.service.blueprint import blueprint_of
from pilotage.runtime.service.fitness import misfits, models_held_by
from pilotage.runtime.service.services import Services


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
