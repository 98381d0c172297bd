"""Messages for the faults of a graph, with the path, similar types and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import isabstract
from itertools import islice
from typing import assert_never, get_origin

from pilotage.container.dependency import Dependency
from pilotage.container.faults import (
    Cycle,
    DuplicateName,
    EndlessCleanup,
    Fault,
    Misbound,
    NotEager,
    Undecided,
    Unprovided,
    Unreadable,
    WidenedScope,
    find_faults,
)
from pilotage.container.graph import Ambiguous, Graph, Node
from pilotage.container.names import enumerate_names, type_name
from pilotage.container.pod import Pod, Scope, provision_of
from pilotage.container.processing import IPostProcessor
from pilotage.container.signature import is_factory
from pilotage.container.typematch import (
    is_plain,
    is_protocol,
    missing_members,
    protocol_members,
    provided_types,
)
from pilotage.errors import PodDefinitionError, Problem

_SHOWN = 3


def check(graph: Graph) -> list[Problem]:
    """Return all problems that prevent the application from starting: the graph's, then the post-processors'."""
    problems = [explain(fault, graph) for fault in graph.derive(find_faults)]
    for node in graph.providers(IPostProcessor):
        problems.extend(node.pod.type_.check(graph))
    return problems


def explain(fault: Fault, graph: Graph) -> Problem:
    """Return the problem that describes a fault."""
    match fault:
        case Unreadable(node, error):
            return _unreadable(node, error, graph)
        case DuplicateName(name, nodes):
            return _duplicate_name(name, nodes)
        case Misbound(type_, node):
            return _misbound(type_, node)
        case Unprovided(dependency, nodes):
            return _unprovided(dependency, nodes, graph)
        case Undecided(dependency, nodes, candidates):
            return _undecided(dependency, nodes, candidates, graph)
        case Cycle(nodes):
            return _cycle(nodes)
        case WidenedScope(path):
            return _widened_scope(path)
        case NotEager(node, why):
            return Problem(
                "not_eager",
                f"{node.label} is {why}, so it must be a singleton made at start.",
                _fix_life(node),
            )
        case EndlessCleanup(node):
            return Problem(
                "endless_cleanup",
                f"{node.label} is a prototype with a cleanup, and nothing ends that could run it.",
                "Make it a singleton or a context pod, or return the pod instead of yielding it.",
            )
        case _:
            assert_never(fault)


def how_to_provide(type_: object, graph: Graph, name: str | None = None) -> str:
    """Return the remedy when nothing provides a type: install, add or bind; then the near misses."""
    misses = near_misses(type_, graph, name)
    hint = f" Near miss: {', '.join(misses)}." if misses else ""
    return f"{_remedy(type_, graph, name)}{hint}"


def how_to_choose(type_: object, candidates: Sequence[Node]) -> str:
    """Return the remedy when several pods provide a type."""
    first, needed = candidates[0], type_name(type_)
    return (
        f"Mark one with primary=True, bind one: app.bind({needed}, {first.label}), "
        f'or ask for one by name: Annotated[{needed}, Qualifier("{first.name}")].'
    )


def not_found(type_: object, name: str | None, graph: Graph) -> str:
    """Return the message for a request of a type that no pod, or no single pod, provides."""
    needed = type_name(type_)
    called = f" called {name!r}" if name is not None else ""
    found = graph.choose(type_, name)
    if isinstance(found, Ambiguous):
        candidates = found.candidates
        return (
            f"{len(candidates)} pods provide {needed}{called}: {_labels(candidates)}. "
            f'Ask for one by name: get({needed}, "{candidates[0].name}"), or for all: get_all({needed}).'
        )
    return f"Nothing provides {needed}{called}. {how_to_provide(type_, graph, name)}"


def _remedy(type_: object, graph: Graph, name: str | None) -> str:
    needed, provision = type_name(type_), provision_of(type_)
    if provision is not None and not graph.contains(type_):
        setup = f", and {provision.setup}" if provision.setup else ""
        return f'Install the provider: pip install "{provision.requirement}"{setup}.'
    if name is not None:
        return f'Give the pod that name: @Pod(name="{name}").'
    if isinstance(type_, type) and not isabstract(type_) and not is_protocol(type_):
        return f"Add it: app.add({needed}), or decorate it with @Pod and scan {type_.__module__}."
    return f"Add a class that implements it (@Pod), or bind one: app.bind({needed}, ...)."


def _unreadable(node: Node, error: PodDefinitionError, graph: Graph) -> Problem:
    """Return the problem of an error `where: what. remedy.`, with the path in front."""
    where, _, text = str(error).partition(": ")
    summary, _, remedy = text.partition(". ")
    path = (*_path(node, graph)[:-1], where)
    return Problem("unreadable_hint", f"{summary}.", remedy, path=path, detail=error)


def _unprovided(dependency: Dependency, nodes: Sequence[Node], graph: Graph) -> Problem:
    needed, path = type_name(dependency.type_), _path(nodes[0], graph)
    if is_plain(dependency.type_):
        return Problem(
            "missing",
            f"nothing provides {needed} for parameter {dependency.parameter!r}.",
            "Give the parameter a default, take a @Configuration class that holds the value, "
            f"or make {nodes[0].label} in a @Pod factory function.",
            path=path,
        )
    called = f" called {dependency.qualifier!r}" if dependency.qualifier is not None else ""
    provision = provision_of(dependency.type_)
    problem = Problem(
        "missing",
        f"nothing provides {needed}{called}{_also(nodes)}.",
        how_to_provide(dependency.type_, graph, dependency.qualifier),
        path=(*path, needed),
        detail=dependency.type_,
    )
    return problem if provision is None else replace(problem, family=provision.family)


def _undecided(
    dependency: Dependency, nodes: Sequence[Node], candidates: Sequence[Node], graph: Graph
) -> Problem:
    needed = type_name(dependency.type_)
    return Problem(
        "ambiguous",
        f"{len(candidates)} pods provide {needed}: {_labels(candidates)}{_also(nodes)}.",
        how_to_choose(dependency.type_, candidates),
        path=(*_path(nodes[0], graph), needed),
    )


def _cycle(nodes: Sequence[Node]) -> Problem:
    return Problem(
        "cycle",
        f"{nodes[0].label} needs itself." if len(nodes) == 1 else "these pods need each other.",
        "Move what they share into a pod of its own, "
        "or let one of them take Application and get the other when it is needed.",
        path=tuple(node.label for node in (*nodes, nodes[0])),
    )


def _widened_scope(path: Sequence[Node]) -> Problem:
    holder, held = path[0].label, path[-1].label
    return Problem(
        "widened_scope",
        f"{holder} lives as long as the application and would keep {held} beyond its context.",
        f"Make {holder} a context pod (scope=Scope.CONTEXT), "
        f"or take Application in it and call get({held}) inside the context.",
        path=tuple(node.label for node in path),
    )


def _duplicate_name(name: str, nodes: Sequence[Node]) -> Problem:
    places = [f"{node.label} ({_module(node)})" for node in nodes]
    return Problem(
        "duplicate_name",
        f"{len(nodes)} pods are called {name!r}: {enumerate_names(places)}.",
        f'Give one of them another name: @Pod(name="other_{name}").',
    )


def _misbound(type_: object, node: Node) -> Problem:
    needed = type_name(type_)
    if is_protocol(type_):
        lacking = enumerate_names(missing_members(node.pod.type_, type_))
        remedy = f"Give {node.label} what it lacks ({lacking}), or bind another class."
    elif is_factory(node.target):
        remedy = f"Let {node.label} return {needed}, or bind another factory."
    else:
        remedy = f"Let {node.label} derive from {needed}, or bind another class."
    return Problem("misbound", f"{needed} is bound to {node.label}, which does not implement it.", remedy)


def _fix_life(node: Node) -> str:
    if node.pod.scope is Scope.SINGLETON:
        return f"Remove lazy=True from {node.label}."
    return f"Remove scope=Scope.{node.pod.scope.name} from {node.label}."


def _also(nodes: Sequence[Node]) -> str:
    return f" (also needed by {enumerate_names([node.label for node in nodes[1:]])})" if nodes[1:] else ""


def _path(node: Node, graph: Graph) -> tuple[str, ...]:
    return tuple(step.label for step in graph.path_to(node))


def _labels(nodes: Sequence[Node]) -> str:
    return enumerate_names([node.label for node in nodes])


def _module(node: Node) -> str:
    module: str = node.target.__module__
    return module


def near_misses(type_: object, graph: Graph, name: str | None = None) -> list[str]:
    """Return at most three candidates that almost provide the type, each with its problem."""
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
    """Yield `Orders (provides Repository[Order])` where `Repository[User]` is needed."""
    origin = get_origin(type_)
    for node in graph.providers(origin) if origin is not None else ():
        provided = (t for t in provided_types(node.pod.type_) if get_origin(t) is origin)
        yield f"{node.label} (provides {type_name(next(provided, origin))})"


def _unregistered(type_: object, graph: Graph) -> Iterator[str]:
    """Yield implementations that exist in memory but are not registered."""
    registered = {node.target for node in graph.nodes if isinstance(node.target, type)}
    needed = get_origin(type_) or type_
    for class_ in _subclasses(needed):
        if class_ in registered or isabstract(class_) or is_protocol(class_) or _is_twin(class_, needed):
            continue
        if Pod.exists(class_):
            yield f"{class_.__name__} (not scanned: {class_.__module__})"
        else:
            yield f"{class_.__name__} (not a pod: decorate it with @Pod)"


def _is_twin(class_: type, needed: object) -> bool:
    """Return whether a class has the full name of the needed one, as generated copies of it have."""
    named = (getattr(needed, "__module__", None), getattr(needed, "__qualname__", None))
    return (class_.__module__, class_.__qualname__) == named


def _subclasses(class_: object) -> Iterator[type]:
    waiting: list[type] = type.__subclasses__(class_) if isinstance(class_, type) else []
    for subclass in waiting:
        yield subclass
        waiting.extend(type.__subclasses__(subclass))


def _nearly_fitting(type_: object, graph: Graph) -> Iterator[str]:
    """Yield pods that have some members of a protocol, but not all."""
    if not is_protocol(type_):
        return
    members = protocol_members(type_)
    for node in graph.nodes:
        lacking = missing_members(node.pod.type_, type_)
        if 0 < len(lacking) < len(members):
            yield f"{node.label} (lacks {', '.join(lacking)})"


def _alike(type_: object, graph: Graph) -> Iterator[str]:
    """Yield registered types with a name similar to the needed one."""
    names = {type_name(node.pod.type_): node for node in graph.nodes}
    from difflib import get_close_matches  # noqa: PLC0415 - only for the text of an error

    for name in get_close_matches(type_name(type_), names, cutoff=0.75):
        module: object = getattr(names[name].pod.type_, "__module__", None)
        yield f"{name} of {module} (a similar name)"
