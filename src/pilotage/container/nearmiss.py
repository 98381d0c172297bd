"""Near misses: what almost provides a type, and what keeps it from doing so."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract
from itertools import islice
from typing import get_origin

from pilotage.container.graph import Graph
from pilotage.container.names import type_name
from pilotage.container.pod import Pod
from pilotage.container.typematch import is_protocol, missing_members, protocol_members, provided_types

_SHOWN = 3


def near_misses(type_: object, graph: Graph, name: str | None = None) -> list[str]:
    """At most three things that almost provide the type, each with what is wrong with it."""
    if name is not None and (called := [repr(node.name) for node in graph.providers(type_)]):
        return [f"{type_name(type_)} is provided under the name {wrong}" for wrong in called[:_SHOWN]]
    found = dict.fromkeys(
        (
            *_other_arguments(type_, graph),
            *_unregistered(type_, graph),
            *_nearly_fitting(type_, graph),
            *_alike(type_, graph),
        )
    )
    return list(islice(found, _SHOWN))


def _other_arguments(type_: object, graph: Graph) -> Iterator[str]:
    """`Orders (provides Repository[Order])` where `Repository[User]` is wanted."""
    origin = get_origin(type_)
    for node in graph.providers(origin) if origin is not None else ():
        provided = (t for t in provided_types(node.pod.type_) if get_origin(t) is origin)
        yield f"{node.label} (provides {type_name(next(provided, origin))})"


def _unregistered(type_: object, graph: Graph) -> Iterator[str]:
    """Implementations that exist in memory but were never registered."""
    registered = {node.target for node in graph.nodes if isinstance(node.target, type)}
    wanted = get_origin(type_) or type_
    for class_ in _subclasses(wanted):
        if class_ in registered or isabstract(class_) or is_protocol(class_) or _is_twin(class_, wanted):
            continue
        if Pod.exists(class_):
            yield f"{class_.__name__} (not scanned: {class_.__module__})"
        else:
            yield f"{class_.__name__} (not a pod: decorate it with @Pod)"


def _is_twin(class_: type, wanted: object) -> bool:
    """Whether a class goes by the full name of the wanted one, as those do that help to make it."""
    named = (getattr(wanted, "__module__", None), getattr(wanted, "__qualname__", None))
    return (class_.__module__, class_.__qualname__) == named


def _subclasses(class_: object) -> Iterator[type]:
    waiting: list[type] = type.__subclasses__(class_) if isinstance(class_, type) else []
    for subclass in waiting:
        yield subclass
        waiting.extend(type.__subclasses__(subclass))


def _nearly_fitting(type_: object, graph: Graph) -> Iterator[str]:
    """Pods that have some members of a protocol, but not all."""
    if not is_protocol(type_):
        return
    members = protocol_members(type_)
    for node in graph.nodes:
        lacking = missing_members(node.pod.type_, type_)
        if 0 < len(lacking) < len(members):
            yield f"{node.label} (lacks {', '.join(lacking)})"


def _alike(type_: object, graph: Graph) -> Iterator[str]:
    """Registered types whose names look like the wanted one."""
    names = {type_name(node.pod.type_): node for node in graph.nodes}
    from difflib import get_close_matches  # noqa: PLC0415 - only for the words of an error

    for name in get_close_matches(type_name(type_), names, cutoff=0.75):
        module: object = getattr(names[name].pod.type_, "__module__", None)
        yield f"{name} of {module} (a similar name)"
