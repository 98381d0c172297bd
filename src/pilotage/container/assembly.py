"""Assembly: makes the pods of a checked graph in order, and knows how each of them is supplied."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import RLock
from typing import cast

from pilotage.container.context import Context
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle, Teardown
from pilotage.container.making import Constant, Supplier, make, make_async, plan
from pilotage.container.names import target_name
from pilotage.container.node import Node
from pilotage.container.pod import Scope
from pilotage.container.processing import IContainer, IContainerAware, IPostProcessor
from pilotage.container.signature import Making
from pilotage.errors import ApplicationStateError, PodDefinitionError
from pilotage.values import value


@value
class Schedule:
    """What is made at start, and in which order. Follows from the definitions alone.

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
    """When the pods of a graph are made."""
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
    """Turns nodes into suppliers: eager singletons are made at once, for others the way is prepared."""

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
        """Make all that is made at start: post-processors first, and always dependencies first."""
        await self._prepare_all(self._schedule.first)
        made = (self._suppliers[node]() for node in self._schedule.processors)
        self._processors = [p for p in cast("Iterable[IPostProcessor]", made) if _processes(p)]
        await self._prepare_all(self._schedule.rest)

    async def start(self) -> None:
        """Call the start hooks, dependencies first; each one that returned is stopped at the end."""
        for node, pod in self._lifecycles:
            await self._start(node, pod)

    def supplier(self, node: Node) -> Supplier:
        """How the pod is supplied; asked for while the application starts, it is made ahead of its turn."""
        if node not in self._suppliers:
            wanted = {node, *self._graph.reachable(node)}
            for needed in self._graph.build_order:
                if needed in wanted and needed not in self._suppliers:
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
            self._keep(node, make(supply, node, self.teardown))
        except BaseException as error:
            self._note_path(error, node)
            raise
        self._in_progress.discard(node)

    async def _make_async(self, node: Node) -> None:
        self._in_progress.add(node)
        try:
            pod = await make_async(plan(node, self._graph, self._suppliers), node, self.teardown)
            self._keep(node, pod)
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
        """Keep a ready instance; the application itself is no pod to process."""
        if isinstance(pod, IContainer):
            self._suppliers[node] = Constant(pod)
        else:
            self._keep(node, pod)

    def _keep(self, node: Node, pod: object) -> None:
        # A look at the bases first: most pods are neither, and the check of an abstract class takes its time.
        if ILifecycle in type(pod).__mro__ and isinstance(pod, ILifecycle):
            self._lifecycles.append((node, pod))
        self._suppliers[node] = Constant(self._finish(node, pod))

    def _make_late(self, node: Node, supply: Supplier) -> object:
        """Make a lazy singleton; whoever comes second gets what the first one made."""
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
        """Introduce a fresh pod to the container and to the post-processors."""
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
    """Whether it does more than check; one that does not need not be called for every pod."""
    return type(processor).post_process is not IPostProcessor.post_process
