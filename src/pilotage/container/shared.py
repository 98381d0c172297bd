"""What the applications of a process share: definitions and graphs, each computed once. Never an instance.

Only importable classes and functions are kept here. They live as long as the process anyway; what is defined inside
a function may hold values of that call, and is released with its application.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from pilotage.container.graph import Graph
from pilotage.container.pod import Pod, given

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST = 1024

_undecorated: dict[object, Pod] = {}
_given: dict[tuple[type, str], Pod] = {}
_graphs: dict[tuple[tuple[Pod, ...], tuple[tuple[object, Pod], ...]], Graph] = {}


def definition_of(target: object) -> Pod:
    """The definition of a class or factory, decorated or not."""
    pod = Pod.get_or_none(target) or _undecorated.get(target)
    if pod is None:
        pod = Pod().applied_to(target)
        if _is_importable(target):
            _keep(_undecorated, target, pod)
    return pod


def definition_of_instance(type_: type, name: str) -> Pod:
    """The definition of a ready instance of a class, under a name."""
    pod = _given.get((type_, name))
    if pod is None:
        pod = given(type_, name)
        if _is_importable(type_):
            _keep(_given, (type_, name), pod)
    return pod


def graph_of(pods: tuple[Pod, ...], bindings: Mapping[object, Pod]) -> Graph:
    """The graph of these pods and bindings; one with a hint that cannot be resolved yet is read again each time."""
    key = (pods, tuple(bindings.items()))
    graph = _graphs.get(key)
    if graph is None:
        graph = Graph(pods, dict(bindings))
        if not graph.unreadable and all(_is_importable(pod.target) for pod in pods):
            _keep(_graphs, key, graph)
    return graph


def _is_importable(target: object) -> bool:
    return "<locals>" not in getattr(target, "__qualname__", "<locals>")


def _keep(kept: dict[K, T], key: K, value: T) -> None:
    """Keep a value; a process that defines ever new classes starts over from time to time."""
    if len(kept) >= _MOST:
        kept.clear()
    kept[key] = value
