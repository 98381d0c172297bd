"""The dependency graph of a set of pods. Pure: reads definitions, makes nothing.

It may be wrong in every way; `pilotage.container.faults` says how. A graph follows from definitions alone, so
applications with the same pods share it; what belongs to one application are its ready instances.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar, cast

from pilotage.container.node import Ambiguous, Edge, Missing, Node, One
from pilotage.container.pod import Pod
from pilotage.container.providers import Providers
from pilotage.errors import PodDefinitionError

T = TypeVar("T")


class Graph:
    """A set of pods and what each of them leads to.

    `nodes`        the pods in order of registration, without factories whose return type is unreadable
    `unreadable`   the pods with a type hint that cannot be resolved, and why
    `bindings`     the pod chosen for a type by the application
    `instances`    the ready instances of one application, by their definitions
    """

    def __init__(self, pods: Iterable[Pod], bindings: Mapping[object, Pod]) -> None:
        self.unreadable: dict[Node, PodDefinitionError] = {}
        every = [Node(pod, position) for position, pod in enumerate(pods)]
        self.nodes: tuple[Node, ...] = tuple(filter(self._has_readable_type, every))
        self.bindings = bindings
        self.instances: Mapping[Pod, object] = {}
        self._providers = Providers(self.nodes, bindings)
        self._edges = {node: self._resolve(node) for node in self.nodes}
        self._derived: dict[object, object] = {}

    def holding(self, instances: Mapping[Pod, object]) -> Self:
        """The same graph, with the ready instances of one application."""
        held = object.__new__(type(self))
        held.__dict__.update(self.__dict__, instances=instances)
        return held

    def derive(self, function: Callable[[Graph], T]) -> T:
        """What a function of the definitions gives for this graph: computed once, without instances."""
        if function not in self._derived:
            self._derived[function] = function(self.holding({}))
        return cast("T", self._derived[function])

    def given(self, type_: type[T]) -> T | None:
        """The first ready instance of a type, if the application was given one."""
        return next((each for each in self.instances.values() if isinstance(each, type_)), None)

    def registered(self, node: Node) -> object:
        """What `add` was called with: the class, the factory or the ready instance."""
        return self.instances.get(node.pod, node.target)

    def edges(self, node: Node) -> tuple[Edge, ...]:
        """The node's dependencies in the order of its parameters."""
        return self._edges.get(node, ())

    def dependencies(self, node: Node) -> tuple[Node, ...]:
        """The nodes that the node needs directly, each once."""
        return tuple(dict.fromkeys(found for edge in self.edges(node) for found in edge.nodes))

    def dependents(self, node: Node) -> tuple[Node, ...]:
        """The nodes that need the node directly, in order of registration."""
        return self.derive(_dependents).get(node, ())

    def providers(self, type_: object) -> tuple[Node, ...]:
        """All nodes that provide the type, in order."""
        return self._providers.of(type_)

    def contains(self, type_: object) -> bool:
        """Whether anything provides the type."""
        return bool(self.providers(type_))

    def choose(self, type_: object, name: str | None = None) -> One | Missing | Ambiguous:
        """The one node that `get(type_, name)` means."""
        return self._providers.choose(type_, name)

    def reachable(self, *start: Node) -> tuple[Node, ...]:
        """Everything the given nodes need, directly or not."""
        found: dict[Node, None] = {}
        waiting = list(start)
        while waiting:
            for node in self.dependencies(waiting.pop()):
                if node not in found:
                    found[node] = None
                    waiting.append(node)
        return tuple(sorted(found, key=lambda node: node.position))

    def path_to(self, node: Node) -> tuple[Node, ...]:
        """The shortest way to the node from one that nothing needs."""
        paths: list[tuple[Node, ...]] = [(node,)]
        seen = {node}
        for path in paths:
            above = self.dependents(path[0])
            if not above:
                return path
            paths.extend((dependent, *path) for dependent in above if dependent not in seen)
            seen.update(above)
        return (node,)

    @property
    def build_order(self) -> tuple[Node, ...]:
        """Dependencies first, ties by rank; nodes in or behind a cycle are absent."""
        return self.derive(_build_order)

    def _has_readable_type(self, node: Node) -> bool:
        try:
            return node.pod.type_ is not None
        except PodDefinitionError as error:
            self.unreadable[node] = error
            return False

    def _resolve(self, node: Node) -> tuple[Edge, ...]:
        try:
            needed = node.pod.dependencies.values()
        except PodDefinitionError as error:
            self.unreadable[node] = error
            return ()
        return tuple(Edge(dependency, self._providers.resolve(dependency, node)) for dependency in needed)


def _build_order(graph: Graph) -> tuple[Node, ...]:
    waiting = {node: len(graph.dependencies(node)) for node in graph.nodes}
    ready = [(*node.rank, node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[-1]
        ordered.append(node)
        for dependent in graph.dependents(node):
            waiting[dependent] -= 1
            if not waiting[dependent]:
                heapq.heappush(ready, (*dependent.rank, dependent))
    return tuple(ordered)


def _dependents(graph: Graph) -> Mapping[Node, tuple[Node, ...]]:
    found: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for node in graph.nodes:
        for dependency in graph.dependencies(node):
            found[dependency].append(node)
    return {node: tuple(dependents) for node, dependents in found.items()}
