"""The faults found in a graph, as values."""

from __future__ import annotations

from pilotage.container.faults import Cycle, Fault, Undecided, Unprovided, WidenedScope, find_faults
from pilotage.container.graph import Graph
from pilotage.container.pod import Pod, Scope


class Port: ...


class Cat:
    def __init__(self, dog: Dog, port: Port) -> None: ...


class Dog:
    def __init__(self, cat: Cat) -> None: ...


class Ant:
    def __init__(self, bee: Bee, dog: Dog) -> None: ...


class Bee:
    def __init__(self, ant: Ant) -> None: ...


class Flea:
    def __init__(self, dog: Dog) -> None: ...


class First(Port): ...


class Second(Port): ...


class TwoNumbers:
    def __init__(self, one: int, two: int, port: Port) -> None: ...


class TwoMoreNumbers:
    def __init__(self, one: int, port: Port) -> None: ...


@Pod(scope=Scope.CONTEXT)
class Session: ...


@Pod(scope=Scope.CONTEXT)
class Work:
    def __init__(self, session: Session) -> None: ...


@Pod(scope=Scope.PROTOTYPE)
class Query:
    def __init__(self, session: Session) -> None: ...


@Pod(scope=Scope.PROTOTYPE)
class Page:
    def __init__(self, query: Query) -> None: ...


@Pod(lazy=True)
class Shop:
    def __init__(self, page: Page, session: Session) -> None: ...


def faults_of(*targets: object) -> list[Fault]:
    pods = [Pod.get_or_none(target) or Pod().applied_to(target) for target in targets]
    return list(find_faults(Graph(pods, {})))


def test_a_sound_graph_has_no_faults() -> None:
    assert faults_of(Session, Work, Query, Page, First) == []


def test_each_knot_of_cycles_is_reported_once_and_what_hangs_on_it_is_not() -> None:
    cycles = [fault for fault in faults_of(Flea, Ant, Bee, Cat, Dog, First) if isinstance(fault, Cycle)]
    assert [[node.label for node in cycle.nodes] for cycle in cycles] == [["Cat", "Dog"], ["Ant", "Bee"]]


def test_a_missing_type_is_one_fault_however_many_need_it_but_each_missing_value_is_its_own() -> None:
    faults = [fault for fault in faults_of(TwoNumbers, TwoMoreNumbers) if isinstance(fault, Unprovided)]
    assert [(fault.dependency.parameter, [node.label for node in fault.nodes]) for fault in faults] == [
        ("one", ["TwoNumbers"]),
        ("two", ["TwoNumbers"]),
        ("port", ["TwoNumbers", "TwoMoreNumbers"]),
        ("one", ["TwoMoreNumbers"]),
    ]


def test_an_undecided_type_is_one_fault_however_many_need_it() -> None:
    class A:
        def __init__(self, port: Port) -> None: ...

    class B:
        def __init__(self, port: Port) -> None: ...

    (fault,) = faults_of(A, B, First, Second)
    assert isinstance(fault, Undecided)
    assert [node.label for node in fault.nodes] == ["A", "B"]
    assert [node.label for node in fault.candidates] == ["First", "Second"]


def test_a_singleton_reaches_a_context_directly_or_through_prototypes_but_only_once() -> None:
    (fault,) = faults_of(Shop, Page, Query, Session)
    assert isinstance(fault, WidenedScope)
    assert [node.label for node in fault.path] == ["Shop", "Session"]

    class Indirect:
        def __init__(self, page: Page) -> None: ...

    (indirect,) = faults_of(Indirect, Page, Query, Session)
    assert isinstance(indirect, WidenedScope)
    assert [node.label for node in indirect.path] == ["Indirect", "Page", "Query", "Session"]
