"""Choosing the provider of a type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pytest

from pilotage.container.dependency import Dependency
from pilotage.container.node import Ambiguous, LeftOut, Many, Missing, Node, One
from pilotage.container.pod import Pod
from pilotage.container.providers import Providers


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
