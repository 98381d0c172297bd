"""Faults of a dependency graph as values, and the check that finds them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pilotage.container.dependency import Dependency
from pilotage.container.graph import Ambiguous, Graph, Missing, Node
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Scope
from pilotage.container.processing import IPostProcessor
from pilotage.container.signature import Making
from pilotage.container.typematch import is_plain, is_protocol, missing_members
from pilotage.errors import PodDefinitionError
from pilotage.values import value


@value
class Unreadable:
    """A type hint cannot be resolved or injected."""

    node: Node
    error: PodDefinitionError


@value
class DuplicateName:
    """Several pods have one name."""

    name: str
    nodes: tuple[Node, ...]


@value
class Misbound:
    """A type is bound to a pod that does not provide it."""

    type_: object
    node: Node


@value
class Unprovided:
    """No pod provides what these pods need; the first of them is named in the message."""

    dependency: Dependency
    nodes: tuple[Node, ...]


@value
class Undecided:
    """Several pods provide what these pods need; the first of them is named in the message."""

    dependency: Dependency
    nodes: tuple[Node, ...]
    candidates: tuple[Node, ...]


@value
class Cycle:
    """Each of the nodes needs the next, and the last the first."""

    nodes: tuple[Node, ...]


@value
class WidenedScope:
    """A singleton, the first node, holds a pod of a context, the last node."""

    path: tuple[Node, ...]


@value
class NotEager:
    """A pod that must be a singleton made at start is not; `why` is the reason for that."""

    node: Node
    why: str


@value
class EndlessCleanup:
    """A prototype has a cleanup that never runs."""

    node: Node


Fault = (
    Unreadable
    | DuplicateName
    | Misbound
    | Unprovided
    | Undecided
    | Cycle
    | WidenedScope
    | NotEager
    | EndlessCleanup
)


def find_faults(graph: Graph) -> tuple[Fault, ...]:
    """Return all faults of the graph: unreadable hints, then unresolvable dependencies, then wrong scopes."""
    return (
        *(Unreadable(node, error) for node, error in graph.unreadable.items()),
        *_duplicate_names(graph),
        *_misbound(graph),
        *_unresolved(graph),
        *_cycles(graph),
        *_widened_scopes(graph),
        *_wrong_scopes(graph),
    )


def _duplicate_names(graph: Graph) -> Iterator[DuplicateName]:
    by_name: defaultdict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        by_name[node.name].append(node)
    return (DuplicateName(name, tuple(nodes)) for name, nodes in by_name.items() if len(nodes) > 1)


def _misbound(graph: Graph) -> Iterator[Misbound]:
    for type_, pod in graph.bindings.items():
        node = next((node for node in graph.nodes if node.pod is pod), None)
        if node is not None and not _provides(node, type_):
            yield Misbound(type_, node)


def _provides(node: Node, type_: object) -> bool:
    if node.provides(type_):
        return True
    return is_protocol(type_) and not missing_members(node.pod.type_, type_)


def _unresolved(graph: Graph) -> Iterator[Unprovided | Undecided]:
    found: dict[object, Unprovided | Undecided] = {}
    for node in graph.nodes:
        for edge in graph.edges(node):
            wanted = edge.dependency
            group = _group(node, wanted)
            nodes = (*(found[group].nodes if group in found else ()), node)
            if isinstance(edge.resolution, Missing):
                found[group] = Unprovided(wanted, nodes)
            elif isinstance(edge.resolution, Ambiguous):
                found[group] = Undecided(wanted, nodes, edge.resolution.candidates)
    return iter(found.values())


def _group(node: Node, wanted: Dependency) -> object:
    """Return the key of a fault: per parameter for a plain value, shared by all pods for any other type."""
    if is_plain(wanted.type_):
        return node, wanted.parameter
    return wanted.type_, wanted.qualifier


def _cycles(graph: Graph) -> Iterator[Cycle]:
    """Yield one cycle of each strongly connected part."""
    knotted = set(graph.nodes) - set(graph.build_order)
    while knotted:
        cycle = _walk_into_cycle(graph, knotted)
        yield Cycle(cycle)
        knotted -= {*cycle}
        knotted = _still_knotted(graph, knotted)


def _walk_into_cycle(graph: Graph, knotted: set[Node]) -> tuple[Node, ...]:
    """Return a cycle among the nodes, each of which needs another one of them."""
    node = min(knotted, key=lambda node: node.position)
    trail: list[Node] = []
    while node not in trail:
        trail.append(node)
        node = next(needed for needed in graph.dependencies(node) if needed in knotted)
    cycle = trail[trail.index(node) :]
    first = cycle.index(min(cycle, key=lambda node: node.position))
    return (*cycle[first:], *cycle[:first])


def _still_knotted(graph: Graph, nodes: set[Node]) -> set[Node]:
    while free := {node for node in nodes if not nodes.intersection(graph.dependencies(node))}:
        nodes -= free
    return nodes


def _widened_scopes(graph: Graph) -> Iterator[WidenedScope]:
    for node in graph.nodes:
        if node.pod.scope is Scope.SINGLETON:
            yield from (WidenedScope(path) for path in _ways_to_contexts(graph, node))


def _ways_to_contexts(graph: Graph, singleton: Node) -> Iterator[tuple[Node, ...]]:
    """Yield the paths from a singleton through prototypes, which live as long as their holder, to pods of a context."""
    paths: list[tuple[Node, ...]] = [(singleton,)]
    seen = {singleton}
    for path in paths:
        for node in graph.dependencies(path[-1]):
            if node in seen:
                continue
            seen.add(node)
            if node.pod.scope is Scope.CONTEXT:
                yield (*path, node)
            elif node.pod.scope is Scope.PROTOTYPE:
                paths.append((*path, node))


def _wrong_scopes(graph: Graph) -> Iterator[NotEager | EndlessCleanup]:
    reasons = {
        "a post-processor": graph.providers(IPostProcessor),
        "started and stopped with the application (ILifecycle)": graph.providers(ILifecycle),
        "made by an async factory": [node for node in graph.nodes if node.pod.making.is_async],
    }
    why_eager = {node: why for why, nodes in reasons.items() for node in nodes}
    for node in graph.nodes:
        if node in why_eager and not node.is_eager:
            yield NotEager(node, why_eager[node])
        elif node.pod.making is Making.YIELD and node.pod.scope is Scope.PROTOTYPE:
            yield EndlessCleanup(node)
