"""What was registered so far: pods in order, and which one was bound to which type."""

from __future__ import annotations

from types import ModuleType
from typing import get_origin

from pilotage.container.graph import Graph
from pilotage.container.names import snake_case, type_name
from pilotage.container.pod import Pod
from pilotage.container.shared import definition_of, definition_of_instance, graph_of
from pilotage.container.signature import is_factory
from pilotage.container.typematch import is_protocol
from pilotage.errors import PodDefinitionError


class Registry:
    """Collects the pods of an application; registering the same thing again changes nothing."""

    def __init__(self) -> None:
        # By identity, because instances need not be hashable; a definition or `_instances` keeps the target alive.
        self._pods: dict[int, Pod] = {}
        self._instances: dict[Pod, object] = {}
        self._names: set[str] = set()
        self._provided: set[object] = set()
        self._unread: list[Pod] = []
        self._bindings: dict[object, Pod] = {}
        self._graph: Graph | None = None

    def add(self, target: object) -> Pod:
        """Register a class, a factory or an instance, and what its stereotype brings along."""
        pod = self._pods.get(id(target))
        if pod is None:
            pod = self._pods[id(target)] = self._define(target)
            self._names.add(pod.name)
            self._unread.append(pod)
            self._graph = None
            for processor in pod.post_processors:
                self.add(processor)
        return pod

    def bind(self, type_: object, target: object) -> None:
        """Register the target and prefer it for the type; the last binding wins."""
        if isinstance(type_, str) or not callable(type_):
            raise PodDefinitionError(
                f"bind({type_!r}, ...): the first argument is the type to provide. Write bind(SomeType, ...)."
            )
        self._bindings[type_] = self.add(target)
        self._graph = None

    def graph(self) -> Graph:
        """The dependency graph of what is registered now."""
        if self._graph is None or self._graph.unreadable:
            self._graph = graph_of(tuple(self._pods.values()), self._bindings).holding(dict(self._instances))
        return self._graph

    def contains(self, type_: object) -> bool:
        """Whether anything provides the type; asked often while an application is put together, so without a graph."""
        self._unread = [pod for pod in self._unread if not self._is_read(pod)]
        if type_ in self._provided or type_ in self._bindings:
            return True
        return is_protocol(type_) and self.graph().contains(type_)

    def __len__(self) -> int:
        return len(self._pods)

    def _define(self, target: object) -> Pod:
        if isinstance(target, type) or is_factory(target):
            return definition_of(target)
        _refuse_wrong_instance(target)
        pod = definition_of_instance(type(target), self._free_name(snake_case(type(target).__name__)))
        self._instances[pod] = target
        return pod

    def _is_read(self, pod: Pod) -> bool:
        """Note what a pod provides; the return type of a factory may name what is not defined yet."""
        try:
            self._provided.update(pod.provided_types)
        except PodDefinitionError:
            return False
        return True

    def _free_name(self, name: str) -> str:
        """Instances cannot say their names, so the second of a class gets a number."""
        numbered = (f"{name}_{number}" for number in range(2, len(self._names) + 3))
        return name if name not in self._names else next(free for free in numbered if free not in self._names)


def _refuse_wrong_instance(target: object) -> None:
    if isinstance(target, ModuleType):
        raise PodDefinitionError(
            f"add({target.__name__}): a module is not a pod. "
            f"Write scan({target.__name__}) to add the pods in it."
        )
    if get_origin(target) is not None:
        raise PodDefinitionError(
            f"add({type_name(target)}): a type with arguments cannot be made. "
            f"Add a class that derives from {type_name(target)}."
        )
    if isinstance(target, Pod):
        name = type(target).__name__
        raise PodDefinitionError(
            f"add({name}(...)): this decorates nothing yet. Write @{name}(...) above a class."
        )
    if type(target).__module__ == "builtins":
        raise PodDefinitionError(
            f"add({target!r}): {type_name(type(target))} says nothing about its meaning. "
            "Wrap the value in a class of its own (@Configuration)."
        )
