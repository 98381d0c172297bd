"""Finding the pods that provide a type. Pure: looks at types, makes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pilotage.container.dependency import Dependency
from pilotage.container.node import Ambiguous, LeftOut, Many, Missing, Node, One, Resolution
from pilotage.container.pod import Pod
from pilotage.container.typematch import (
    is_plain,
    is_protocol,
    missing_members,
    protocol_members,
)


class Providers:
    """An index from types to the nodes that provide them."""

    def __init__(self, nodes: Iterable[Node], bindings: Mapping[object, Pod]) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.rank)
        self._bound = {
            type_: node for type_, pod in bindings.items() for node in self._nodes if node.pod is pod
        }
        self._nominal = _index(self._nodes)
        self._found: dict[object, tuple[Node, ...]] = {}
        self._chosen: dict[tuple[object, str | None], One | Missing | Ambiguous] = {}

    def of(self, type_: object) -> tuple[Node, ...]:
        """All providers of a type in order: classes that name it or, if none does, that fit its protocol."""
        found = self._found.get(type_)
        if found is None:
            providers = dict.fromkeys(self._nominal.get(type_) or self._fitting(type_))
            if type_ in self._bound:
                providers[self._bound[type_]] = None
            found = self._found[type_] = tuple(providers)
        return found

    def choose(self, type_: object, name: str | None = None) -> One | Missing | Ambiguous:
        """The one provider of a type: by name, by binding, by being primary, or by being alone."""
        chosen = self._chosen.get((type_, name))
        if chosen is None:
            chosen = self._chosen[type_, name] = self._choose(type_, name, self.of(type_))
        return chosen

    def _choose(
        self, type_: object, name: str | None, candidates: tuple[Node, ...]
    ) -> One | Missing | Ambiguous:
        if name is not None:
            candidates = tuple(node for node in candidates if node.name == name)
        elif self._bound.get(type_) in candidates:
            return One(self._bound[type_])
        elif primary := tuple(node for node in candidates if node.pod.primary):
            candidates = primary
        match candidates:
            case ():
                return Missing()
            case (node,):
                return One(node)
            case several:
                return Ambiguous(several)

    def resolve(self, dependency: Dependency, asking: Node) -> Resolution:
        """What a parameter of the asking pod leads to."""
        candidates = _without(asking, self.of(dependency.type_))
        chosen = self._choose(dependency.type_, dependency.qualifier, candidates)
        if not isinstance(chosen, Missing):
            return chosen
        if dependency.collection is not None:
            members = tuple(node for node in self.of(dependency.element) if node is not asking)
            if members or not (dependency.may_be_missing or is_plain(dependency.element)):
                return Many(members)
        return LeftOut() if dependency.may_be_missing else chosen

    def _fitting(self, protocol: object) -> Iterable[Node]:
        if not is_protocol(protocol) or not protocol_members(protocol):
            return ()
        return (node for node in self._nodes if not missing_members(node.pod.type_, protocol))


def _index(nodes: Iterable[Node]) -> dict[object, tuple[Node, ...]]:
    found: defaultdict[object, list[Node]] = defaultdict(list)
    for node in nodes:
        for type_ in node.pod.provided_types:
            found[type_].append(node)
    return {type_: tuple(provided) for type_, provided in found.items()}


def _without(asking: Node, candidates: tuple[Node, ...]) -> tuple[Node, ...]:
    """A pod that wraps its own interface means the others; alone, it needs itself, which is a cycle."""
    others = tuple(node for node in candidates if node is not asking)
    return others or candidates
