"""The container: looks up the pods of one application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from pilotage.container.assembly import Assembly
from pilotage.container.explain import not_found
from pilotage.container.graph import Graph
from pilotage.container.making import Constant, Supplier
from pilotage.container.node import Missing, One
from pilotage.container.processing import IContainer
from pilotage.errors import PodNotFoundError

T = TypeVar("T")


class Container(IContainer):
    """The pods of a checked graph.

    `assembly`     makes the pods; it is built, started and torn down by the application
    `singletons`   the singletons by the types that were asked for: the fast path of `get`
    """

    def __init__(self, graph: Graph) -> None:
        self.assembly = Assembly(graph, self)
        self.singletons: dict[object, object] = {}
        self._graph = graph
        self._asked: dict[tuple[object, str | None], Supplier] = {}

    def get(self, type_: Callable[..., T], name: str | None = None) -> T:
        supplier = self._asked.get((type_, name)) or self._find(type_, name)
        return cast("T", supplier())

    def get_or_none(self, type_: Callable[..., T], name: str | None = None) -> T | None:
        supplier = self._asked.get((type_, name))
        if supplier is None:
            if isinstance(self._graph.choose(type_, name), Missing):
                return None
            supplier = self._find(type_, name)
        return cast("T", supplier())

    def get_all(self, type_: Callable[..., T]) -> list[T]:
        return [cast("T", self.assembly.supplier(node)()) for node in self._graph.providers(type_)]

    def contains(self, type_: Callable[..., object]) -> bool:
        return self._graph.contains(type_)

    def _find(self, type_: object, name: str | None) -> Supplier:
        chosen = self._graph.choose(type_, name)
        if not isinstance(chosen, One):
            raise PodNotFoundError(not_found(type_, name, self._graph))
        supplier = self._asked[type_, name] = self.assembly.supplier(chosen.node)
        if isinstance(supplier, Constant) and name is None:
            self.singletons[type_] = supplier.pod
        return supplier
