"""Registry of an application's pods: scanning for them, their definitions, and their shared graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from types import ModuleType
from typing import TypeVar, get_origin

from pilotage.container.graph import Graph
from pilotage.container.names import snake_case, type_name
from pilotage.container.pod import Pod, given
from pilotage.container.signature import is_factory
from pilotage.container.typematch import is_protocol
from pilotage.errors import PodDefinitionError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_MOST = 1024
_undecorated: dict[object, Pod] = {}
_given: dict[tuple[type, str], Pod] = {}
_graphs: dict[tuple[tuple[Pod, ...], tuple[tuple[object, Pod], ...]], Graph] = {}


def find_pods(root: str | ModuleType, exclude: str | Iterable[str] = ()) -> list[object]:
    """Return the pods defined in a module or, for a package, in it and everything below, in order of definition.

    `exclude` names modules to leave out with all below them; `*` stands for any part of a name.
    """
    patterns = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    return [pod for module in _modules(root, patterns) for pod in _pods_defined_in(module)]


def _modules(root: str | ModuleType, patterns: tuple[str, ...]) -> Iterator[ModuleType]:
    module = _find(root) if isinstance(root, str) else root
    yield module
    import pkgutil  # noqa: PLC0415 - only for those who scan

    for info in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda info: info.name):
        name = f"{module.__name__}.{info.name}"
        # Importing a __main__ would run the program.
        if info.name != "__main__" and not any(fnmatchcase(name, pattern) for pattern in patterns):
            yield from _modules(_import(name), patterns)


def _find(name: str) -> ModuleType:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise PodDefinitionError(
            f"scan({name!r}): there is no module {error.name!r}. "
            "Write the dotted name of a package or module that can be imported, or pass the module itself."
        ) from error


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        error.add_note(f"raised while importing {name} to scan it for pods")
        raise


def _pods_defined_in(module: ModuleType) -> Iterator[object]:
    """Yield the pods that a module defines; imported ones belong to another module."""
    for value in tuple(vars(module).values()):
        if getattr(value, "__module__", None) == module.__name__ and Pod.exists(value):
            yield value


def definition_of(target: object) -> Pod:
    """Return the definition of a class or factory, decorated or not."""
    pod = Pod.get_or_none(target) or _undecorated.get(target)
    if pod is None:
        pod = Pod().applied_to(target)
        if _is_importable(target):
            _cache(_undecorated, target, pod)
    return pod


def definition_of_instance(type_: type, name: str) -> Pod:
    """Return the definition of a ready instance of a class, under a name."""
    pod = _given.get((type_, name))
    if pod is None:
        pod = given(type_, name)
        if _is_importable(type_):
            _cache(_given, (type_, name), pod)
    return pod


def graph_of(pods: tuple[Pod, ...], bindings: Mapping[object, Pod]) -> Graph:
    """Return the graph of these pods and bindings; a graph with an unresolved hint is not cached."""
    key = (pods, tuple(bindings.items()))
    graph = _graphs.get(key)
    if graph is None:
        graph = Graph(pods, dict(bindings))
        if not graph.unreadable and all(_is_importable(pod.target) for pod in pods):
            _cache(_graphs, key, graph)
    return graph


def _is_importable(target: object) -> bool:
    return "<locals>" not in getattr(target, "__qualname__", "<locals>")


def _cache(cache: dict[K, T], key: K, value: T) -> None:
    """Add a value to a bounded cache, which is emptied when it is full."""
    if len(cache) >= _MOST:
        cache.clear()
    cache[key] = value


class Registry:
    """The pods of an application; each is registered once."""

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
        """Register a class, a factory or an instance, and the post-processors of its stereotype."""
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
        """Return the dependency graph of the pods registered so far."""
        if self._graph is None or self._graph.unreadable:
            self._graph = graph_of(tuple(self._pods.values()), self._bindings).holding(dict(self._instances))
        return self._graph

    def contains(self, type_: object) -> bool:
        """Return whether anything provides the type; called often during assembly, so without a graph."""
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
        """Index the types of a pod; return False if the return type of a factory is not defined yet."""
        try:
            self._provided.update(pod.provided_types)
        except PodDefinitionError:
            return False
        return True

    def _free_name(self, name: str) -> str:
        """Return a name for an instance: the second one of a class gets a number."""
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
            f"add({target!r}): {type_name(type(target))} does not identify a pod. "
            "Wrap the value in a class of its own (@Configuration)."
        )
