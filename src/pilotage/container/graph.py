"""The dependency graph of an application. Pure: reads definitions, makes nothing.

It may be wrong in every way; `pilotage.container.faults` says how.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from functools import cached_property

from pilotage.container.node import Ambiguous, Edge, Missing, Node, One
from pilotage.container.pod import Pod
from pilotage.container.providers import Providers
from pilotage.errors import PodDefinitionError


class Graph:
    """All pods of an application and what each of them leads to.

    `nodes`        the pods in order of registration, without factories whose return type is unreadable
    `unreadable`   the pods with a type hint that cannot be resolved, and why
    `bindings`     the pod chosen for a type by the application
    """

    def __init__(self, pods: Iterable[Pod], bindings: Mapping[object, Pod]) -> None:
        self.unreadable: dict[Node, PodDefinitionError] = {}
        every = [Node(pod, position) for position, pod in enumerate(pods)]
        self.nodes: tuple[Node, ...] = tuple(filter(self._has_readable_type, every))
        self.bindings = bindings
        self._providers = Providers(self.nodes, bindings)
        self._edges = {node: self._resolve(node) for node in self.nodes}

    def edges(self, node: Node) -> tuple[Edge, ...]:
        """The node's dependencies in the order of its parameters."""
        return self._edges.get(node, ())

    def dependencies(self, node: Node) -> tuple[Node, ...]:
        """The nodes that the node needs directly, each once."""
        return tuple(dict.fromkeys(found for edge in self.edges(node) for found in edge.nodes))

    def dependents(self, node: Node) -> tuple[Node, ...]:
        """The nodes that need the node directly, in order of registration."""
        return self._dependents.get(node, ())

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

    @cached_property
    def build_order(self) -> tuple[Node, ...]:
        """Dependencies first, ties by rank; nodes in or behind a cycle are absent."""
        waiting = {node: len(self.dependencies(node)) for node in self.nodes}
        ready = [(*node.rank, node) for node, count in waiting.items() if not count]
        heapq.heapify(ready)
        ordered: list[Node] = []
        while ready:
            node = heapq.heappop(ready)[-1]
            ordered.append(node)
            for dependent in self._dependents[node]:
                waiting[dependent] -= 1
                if not waiting[dependent]:
                    heapq.heappush(ready, (*dependent.rank, dependent))
        return tuple(ordered)

    @cached_property
    def _dependents(self) -> Mapping[Node, tuple[Node, ...]]:
        found: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for dependency in self.dependencies(node):
                found[dependency].append(node)
        return {node: tuple(dependents) for node, dependents in found.items()}

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
