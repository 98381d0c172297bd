"""Makes the pods of a checked graph in order, and looks them up for one application."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from threading import RLock
from typing import TypeVar, cast

from pilotage.container.explain import not_found
from pilotage.container.graph import Edge, Graph, LeftOut, Many, Missing, Node, One
from pilotage.container.lifecycle import Context, ILifecycle, Teardown
from pilotage.container.names import target_name
from pilotage.container.pod import Scope
from pilotage.container.processing import IContainer, IContainerAware, IPostProcessor
from pilotage.container.signature import Making
from pilotage.errors import ApplicationStateError, PodDefinitionError, PodNotFoundError
from pilotage.values import value

Supplier = Callable[[], object]
_NOTHING = object()
T = TypeVar("T")


class Constant:
    """Supplier of a pod that has been made; plans recognise it and bind the pod itself."""

    __slots__ = ("pod",)

    def __init__(self, pod: object) -> None:
        self.pod = pod

    def __call__(self) -> object:
        return self.pod


def plan(node: Node, graph: Graph, suppliers: Mapping[Node, Supplier]) -> Supplier:
    """Return a closure that calls the node's constructor or factory; pods that are made already are bound now."""
    target: Supplier = node.pod.target
    edges = graph.edges(node)
    if not edges:
        return target
    arguments = {
        edge.dependency.parameter: _argument(edge, suppliers)
        for edge in edges
        if not (isinstance(edge.resolution, LeftOut) and edge.dependency.has_default)
    }
    constants = {name: supply.pod for name, supply in arguments.items() if isinstance(supply, Constant)}
    if constants:
        target = partial(target, **constants)
    variable = [(name, supply) for name, supply in arguments.items() if name not in constants]
    return _call_with(target, variable) if variable else target


def make(supply: Supplier, node: Node, teardown: Teardown) -> object:
    """Make a pod without waiting; the cleanup of a generator is added to the teardown."""
    made = supply()
    if node.pod.making is not Making.YIELD:
        return made
    generator = cast("Generator[object, None, None]", made)
    pod = _first(node, next(generator, _NOTHING))
    teardown.push(f"the cleanup of {node.label}", partial(_end, node, generator))
    return pod


async def make_async(supply: Supplier, node: Node, teardown: Teardown) -> object:
    """Make a pod of an async factory."""
    if node.pod.making is Making.AWAIT:
        return await cast("Awaitable[object]", supply())
    generator = cast("AsyncGenerator[object, None]", supply())
    pod = _first(node, await anext(generator, _NOTHING))
    teardown.push(f"the cleanup of {node.label}", partial(_end_async, node, generator))
    return pod


def _call_with(target: Callable[..., object], variable: list[tuple[str, Supplier]]) -> Supplier:
    def call() -> object:
        return target(**{name: supply() for name, supply in variable})

    return call


def _argument(edge: Edge, suppliers: Mapping[Node, Supplier]) -> Supplier:
    match edge.resolution:
        case One(node):
            return suppliers[node]
        case Many(nodes):
            return _collection(edge, nodes, [suppliers[node] for node in nodes])
        case _:
            return Constant(None)


def _collection(edge: Edge, nodes: tuple[Node, ...], suppliers: list[Supplier]) -> Supplier:
    collect = cast("Callable[[object], object]", edge.dependency.collection)
    if collect is dict:
        return lambda: {node.name: supply() for node, supply in zip(nodes, suppliers, strict=True)}
    return lambda: collect(supply() for supply in suppliers)


def _first(node: Node, pod: object) -> object:
    if pod is _NOTHING:
        raise PodDefinitionError(f"{node.label} ended without a yield. Yield the pod exactly once.")
    return pod


def _end(node: Node, generator: Generator[object, None, None]) -> None:
    if next(generator, _NOTHING) is not _NOTHING:
        generator.close()
        raise _yielded_twice(node)


async def _end_async(node: Node, generator: AsyncGenerator[object, None]) -> None:
    if await anext(generator, _NOTHING) is not _NOTHING:
        await generator.aclose()
        raise _yielded_twice(node)


def _yielded_twice(node: Node) -> PodDefinitionError:
    return PodDefinitionError(f"{node.label} yielded twice. Yield the pod once; what follows is the cleanup.")


@value
class Schedule:
    """The pods that are made at start, in order. It depends on the definitions alone.

    `processors`      the post-processors, in order
    `first`           the post-processors and all they need, dependencies first; these pods are not processed
    `rest`            all other pods, dependencies first
    `made_at_start`   the eager pods and all they need
    `awaited`         the pods of async factories
    """

    processors: tuple[Node, ...]
    first: tuple[Node, ...]
    rest: tuple[Node, ...]
    made_at_start: frozenset[Node]
    awaited: frozenset[Node]


def schedule(graph: Graph) -> Schedule:
    """Return the order in which the pods of a graph are made."""
    processors = graph.providers(IPostProcessor)
    unprocessed = {*processors, *graph.reachable(*processors)}
    eager = [node for node in graph.nodes if node.is_eager]
    return Schedule(
        processors,
        tuple(node for node in graph.build_order if node in unprocessed),
        tuple(node for node in graph.build_order if node not in unprocessed),
        frozenset({*eager, *graph.reachable(*eager)}),
        frozenset(node for node in graph.nodes if node.pod.making.is_async),
    )


class Assembly:
    """Makes suppliers of nodes: eager singletons are made at once, others when they are needed."""

    def __init__(self, graph: Graph, container: IContainer) -> None:
        self.teardown = Teardown()
        self._graph = graph
        self._schedule = graph.derive(schedule)
        self._container = container
        self._suppliers: dict[Node, Supplier] = {}
        self._in_progress: set[Node] = set()
        self._lifecycles: list[tuple[Node, ILifecycle]] = []
        self._processors: list[IPostProcessor] | None = None
        self._lock = RLock()

    async def build(self) -> None:
        """Make the pods of the start: post-processors first, and always dependencies first."""
        await self._prepare_all(self._schedule.first)
        made = (self._suppliers[node]() for node in self._schedule.processors)
        self._processors = [p for p in cast("Iterable[IPostProcessor]", made) if _processes(p)]
        await self._prepare_all(self._schedule.rest)

    async def start(self) -> None:
        """Call the start hooks, dependencies first; each one that returned is stopped at the end."""
        for node, pod in self._lifecycles:
            await self._start(node, pod)

    def supplier(self, node: Node) -> Supplier:
        """Return the supplier of a pod; if it is needed while the application starts, it is made ahead of its turn."""
        if node not in self._suppliers:
            needed_now = {node, *self._graph.reachable(node)}
            for needed in self._graph.build_order:
                if needed in needed_now and needed not in self._suppliers:
                    self._refuse_too_early(needed)
                    self._prepare(needed)
        return self._suppliers[node]

    def _refuse_too_early(self, node: Node) -> None:
        would_miss_processors = self._processors is None and node not in self._schedule.first
        if node.pod.making.is_async or node in self._in_progress or would_miss_processors:
            raise ApplicationStateError(
                f"{node.label} cannot be made yet: the application is starting. "
                "Take it as a constructor parameter, or get it in start() of an ILifecycle."
            )

    async def _prepare_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node in self._suppliers:
                continue
            if node in self._schedule.awaited:
                await self._make_async(node)
            else:
                self._prepare(node)

    def _make(self, node: Node, supply: Supplier) -> None:
        self._in_progress.add(node)
        try:
            self._register(node, make(supply, node, self.teardown))
        except BaseException as error:
            self._note_path(error, node)
            raise
        self._in_progress.discard(node)

    async def _make_async(self, node: Node) -> None:
        self._in_progress.add(node)
        try:
            pod = await make_async(plan(node, self._graph, self._suppliers), node, self.teardown)
            self._register(node, pod)
        except BaseException as error:
            self._note_path(error, node)
            raise
        self._in_progress.discard(node)

    def _prepare(self, node: Node) -> None:
        """Make the node's pod, or prepare how it will be made."""
        if node.pod.making is Making.GIVEN:
            self._take(node, self._graph.registered(node))
            return
        supply = plan(node, self._graph, self._suppliers)
        match node.pod.scope:
            case Scope.SINGLETON if node in self._schedule.made_at_start:
                self._make(node, supply)
            case Scope.SINGLETON:
                self._suppliers[node] = partial(self._make_late, node, supply)
            case Scope.PROTOTYPE:
                self._suppliers[node] = self._prototype(node, supply)
            case Scope.CONTEXT:
                self._suppliers[node] = self._contextual(node, supply)

    def _note_path(self, error: BaseException, node: Node) -> None:
        path = " -> ".join(each.label for each in self._graph.path_to(node))
        error.add_note(f"raised while making {path}")

    def _take(self, node: Node, pod: object) -> None:
        """Register a ready instance; the application itself is not processed."""
        if isinstance(pod, IContainer):
            self._suppliers[node] = Constant(pod)
        else:
            self._register(node, pod)

    def _register(self, node: Node, pod: object) -> None:
        # The bases are compared first: most pods are neither, and isinstance with an abstract class is slow.
        if ILifecycle in type(pod).__mro__ and isinstance(pod, ILifecycle):
            self._lifecycles.append((node, pod))
        self._suppliers[node] = Constant(self._finish(node, pod))

    def _make_late(self, node: Node, supply: Supplier) -> object:
        """Make a lazy singleton once; a second caller gets the same pod."""
        with self._lock:
            if not isinstance(self._suppliers[node], Constant):
                pod = make(supply, node, self.teardown)
                self._suppliers[node] = Constant(self._finish(node, pod))
            return self._suppliers[node]()

    def _prototype(self, node: Node, supply: Supplier) -> Supplier:
        if not self._processors and node not in self._graph.providers(IContainerAware):
            return supply
        return lambda: self._finish(node, supply())

    def _contextual(self, node: Node, supply: Supplier) -> Supplier:
        def make_in(teardown: Teardown) -> object:
            return self._finish(node, make(supply, node, teardown))

        return lambda: Context.active(self._container, node.label).get(node, make_in)

    def _finish(self, node: Node, pod: object) -> object:
        """Give a new pod the container and pass it through the post-processors."""
        if IContainerAware in type(pod).__mro__ and isinstance(pod, IContainerAware):
            pod.set_container(self._container)
        for processor in self._processors or ():
            pod = processor.post_process(pod)
            if pod is None:
                raise PodDefinitionError(
                    f"{target_name(processor)}.post_process returned None for {node.label}. "
                    "Return the pod, or what is to stand in its place."
                )
        return pod

    async def _start(self, node: Node, pod: ILifecycle) -> None:
        try:
            await pod.start()
        except BaseException as error:
            error.add_note(f"raised by {node.label}.start()")
            raise
        self.teardown.push(f"{node.label}.stop()", pod.stop)


def _processes(processor: IPostProcessor) -> bool:
    """Return whether a post-processor overrides `post_process`; others are not called for every pod."""
    return type(processor).post_process is not IPostProcessor.post_process


class Container(IContainer):
    """The pods of a checked graph.

    `assembly`     makes the pods; it is built, started and torn down by the application
    `singletons`   the singletons by the types that were asked for: the fast path of `get`
    """

    def __init__(self, graph: Graph) -> None:
        self.assembly = Assembly(graph, self)
        self.singletons: dict[object, object] = {}
        self._graph = graph
        self._found: dict[tuple[object, str | None], Supplier] = {}

    def get(self, type_: Callable[..., T], name: str | None = None) -> T:
        supplier = self._found.get((type_, name)) or self._find(type_, name)
        return cast("T", supplier())

    def get_or_none(self, type_: Callable[..., T], name: str | None = None) -> T | None:
        supplier = self._found.get((type_, name))
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
        supplier = self._found[type_, name] = self.assembly.supplier(chosen.node)
        if isinstance(supplier, Constant) and name is None:
            self.singletons[type_] = supplier.pod
        return supplier
