"""Making pods: calling constructors and factories with what their dependencies supply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import cast

from pilotage.container.graph import Graph
from pilotage.container.lifecycle import Teardown
from pilotage.container.node import Edge, LeftOut, Many, Node, One
from pilotage.container.signature import Making
from pilotage.errors import PodDefinitionError

Supplier = Callable[[], object]


class Constant:
    """Supplies a pod that has been made; plans recognise it and bind the pod itself."""

    __slots__ = ("pod",)

    def __init__(self, pod: object) -> None:
        self.pod = pod

    def __call__(self) -> object:
        return self.pod


def plan(node: Node, graph: Graph, suppliers: Mapping[Node, Supplier]) -> Supplier:
    """A closure that calls the node's constructor or factory; whatever is known now is bound now."""
    target: Supplier = node.pod.target
    edges = graph.edges(node)
    if not edges:
        return target
    arguments = {
        edge.dependency.parameter: _argument(edge, suppliers)
        for edge in edges
        if not (isinstance(edge.resolution, LeftOut) and edge.dependency.has_default)
    }
    constants = {name: supply.pod for name, supply in arguments.items() if isinstance(supply, Constant)}
    if constants:
        target = partial(target, **constants)
    variable = [(name, supply) for name, supply in arguments.items() if name not in constants]
    return _call_with(target, variable) if variable else target


def make(supply: Supplier, node: Node, teardown: Teardown) -> object:
    """Make a pod without waiting; the cleanup of a generator is remembered."""
    made = supply()
    if node.pod.making is not Making.YIELD:
        return made
    generator = cast("Generator[object, None, None]", made)
    pod = _first(node, next(generator, _NOTHING))
    teardown.push(f"the cleanup of {node.label}", partial(_end, node, generator))
    return pod


async def make_async(supply: Supplier, node: Node, teardown: Teardown) -> object:
    """Make a pod of an async factory."""
    if node.pod.making is Making.AWAIT:
        return await cast("Awaitable[object]", supply())
    generator = cast("AsyncGenerator[object, None]", supply())
    pod = _first(node, await anext(generator, _NOTHING))
    teardown.push(f"the cleanup of {node.label}", partial(_end_async, node, generator))
    return pod


_NOTHING = object()


def _call_with(target: Callable[..., object], variable: list[tuple[str, Supplier]]) -> Supplier:
    def call() -> object:
        return target(**{name: supply() for name, supply in variable})

    return call


def _argument(edge: Edge, suppliers: Mapping[Node, Supplier]) -> Supplier:
    match edge.resolution:
        case One(node):
            return suppliers[node]
        case Many(nodes):
            return _collection(edge, nodes, [suppliers[node] for node in nodes])
        case _:
            return Constant(None)


def _collection(edge: Edge, nodes: tuple[Node, ...], suppliers: list[Supplier]) -> Supplier:
    collect = cast("Callable[[object], object]", edge.dependency.collection)
    if collect is dict:
        return lambda: {node.name: supply() for node, supply in zip(nodes, suppliers, strict=True)}
    return lambda: collect(supply() for supply in suppliers)


def _first(node: Node, pod: object) -> object:
    if pod is _NOTHING:
        raise PodDefinitionError(f"{node.label} ended without a yield. Yield the pod exactly once.")
    return pod


def _end(node: Node, generator: Generator[object, None, None]) -> None:
    if next(generator, _NOTHING) is not _NOTHING:
        generator.close()
        raise _yielded_twice(node)


async def _end_async(node: Node, generator: AsyncGenerator[object, None]) -> None:
    if await anext(generator, _NOTHING) is not _NOTHING:
        await generator.aclose()
        raise _yielded_twice(node)


def _yielded_twice(node: Node) -> PodDefinitionError:
    return PodDefinitionError(f"{node.label} yielded twice. Yield the pod once; what follows is the cleanup.")
