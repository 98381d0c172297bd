"""Registering pods."""

from __future__ import annotations

from typing import ClassVar

from pilotage.container.pod import Pod
from pilotage.container.registry import Registry


class Ledger: ...


class Companion: ...


class Accompanied(Pod):
    post_processors: ClassVar[tuple[type, ...]] = (Companion,)


@Accompanied
class One: ...


@Accompanied
class Two: ...


def test_what_a_stereotype_brings_is_registered_once() -> None:
    registry = Registry()
    registry.add(One)
    registry.add(Two)
    assert [node.target for node in registry.graph().nodes] == [One, Companion, Two]
    assert len(registry) == 3


def test_an_undecorated_class_is_a_pod_without_being_marked() -> None:
    registry = Registry()
    assert registry.add(Ledger) is registry.add(Ledger)
    assert not Pod.exists(Ledger)


def test_instances_of_one_class_are_numbered() -> None:
    registry = Registry()
    first, second, third = Ledger(), Ledger(), Ledger()
    assert [registry.add(ledger).name for ledger in (first, second, third, first)] == [
        "ledger",
        "ledger_2",
        "ledger_3",
        "ledger",
    ]


def test_the_last_binding_wins() -> None:
    registry = Registry()
    first, second = Ledger(), Ledger()
    registry.bind(Ledger, first)
    registry.bind(Ledger, second)
    assert registry.graph().instances[registry.graph().bindings[Ledger]] is second
