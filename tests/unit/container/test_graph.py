"""The dependency graph: edges, order, reach and paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pytest

from pilotage.container.dependency import Dependency
from pilotage.container.graph import Ambiguous, Graph, LeftOut, Many, Missing, Node, One, Providers
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


class Bank: ...


@Pod
class First(Bank):
    def pay(self) -> None: ...


@Pod(order=-1)
class Second(Bank): ...


@Pod(primary=True)
class Preferred(Bank): ...


@Pod(primary=True)
class AlsoPreferred(Bank): ...


class Payer(Protocol):
    def pay(self) -> None: ...


class Anything(Protocol): ...


@Pod
class NominalPayer(Payer): ...


def nodes_of(*targets: type) -> dict[object, Node]:
    return {target: Node(Pod.get(target), position) for position, target in enumerate(targets)}


@pytest.mark.parametrize(
    ("registered", "bound", "name", "chosen"),
    [
        ([First], None, None, One),
        ([], None, None, Missing),
        ([First, Second], None, None, Ambiguous),
        ([First, Preferred], None, None, Preferred),
        ([Preferred, AlsoPreferred], None, None, Ambiguous),
        ([First, Preferred], First, None, First),
        ([First, Preferred], First, "preferred", Preferred),
        ([First, Second], None, "second", Second),
        ([First, Second], None, "third", Missing),
    ],
)
def test_a_provider_is_chosen_by_name_binding_preference_or_being_alone(
    registered: Iterable[type], bound: type | None, name: str | None, chosen: type
) -> None:
    nodes = nodes_of(*registered)
    bindings = {Bank: Pod.get(bound)} if bound else {}
    found = Providers(nodes.values(), bindings).choose(Bank, name)
    if chosen in nodes:
        assert found == One(nodes[chosen])
    else:
        assert isinstance(found, chosen)


def test_providers_come_by_order_and_then_by_registration() -> None:
    nodes = nodes_of(First, Preferred, Second)
    assert Providers(nodes.values(), {}).of(Bank) == (nodes[Second], nodes[First], nodes[Preferred])


def test_classes_that_fit_a_protocol_count_only_if_no_class_names_it() -> None:
    fitting, nominal = nodes_of(First), nodes_of(First, NominalPayer)
    assert Providers(fitting.values(), {}).of(Payer) == (fitting[First],)
    assert Providers(nominal.values(), {}).of(Payer) == (nominal[NominalPayer],)
    assert Providers(nominal.values(), {}).of(Anything) == ()


def test_a_bound_class_that_fits_a_protocol_counts_beside_one_that_names_it() -> None:
    nodes = nodes_of(First, NominalPayer)
    providers = Providers(nodes.values(), {Payer: Pod.get(First)})
    assert providers.of(Payer) == (nodes[NominalPayer], nodes[First])
    assert providers.choose(Payer) == One(nodes[First])


def test_a_pod_never_gets_itself_unless_it_is_alone() -> None:
    two, one = nodes_of(First, Second), nodes_of(First)
    wanted = Dependency("bank", Bank, Bank)
    assert Providers(two.values(), {}).resolve(wanted, two[First]) == One(two[Second])
    assert Providers(one.values(), {}).resolve(wanted, one[First]) == One(one[First])


@pytest.mark.parametrize(
    ("wanted", "resolution"),
    [
        (Dependency("b", list[Bank], Bank, list), "both"),
        (Dependency("b", list[Payer], Payer, list), "fitting"),
        (Dependency("b", list[Anything], Anything, list), Many(())),
        (Dependency("b", list[Anything], Anything, list, optional=True), LeftOut()),
        (Dependency("b", list[str], str, list), Missing()),
        (Dependency("b", list[str], str, list, has_default=True), LeftOut()),
        (Dependency("b", str, str), Missing()),
        (Dependency("b", str, str, optional=True), LeftOut()),
    ],
)
def test_a_dependency_is_resolved(wanted: Dependency, resolution: object) -> None:
    nodes = nodes_of(First, Second, NominalPayer)
    asking = nodes.pop(NominalPayer)
    expected = {"both": Many((nodes[Second], nodes[First])), "fitting": Many((nodes[First],))}
    found = Providers(nodes.values(), {}).resolve(wanted, asking)
    assert found == (expected[resolution] if isinstance(resolution, str) else resolution)
