"""`@AGUICompatible`: the paths of an agent, declared at its class, and the routes of all such agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar, cast

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from pilotage.adapters.agui.driver import driver_for
from pilotage.adapters.agui.endpoints import Endpoints, add_routes
from pilotage.adapters.agui.errors import AgUiEndpointConflictError
from pilotage.adapters.agui_plugin import AgUiConfig, check_path
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.errors import Problem, start_error
from pilotage.values import value

_PATHS = "__pilotage_agui_paths__"
_POST, _SOCKET = "POST", "WebSocket"
T = TypeVar("T", bound=type[object])
AgUiRoute: TypeAlias = Route | WebSocketRoute


@value
class _Paths:
    """The paths of an agent; a path that is None is that of the settings."""

    sse_path: str | None
    http_stream_path: str | None
    websocket_path: str | None

    def within(self, config: AgUiConfig) -> AgUiConfig:
        base = (self.sse_path or "").rstrip("/")
        stream, socket = (f"{base}/stream", f"{base}/ws") if base else (None, None)
        return replace(
            config,
            sse_path=self.sse_path or config.sse_path,
            http_stream_path=self.http_stream_path or stream or config.http_stream_path,
            websocket_path=self.websocket_path or socket or config.websocket_path,
        )


def AGUICompatible(
    sse_path: str | None = None, http_stream_path: str | None = None, websocket_path: str | None = None
) -> Callable[[T], T]:
    """Serves an agent over AG-UI wherever its application is served: `@AGUICompatible("/teller")` above `@Agent`.

    The other two paths lie below the first; without any they are those of `AgUiConfig`.

    Raises:
        AgentDefinitionError: a path is none.
    """
    paths = _Paths(sse_path, http_stream_path, websocket_path)
    for name in ("sse_path", "http_stream_path", "websocket_path"):
        if (path := getattr(paths, name)) is not None:
            check_path(f"AGUICompatible.{name}", path)

    def mark(agent: T) -> T:
        setattr(agent, _PATHS, paths)
        return agent

    return mark


AgUiAgent = AGUICompatible


def agui_routes(
    app: Application, *, config: AgUiConfig | None = None, principal: IPrincipalResolver | None = None
) -> list[AgUiRoute]:
    """The routes of all agents of an application that are `@AGUICompatible`, for a router of your own.

    FastAPI and Starlette applications that are pods have them by themselves.

    Raises:
        AgUiEndpointConflictError: two agents want the same path.
    """
    graph = app.graph
    usual = config or _config_in(graph)
    if problems := list(_conflicts(graph, usual)):
        raise start_error(app.name, problems)
    routes: list[AgUiRoute] = []
    for definition, own in _compatible(graph, usual):
        factory = driver_for(app, definition.target, config=own)
        served = Endpoints(factory, own, principal)
        routes += [served.sse_route(), served.http_stream_route(), served.websocket_route()]
    return routes


def agui_extension(
    app: Application, *, config: AgUiConfig | None = None, principal: IPrincipalResolver | None = None
) -> Callable[[Starlette], None]:
    """What adds these routes to a FastAPI or Starlette application: `asgi_application(app, extensions=[...])`."""

    def extend(api: Starlette) -> None:
        add_routes(api, agui_routes(app, config=config, principal=principal))

    return extend


def serve_agents(app: Application, pod: object) -> None:
    """Add these routes to a pod that is a FastAPI or Starlette application."""
    if isinstance(pod, Starlette):
        agui_extension(app)(pod)


def conflicts_in(graph: Graph) -> Iterator[Problem]:
    """Return the paths that two agents want."""
    return _conflicts(graph, _config_in(graph))


def _compatible(graph: Graph, config: AgUiConfig) -> Iterator[tuple[AgentDefinition, AgUiConfig]]:
    for node in graph.nodes:
        if isinstance(node.pod, AgentDefinition):
            # An agent that is made from another one is another one: its paths are its own.
            paths = cast("dict[str, object]", vars(node.pod.target)).get(_PATHS)
            if isinstance(paths, _Paths):
                yield node.pod, paths.within(config)


def _config_in(graph: Graph) -> AgUiConfig:
    """The settings that the application was given; those of the environment where it was given none."""
    return graph.given(AgUiConfig) or AgUiConfig.from_environment()


def _conflicts(graph: Graph, config: AgUiConfig) -> Iterator[Problem]:
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for definition, own in _compatible(graph, config):
        for kind, path in (
            (_POST, own.sse_path),
            (_POST, own.http_stream_path),
            (_SOCKET, own.websocket_path),
        ):
            wanted[kind, path].append(definition.target.__name__)
    for (_, path), agents in wanted.items():
        if len(agents) > 1:
            yield Problem(
                code=AgUiEndpointConflictError.code,
                summary=f"{' and '.join(agents)} want to be served on {path!r}.",
                remedy="Give each a path of its own: @AGUICompatible(sse_path=...).",
                family=AgUiEndpointConflictError,
            )
