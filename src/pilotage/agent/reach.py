"""The reach of an application's agents: their tools, their delegates, and which of their runs are durable. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.architecture import AgentRef, workers_of
from pilotage.agent.safety_checks import AgentReach
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.container.graph import Graph, Node
from pilotage.errors import AgentDefinitionError


def agent_tools(node: Node, graph: Graph) -> tuple[AgentToolDescriptor, ...]:
    """Return the tools an agent offers to its model: its own, and those of the pods it injects."""
    return _tools_of([node, *graph.dependencies(node)])


def readable_tools(node: Node, graph: Graph) -> tuple[AgentToolDescriptor, ...]:
    """Return the tools of an agent; none where one of them cannot be read, which is a problem of its own."""
    try:
        return agent_tools(node, graph)
    except AgentDefinitionError:
        return ()


def inner_tools(node: Node, graph: Graph) -> tuple[AgentToolDescriptor, ...]:
    """Return the tools of the pods that an agent needs indirectly: calls of them are actions of its runs, too."""
    seen = {node, *graph.dependencies(node)}
    waiting = [each for each in graph.dependencies(node) if not isinstance(each.pod, AgentDefinition)]
    inner = list[Node]()
    while waiting:
        for found in graph.dependencies(waiting.pop()):
            if found not in seen and not isinstance(found.pod, AgentDefinition):
                seen.add(found)
                inner.append(found)
                waiting.append(found)
    try:
        return _tools_of(inner)
    except AgentDefinitionError:
        return ()


def _tools_of(owners: Iterable[Node]) -> tuple[AgentToolDescriptor, ...]:
    classes = [owner.pod.type_ for owner in owners if isinstance(owner.pod.type_, type)]
    return tuple(tool for owner in classes for tool in discover_agent_tools(owner).descriptors)


def durable_agents(graph: Graph) -> frozenset[str]:
    """Return the names of the agents whose runs are durable: by their spec, or because a durable agent starts them."""
    agents = {node.pod.agent_id: node.pod for node in graph.nodes if isinstance(node.pod, AgentDefinition)}
    waiting = [name for name, definition in agents.items() if definition.spec.is_durable]
    found = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found and name in agents:
            found.add(name)
            waiting.extend(map(agent_id_of, delegates_of(agents[name])))
    return frozenset(found)


def agent_reaches(graph: Graph) -> list[AgentReach]:
    """Return the tools and delegates of each agent of an application, as far as classes declare them."""
    return [_reach(node, node.pod, graph) for node in graph.nodes if isinstance(node.pod, AgentDefinition)]


def _reach(node: Node, definition: AgentDefinition, graph: Graph) -> AgentReach:
    """Return the tools and delegates of an agent: its teammates, the workers of its loop, agents it injects."""
    injected = [
        each.pod.agent_id for each in graph.dependencies(node) if isinstance(each.pod, AgentDefinition)
    ]
    accepted = definition.spec.accepted_signals
    return AgentReach(
        definition.agent_id,
        readable_tools(node, graph),
        (*injected, *map(agent_id_of, delegates_of(definition))),
        tuple(kind.value for kind in definition.spec.untrusted_signals if kind in accepted),
        definition.spec.memory is not None,
    )


def delegates_of(definition: AgentDefinition) -> Iterator[AgentRef]:
    """Yield the agents that an agent may delegate to: its teammates, and the workers of its loop.

    A loop that is only named is made without arguments, so it has no workers of its own.
    """
    yield from (mate.pod for mate in definition.spec.teammates if mate.pod is not None)
    architecture = definition.spec.architecture
    if architecture is not None and not isinstance(architecture, str):
        yield from workers_of(architecture).values()


def agent_id_of(agent: AgentRef) -> str:
    """Return the name of an agent that is referred to by class or by name."""
    if isinstance(agent, str):
        return agent
    definition = AgentDefinition.get_or_none(agent)
    return agent.__name__ if definition is None else definition.agent_id
