"""The dependency graph: edges, order, reach and paths."""

from __future__ import annotations

from pilotage.container.graph import Graph
from pilotage.container.node import Node
from pilotage.container.pod import Pod


class Leaf: ...


class Left:
    def __init__(self, leaf: Leaf) -> None: ...


class Right:
    def __init__(self, leaf: Leaf) -> None: ...


class Root:
    def __init__(self, left: Left, right: Right, again: Left) -> None: ...


class OtherRoot:
    def __init__(self, leaf: Leaf) -> None: ...


@Pod(order=-1)
class Early: ...


class Broken:
    def __init__(self, nothing: NoSuchType) -> None: ...  # noqa: F821


class NeedsBroken:
    def __init__(self, broken: Broken) -> None: ...


@Pod
def make_nothing() -> NoSuchType: ...  # noqa: F821


class Hen:
    def __init__(self, egg: Egg) -> None: ...


class Egg:
    def __init__(self, hen: Hen) -> None: ...


def graph_of(*targets: object) -> Graph:
    return Graph([Pod.get_or_none(target) or Pod().applied_to(target) for target in targets], {})


def labels(nodes: tuple[Node, ...]) -> list[str]:
    return [node.label for node in nodes]


def node(graph: Graph, target: object) -> Node:
    return next(node for node in graph.nodes if node.target is target)


def test_edges_follow_the_parameters_and_dependencies_are_unique() -> None:
    graph = graph_of(Root, Left, Right, Leaf)
    root = node(graph, Root)
    assert [edge.dependency.parameter for edge in graph.edges(root)] == ["left", "right", "again"]
    assert labels(graph.dependencies(root)) == ["Left", "Right"]
    assert labels(graph.dependents(node(graph, Leaf))) == ["Left", "Right"]


def test_dependencies_are_built_first_and_ties_go_by_order_and_registration() -> None:
    graph = graph_of(OtherRoot, Root, Right, Left, Leaf, Early)
    assert labels(graph.build_order) == ["Early", "Leaf", "OtherRoot", "Right", "Left", "Root"]


def test_what_hangs_on_a_cycle_is_not_in_the_build_order() -> None:
    assert labels(graph_of(Hen, Egg, Leaf).build_order) == ["Leaf"]


def test_everything_below_a_node_is_reachable() -> None:
    graph = graph_of(OtherRoot, Root, Right, Left, Leaf, Early)
    assert labels(graph.reachable(node(graph, Root))) == ["Right", "Left", "Leaf"]
    assert graph.reachable(node(graph, Early)) == ()


def test_the_path_to_a_node_is_the_shortest_from_one_that_nothing_needs() -> None:
    assert labels(_path(graph_of(Root, Left, Right, Leaf), Leaf)) == ["Root", "Left", "Leaf"]
    assert labels(_path(graph_of(Root, Left, Right, OtherRoot, Leaf), Leaf)) == ["OtherRoot", "Leaf"]
    assert labels(_path(graph_of(Hen, Egg), Hen)) == ["Hen"]


def _path(graph: Graph, target: object) -> tuple[Node, ...]:
    return graph.path_to(node(graph, target))


def test_a_pod_with_an_unreadable_parameter_still_provides_its_type() -> None:
    graph = graph_of(Broken, NeedsBroken, make_nothing)
    assert labels(tuple(graph.unreadable)) == ["make_nothing", "Broken"]
    assert labels(graph.nodes) == ["Broken", "NeedsBroken"]
    assert graph.contains(Broken)
    assert graph.edges(node(graph, Broken)) == ()


def test_a_chain_of_thousands_does_not_exhaust_the_stack() -> None:
    types: list[type] = [Leaf]
    for _ in range(3000):
        below = types[-1]

        class Link:
            def __init__(self, below: object) -> None: ...

        Link.__init__.__annotations__["below"] = below
        types.append(Link)
    graph = graph_of(*types)
    assert len(graph.build_order) == len(graph.path_to(node(graph, Leaf))) == 3001
