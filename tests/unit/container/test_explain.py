"""What almost provides a type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from pilotage.container.explain import near_misses
from pilotage.container.graph import Graph
from pilotage.container.pod import Pod
from pilotage.values import value

T = TypeVar("T")


class Bank(ABC):
    @abstractmethod
    def pay(self) -> None: ...


class SlowBank(Bank):
    """Abstract still, so it is no near miss."""


@Pod
class HttpBank(SlowBank):
    def pay(self) -> None: ...


class PlainBank(Bank):
    def pay(self) -> None: ...


class Notifier(Protocol):
    def notify(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Mailer:
    def notify(self) -> None: ...


class Complete:
    def notify(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Repository(Generic[T]): ...


class Numbers(Repository[int]): ...


@value
class Rates:
    daily: int = 0
    monthly: int = 0
    yearly: int = 0
    total: int = 0


class RefundPolicy: ...


class RefundPolicies: ...


def graph_of(*targets: type) -> Graph:
    return Graph([Pod().applied_to(target) for target in targets], {})


def test_a_value_that_was_made_is_no_way_to_itself() -> None:
    Rates(1)
    assert near_misses(Rates, graph_of()) == []


def test_implementations_that_were_not_registered_are_found_with_the_reason() -> None:
    assert near_misses(Bank, graph_of()) == [
        "PlainBank (not a pod: decorate it with @Pod)",
        f"HttpBank (not scanned: {__name__})",
    ]


def test_pods_that_lack_some_members_of_a_protocol_are_found() -> None:
    assert near_misses(Notifier, graph_of(Mailer, Numbers)) == ["Mailer (lacks close, flush)"]


def test_generics_with_other_arguments_are_found() -> None:
    assert near_misses(Repository[str], graph_of(Numbers)) == ["Numbers (provides Repository[int])"]


def test_similar_names_are_found() -> None:
    assert near_misses(RefundPolicy, graph_of(RefundPolicies)) == [
        f"RefundPolicies of {__name__} (a similar name)"
    ]


def test_pods_of_the_type_with_another_name_are_found() -> None:
    assert near_misses(Complete, graph_of(Complete), "backup") == [
        "Complete is provided under the name 'complete'"
    ]


def test_at_most_three_are_shown() -> None:
    class A(RefundPolicy): ...

    class B(RefundPolicy): ...

    class C(RefundPolicy): ...

    class D(RefundPolicy): ...

    assert len(near_misses(RefundPolicy, graph_of())) == 3
    assert {A, B, C, D} == set(RefundPolicy.__subclasses__())
