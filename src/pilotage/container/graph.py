"""The dependency graph of a set of pods. Pure: reads definitions, makes nothing.

It is not checked; `pilotage.container.faults` does that. A graph follows from definitions alone, so
applications with the same pods share it; only ready instances belong to one application.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

from pilotage.container.dependency import Dependency
from pilotage.container.names import target_name
from pilotage.container.pod import Pod, Scope
from pilotage.container.typematch import is_plain, is_protocol, missing_members, protocol_members
from pilotage.errors import PodDefinitionError
from pilotage.values import value

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One registered pod; two nodes are equal only if they are the same."""

    pod: Pod
    position: int

    @property
    def target(self) -> Any:
        """The class or factory that was registered; for a ready instance its class."""
        return self.pod.target

    @property
    def name(self) -> str:
        """The pod's name, unique in a valid application."""
        return self.pod.name

    @property
    def label(self) -> str:
        """The pod in messages and diagrams: the name of its class or factory."""
        return target_name(self.pod.target)

    def provides(self, type_: object) -> bool:
        """Return whether it is found under this type by name; fitting a protocol does not count."""
        return type_ in self.pod.provided_types

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among equals: by `order`, then by registration."""
        return self.pod.order, self.position

    @property
    def is_eager(self) -> bool:
        """Whether it is made at start, needed or not."""
        return self.pod.scope is Scope.SINGLETON and not self.pod.lazy


@value
class One:
    """Exactly one pod is injected."""

    node: Node


@value
class Many:
    """All pods of a type are injected as a collection, which may be empty."""

    nodes: tuple[Node, ...]


@value
class LeftOut:
    """Nothing provides it, and it is optional: the default is used, or None."""


@value
class Missing:
    """Nothing provides it."""


@value
class Ambiguous:
    """Several pods provide it and none is preferred."""

    candidates: tuple[Node, ...]


Resolution = One | Many | LeftOut | Missing | Ambiguous


@value
class Edge:
    """A dependency and the pods it leads to."""

    dependency: Dependency
    resolution: Resolution

    @property
    def nodes(self) -> tuple[Node, ...]:
        match self.resolution:
            case One(node):
                return (node,)
            case Many(nodes):
                return nodes
            case _:
                return ()


class Providers:
    """An index from types to the nodes that provide them."""

    def __init__(self, nodes: Iterable[Node], bindings: Mapping[object, Pod]) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.rank)
        self._bound = {
            type_: node for type_, pod in bindings.items() for node in self._nodes if node.pod is pod
        }
        self._nominal = _index(self._nodes)
        self._found: dict[object, tuple[Node, ...]] = {}
        self._chosen: dict[tuple[object, str | None], One | Missing | Ambiguous] = {}

    def of(self, type_: object) -> tuple[Node, ...]:
        """Return all providers of a type in order: classes that name it or, if none does, that fit its protocol."""
        found = self._found.get(type_)
        if found is None:
            providers = dict.fromkeys(self._nominal.get(type_) or self._fitting(type_))
            if type_ in self._bound:
                providers[self._bound[type_]] = None
            found = self._found[type_] = tuple(providers)
        return found

    def choose(self, type_: object, name: str | None = None) -> One | Missing | Ambiguous:
        """Return the one provider of a type: by name, by binding, by being primary, or by being alone."""
        chosen = self._chosen.get((type_, name))
        if chosen is None:
            chosen = self._chosen[type_, name] = self._choose(type_, name, self.of(type_))
        return chosen

    def _choose(
        self, type_: object, name: str | None, candidates: tuple[Node, ...]
    ) -> One | Missing | Ambiguous:
        if name is not None:
            candidates = tuple(node for node in candidates if node.name == name)
        elif self._bound.get(type_) in candidates:
            return One(self._bound[type_])
        elif primary := tuple(node for node in candidates if node.pod.primary):
            candidates = primary
        match candidates:
            case ():
                return Missing()
            case (node,):
                return One(node)
            case several:
                return Ambiguous(several)

    def resolve(self, dependency: Dependency, asking: Node) -> Resolution:
        """Return the resolution of a parameter of a pod."""
        candidates = _without(asking, self.of(dependency.type_))
        chosen = self._choose(dependency.type_, dependency.qualifier, candidates)
        if not isinstance(chosen, Missing):
            return chosen
        if dependency.collection is not None:
            members = tuple(node for node in self.of(dependency.element) if node is not asking)
            if members or not (dependency.may_be_missing or is_plain(dependency.element)):
                return Many(members)
        return LeftOut() if dependency.may_be_missing else chosen

    def _fitting(self, protocol: object) -> Iterable[Node]:
        if not is_protocol(protocol) or not protocol_members(protocol):
            return ()
        return (node for node in self._nodes if not missing_members(node.pod.type_, protocol))


def _index(nodes: Iterable[Node]) -> dict[object, tuple[Node, ...]]:
    found: defaultdict[object, list[Node]] = defaultdict(list)
    for node in nodes:
        for type_ in node.pod.provided_types:
            found[type_].append(node)
    return {type_: tuple(provided) for type_, provided in found.items()}


def _without(asking: Node, candidates: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the candidates without the pod itself, which may wrap its own interface; alone, it is a cycle."""
    others = tuple(node for node in candidates if node is not asking)
    return others or candidates


class Graph:
    """A set of pods and the dependencies of each.

    `nodes`        the pods in order of registration, without factories whose return type is unreadable
    `unreadable`   the pods with a type hint that cannot be resolved, and why
    `bindings`     the pod chosen for a type by the application
    `instances`    the ready instances of one application, by their definitions
    `choose`       gives the one node that `get(type_, name)` means
    """

    def __init__(self, pods: Iterable[Pod], bindings: Mapping[object, Pod]) -> None:
        self.unreadable: dict[Node, PodDefinitionError] = {}
        every = [Node(pod, position) for position, pod in enumerate(pods)]
        self.nodes: tuple[Node, ...] = tuple(filter(self._has_readable_type, every))
        self.bindings = bindings
        self.instances: Mapping[Pod, object] = {}
        self._providers = Providers(self.nodes, bindings)
        self.choose = self._providers.choose
        self._edges = {node: self._resolve(node) for node in self.nodes}
        self._derived: dict[object, object] = {}

    def holding(self, instances: Mapping[Pod, object]) -> Self:
        """Return the same graph, with the ready instances of one application."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, instances=instances)
        return copy

    def derive(self, function: Callable[[Graph], T]) -> T:
        """Return the result of a function of this graph without its instances; computed once."""
        if function not in self._derived:
            self._derived[function] = function(self.holding({}))
        return cast("T", self._derived[function])

    def given(self, type_: type[T]) -> T | None:
        """Return the first ready instance of a type, if the application was given one."""
        return next((each for each in self.instances.values() if isinstance(each, type_)), None)

    def registered(self, node: Node) -> object:
        """Return the argument of `add`: the class, the factory or the ready instance."""
        return self.instances.get(node.pod, node.target)

    def edges(self, node: Node) -> tuple[Edge, ...]:
        """Return the node's dependencies in the order of its parameters."""
        return self._edges.get(node, ())

    def dependencies(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that the node needs directly, each once."""
        return tuple(dict.fromkeys(found for edge in self.edges(node) for found in edge.nodes))

    def dependents(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that need the node directly, in order of registration."""
        return self.derive(_dependents).get(node, ())

    def providers(self, type_: object) -> tuple[Node, ...]:
        """Return all nodes that provide the type, in order."""
        return self._providers.of(type_)

    def contains(self, type_: object) -> bool:
        """Return whether anything provides the type."""
        return bool(self.providers(type_))

    def reachable(self, *start: Node) -> tuple[Node, ...]:
        """Return all nodes that the given nodes need, directly or not."""
        found: dict[Node, None] = {}
        waiting = list(start)
        while waiting:
            for node in self.dependencies(waiting.pop()):
                if node not in found:
                    found[node] = None
                    waiting.append(node)
        return tuple(sorted(found, key=lambda node: node.position))

    def path_to(self, node: Node) -> tuple[Node, ...]:
        """Return the shortest way to the node from one that nothing needs."""
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
        """Return the nodes, dependencies first, ties by rank; nodes that depend on a cycle are absent."""
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
