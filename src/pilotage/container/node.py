"""The values a dependency graph is made of: nodes, and edges with how they were resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilotage.container.dependency import Dependency
from pilotage.container.names import target_name
from pilotage.container.pod import Pod, Scope
from pilotage.values import value


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
        """What messages and pictures call the pod: the name of its class or factory."""
        return target_name(self.pod.target)

    def provides(self, type_: object) -> bool:
        """Whether it is found under this type by name; fitting a protocol does not count."""
        return type_ in self.pod.provided_types

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among equals: by `order`, then by registration."""
        return self.pod.order, self.position

    @property
    def is_eager(self) -> bool:
        """Whether it is made at start, asked for or not."""
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
    """Nothing provides it and nothing has to: the default is used, or None."""


@value
class Missing:
    """Nothing provides it."""


@value
class Ambiguous:
    """Several pods provide it and nothing says which one to take."""

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
