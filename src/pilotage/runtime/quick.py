"""A temporary application for one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pilotage.agent import stereotype
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.principal import Principal
from pilotage.agent.reach import delegates_of
from pilotage.agent.run_values import RunResult
from pilotage.container.application import Application
from pilotage.container.graph import Graph, Missing
from pilotage.container.pod import Pod
from pilotage.runtime import plugin as runtime_plugin
from pilotage.runtime.runner import AgentRunner


async def run_once(
    agent: type[object],
    given: object,
    model: IAgentModel | None,
    add: Iterable[object],
    principal: Principal,
    default_model: Callable[[], Iterable[object]],
    watch: Callable[[AgentEvent], None] | None = None,
) -> RunResult:
    """Run an agent in an application of its own; the default model is used if one is needed and none is given.

    `watch` gets each event as it happens.
    """
    definition = AgentDefinition.get(agent)
    app = Application(definition.agent_id).add(agent, *add)
    if model is not None:
        app.bind(IAgentModel, model)
    stereotype.initialize(app)
    runtime_plugin.initialize(app)
    if with_pods_asked_for(app).graph.derive(asks_for_model):
        app.add(*default_model())
    async with app:
        runner = AgentRunner.for_agent_instance(app.get(agent, definition.name)).for_principal(principal)
        run = await (runner if watch else runner.for_result()).open(given)
        try:
            events = run.events()
            async for event in events:
                others = events.ready()
                if watch is not None:
                    for each in (event, *others):
                        watch(each)
            return await run.result()
        finally:
            await run.leave()


def with_pods_asked_for(app: Application) -> Application:
    """Return the application with missing pods added: classes that other pods inject and no scan finds.

    The same holds for agents that other agents delegate to.
    """
    while missing := app.graph.derive(_missing_in):
        app.add(*missing)
    return app


def asks_for_model(graph: Graph) -> bool:
    """Return whether a model is needed, by an agent without `execute()` or a parameter, and none is provided."""
    if graph.contains(IAgentModel):
        return False
    edges = (
        edge for node in graph.nodes for edge in graph.edges(node) if isinstance(edge.resolution, Missing)
    )
    pods = (node.pod for node in graph.nodes)
    return any(edge.dependency.type_ is IAgentModel for edge in edges) or any(
        isinstance(pod, AgentDefinition) and pod.is_declarative for pod in pods
    )


def _missing_in(graph: Graph) -> tuple[object, ...]:
    return tuple(dict.fromkeys((*_pods_missing_in(graph), *_workers_missing_in(graph))))


def _workers_missing_in(graph: Graph) -> Iterator[object]:
    known = {node.pod.type_ for node in graph.nodes}
    for node in graph.nodes:
        if isinstance(node.pod, AgentDefinition):
            yield from (
                each for each in delegates_of(node.pod) if isinstance(each, type) and each not in known
            )


def _pods_missing_in(graph: Graph) -> Iterator[object]:
    for node in graph.nodes:
        for edge in graph.edges(node):
            if isinstance(edge.resolution, Missing) and Pod.exists(edge.dependency.type_):
                yield edge.dependency.type_
