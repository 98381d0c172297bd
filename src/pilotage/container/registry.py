"""What was registered so far: pods in order, and which one was bound to which type."""

from __future__ import annotations

from types import ModuleType
from typing import get_origin

from pilotage.container.graph import Graph
from pilotage.container.names import snake_case, type_name
from pilotage.container.pod import Pod, given
from pilotage.container.signature import is_factory
from pilotage.errors import PodDefinitionError


class Registry:
    """Collects the pods of an application; registering the same thing again changes nothing."""

    def __init__(self) -> None:
        # By identity, because instances need not be hashable; the pod keeps its target alive.
        self._pods: dict[int, Pod] = {}
        self._bindings: dict[object, Pod] = {}

    def add(self, target: object) -> Pod:
        """Register a class, a factory or an instance, and what its stereotype brings along."""
        pod = self._pods.get(id(target))
        if pod is None:
            pod = self._pods[id(target)] = self._define(target)
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

    def graph(self) -> Graph:
        """The dependency graph of what is registered now."""
        return Graph(tuple(self._pods.values()), dict(self._bindings))

    def __len__(self) -> int:
        return len(self._pods)

    def _define(self, target: object) -> Pod:
        if isinstance(target, type) or is_factory(target):
            return Pod.get_or_none(target) or Pod().applied_to(target)
        _refuse_wrong_instance(target)
        return given(target, self._free_name(snake_case(type(target).__name__)))

    def _free_name(self, name: str) -> str:
        """Instances cannot say their names, so the second of a class gets a number."""
        taken = {pod.name for pod in self._pods.values()}
        numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
        return name if name not in taken else next(free for free in numbered if free not in taken)


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
