"""The application: its pods, its start and its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from enum import StrEnum
from types import ModuleType, TracebackType
from typing import Literal, Self, TypeVar, cast

from pilotage.container.assembly import Container
from pilotage.container.describe import StartupReport, describe_mermaid, describe_text
from pilotage.container.explain import check
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import Context, attach, raise_failures
from pilotage.container.processing import IContainer
from pilotage.container.registry import Registry, find_pods
from pilotage.errors import ApplicationStateError, CallerError, Problem, start_error

T = TypeVar("T")
_ABSENT = object()


class BlockingLoop:
    """Event loop for the start and stop hooks of an application without one."""

    def __init__(self, application: str) -> None:
        import asyncio  # noqa: PLC0415 - only programs without an event loop pay for it here

        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ApplicationStateError(
                f"Application {application!r}: `with app` cannot wait inside a running event loop. "
                "Write: async with app: ..."
            )
        self._runner = asyncio.Runner()

    def run(self, begin: Callable[[], Coroutine[object, object, T]]) -> T:
        """Wait for a coroutine; if it fails the loop is closed."""
        try:
            return self._runner.run(begin())
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()


class _State(StrEnum):
    OPEN = "is not started"
    STARTING = "is starting"
    STARTED = "is started"
    STOPPED = "is stopped"


class Application(IContainer):
    """A set of pods that start, work and stop together.

    It is assembled with `scan`, `add`, `bind` and `load_plugins` and used in `async with app` (or `with app`
    in a program without an event loop); `get` returns pods. The start checks the whole dependency
    graph before anything is made and reports all problems at once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.report = StartupReport(name)
        self._registry = Registry()
        self._registry.add(self)
        self._state = _State.OPEN
        self._container: Container | None = None
        self._running: Container | None = None
        """The container from the start to the stop: the fast path of `get`."""
        self._singletons: dict[object, object] = {}
        self._loop: BlockingLoop | None = None

    def scan(self, root: str | ModuleType, exclude: str | Iterable[str] = ()) -> Self:
        """Add all pods defined in a module, or in a package and everything below it.

        `exclude` names modules to leave out; `*` stands for any part: `scan("shop", exclude="*.tests")`.
        """
        self._expect_open("scan")
        with self.report.phase("scan"):
            return self.add(*find_pods(root, exclude))

    def add(self, *pods: object) -> Self:
        """Add classes, factory functions or ready instances; each is added once."""
        self._expect_open("add")
        for pod in pods:
            self._registry.add(pod)
        return self

    def bind(self, type_: Callable[..., object], pod: object) -> Self:
        """Add a pod and prefer it wherever the type is needed; the last binding of a type wins."""
        self._expect_open("bind")
        self._registry.bind(type_, pod)
        return self

    def load_plugins(self, include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> Self:
        """Load the installed plugins (all, or those included), then the contributions between them.

        Raises:
            PluginError: a name is not installed, or a plugin or contribution failed.
        """
        from pilotage.container.plugins import load_plugins  # noqa: PLC0415 - package metadata is slow to import

        self._expect_open("load_plugins")
        load_plugins(self, self.report, None if include is None else [*include], [*exclude])
        return self

    @property
    def graph(self) -> Graph:
        """The dependency graph of the pods registered so far; it is not checked."""
        return self._registry.graph()

    @property
    def is_started(self) -> bool:
        """Whether the application is started."""
        return self._state is _State.STARTED

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems that `start` would report, without starting anything."""
        return tuple(check(self.graph))

    async def start(self) -> Self:
        """Check everything, make the pods, call their start hooks.

        Raises:
            ApplicationStartError: with all problems of the application; nothing was made.
        """
        self._expect_open("start")
        with self.report.phase("validate"):
            graph = self._registry.graph()
            if problems := check(graph):
                raise start_error(self.name, problems)
        self.report.pods = len(self._registry) - 1  # the application itself is not counted
        self._state, self._container = _State.STARTING, Container(graph)
        self._running = self._container
        try:
            with self.report.phase("build"):
                await self._container.assembly.build()
            with self.report.phase("start"):
                await self._container.assembly.start()
        except BaseException as error:
            self._state, self._running = _State.STOPPED, None
            attach(error, await self._container.assembly.teardown.aclose())
            raise
        self._state, self._singletons = _State.STARTED, self._container.singletons
        return self

    async def stop(self) -> None:
        """Call the stop hooks and cleanups in reverse; stopping a stopped application does nothing.

        Raises:
            ExceptionGroup: with the failures; everything else was stopped all the same.
        """
        if self._state is not _State.STARTED or self._container is None:
            return
        self._state, self._singletons, self._running = _State.STOPPED, {}, None
        failures = await self._container.assembly.teardown.aclose()
        raise_failures(f"application {self.name!r} failed to stop cleanly", failures)

    def context(self) -> Context:
        """Return a context for pods of the context scope: `with app.context(): ...`."""
        return Context(self._started("context"))

    def get(self, type_: Callable[..., T], name: str | None = None) -> T:
        if name is None:
            pod = self._singletons.get(type_, _ABSENT)
            if pod is not _ABSENT:
                return cast("T", pod)
        return (self._running or self._started("get")).get(type_, name)

    def get_or_none(self, type_: Callable[..., T], name: str | None = None) -> T | None:
        return (self._running or self._started("get_or_none")).get_or_none(type_, name)

    def get_all(self, type_: Callable[..., T]) -> list[T]:
        return self._started("get_all").get_all(type_)

    def contains(self, type_: Callable[..., object]) -> bool:
        return (self._container or self._registry).contains(type_)

    def describe(self, format: Literal["text", "mermaid"] = "text") -> str:  # noqa: A002 - the usual word
        """Return the dependency graph as it is now, as a text tree or a Mermaid flowchart."""
        if format not in ("text", "mermaid"):
            raise CallerError(f"describe({format!r}): there is no such format. Use 'text' or 'mermaid'.")
        graph = self._registry.graph()
        return describe_mermaid(graph) if format == "mermaid" else describe_text(self.name, graph)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        except ExceptionGroup as group:
            if error is None:
                raise
            attach(error, list(group.exceptions))

    def __enter__(self) -> Self:
        self._loop = BlockingLoop(self.name)
        return self._loop.run(self.start)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            with loop:
                loop.run(lambda: self.__aexit__(kind, error, trace))

    def _expect_open(self, call: str) -> None:
        if self._state is not _State.OPEN:
            raise ApplicationStateError(
                f"Application {self.name!r} {self._state}: {call}() comes too late. "
                "Call it before the start, or make a new Application."
            )

    def _started(self, call: str) -> Container:
        if self._state is _State.STOPPED:
            raise ApplicationStateError(
                f"Application {self.name!r} is stopped: {call}() comes too late. "
                "Call it before the end of the with block."
            )
        if self._container is None:
            raise ApplicationStateError(
                f"Application {self.name!r} is not started: {call}() comes too early. "
                "Start it first: async with app: ..., or with app: ... where there is no event loop."
            )
        return self._container
