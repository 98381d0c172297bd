"""`add_agui_endpoint` and its siblings, and `@AGUICompatible`: AG-UI for any FastAPI or Starlette application.

An input that cannot be served is a problem (RFC 9457) until its stream begins; from then on every stream has an end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias, TypeVar, cast, overload, runtime_checkable

from ag_ui.core import RunErrorEvent
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.agui.driver import AgentDriver, driver_for
from pilotage.adapters.agui.encoding import NDJSON, SSE, encoder_for, line_of
from pilotage.adapters.agui.errors import AgUiEndpointConflictError
from pilotage.adapters.agui.operations import history_operation, post_operation
from pilotage.adapters.agui.stream import RunDriverFactory
from pilotage.adapters.agui.transport import Dialogue, frames_of, open_stream
from pilotage.adapters.agui_plugin import AgUiConfig, check_path
from pilotage.adapters.asgi import streaming, websockets
from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.adapters.asgi.middleware import Handler, HttpMiddleware
from pilotage.adapters.asgi.operations import RouteOperation, with_operation
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.errors import PilotageError, Problem, start_error
from pilotage.inbound.problems import ProblemView
from pilotage.values import value

_PATHS = "__pilotage_agui_paths__"
_POST, _SOCKET = "POST", "WebSocket"
T = TypeVar("T", bound=type[object])
AgUiRoute: TypeAlias = Route | WebSocketRoute


@runtime_checkable
class ActsForOthers(Protocol):
    """A factory of streams that can act for any principal; the result of `driver_for` is one."""

    def for_principal(self, principal: Principal) -> RunDriverFactory:
        """Return the same streams, acting for a principal."""
        ...


def add_agui_endpoint(
    app: Starlette | Router,
    *,
    run_driver_factory: RunDriverFactory,
    config: AgUiConfig | None = None,
    principal: IPrincipalResolver | None = None,
) -> None:
    """Serve an agent as server-sent events: POST of a RunAgentInput to `config.sse_path`.

    GET of `threads/<id>` below it returns the messages of a thread.

    `principal` resolves the principal of a request, by default the application's `IPrincipalResolver`.

    Raises:
        AgUiEndpointConflictError: something else is served on the path.
    """
    served = Endpoints(run_driver_factory, config, principal)
    add_routes(app, [served.sse_route(), *served.history_routes()])


def add_agui_http_stream_endpoint(
    app: Starlette | Router,
    *,
    run_driver_factory: RunDriverFactory,
    config: AgUiConfig | None = None,
    principal: IPrincipalResolver | None = None,
) -> None:
    """Serve an agent as lines of JSON: POST of a RunAgentInput to `config.http_stream_path`.

    Raises:
        AgUiEndpointConflictError: something else is served on the path.
    """
    add_routes(app, [Endpoints(run_driver_factory, config, principal).http_stream_route()])


def add_agui_websocket_endpoint(
    app: Starlette | Router,
    *,
    run_driver_factory: RunDriverFactory,
    config: AgUiConfig | None = None,
    principal: IPrincipalResolver | None = None,
) -> None:
    """Serve an agent over WebSockets at `config.websocket_path`: each message is a RunAgentInput.

    Raises:
        AgUiEndpointConflictError: something else is served on the path.
    """
    add_routes(app, [Endpoints(run_driver_factory, config, principal).websocket_route()])


def add_routes(app: Starlette | Router, routes: list[AgUiRoute]) -> None:
    """Add routes; raise AgUiEndpointConflictError where something else is served on one of the paths."""
    router = app.router if isinstance(app, Starlette) else app
    for route in routes:
        if any(_is_in_the_way(other, route) for other in router.routes):
            raise AgUiEndpointConflictError(
                f"{route.path!r} is served already. Give each agent paths of its own: AgUiConfig(sse_path=...), or "
                "@AGUICompatible(sse_path=...)."
            )
    router.routes.extend(routes)


def _is_in_the_way(other: BaseRoute, route: Route | WebSocketRoute) -> bool:
    if isinstance(route, WebSocketRoute):
        return isinstance(other, WebSocketRoute) and other.path == route.path
    return isinstance(other, Route) and other.path == route.path and "POST" in (other.methods or ())


class Endpoints:
    """The endpoints of one factory of streams.

    The principal of a request is resolved by `principal`, else by the application's own resolver. Without both, the
    factory acts for the principal it was made with, for programs on this machine only.
    """

    def __init__(
        self, factory: RunDriverFactory, config: AgUiConfig | None, principal: IPrincipalResolver | None
    ) -> None:
        self._factory = factory
        self._config = config or AgUiConfig.from_environment()
        self._settings = self._config.http
        app = factory.app if isinstance(factory, AgentDriver) else None
        self._authentication = Authentication.of(app, principal, self._settings.allowed_origins)
        self._streams = streaming.Streams(app, self._settings)

    def sse_route(self) -> Route:
        """Return the route of server-sent events."""
        return self._post_route(self._config.sse_path, SSE_FORMAT)

    def history_routes(self) -> list[AgUiRoute]:
        """Return the route of the messages of a thread; none for a factory that is not of `driver_for`."""
        if not isinstance(self._factory, AgentDriver):
            return []
        base = self._config.sse_path.rstrip("/")
        path = f"{base}/threads/{{thread_id:path}}"
        return [self._route(path, self._serve_history, "GET", history_operation(base, self._agent_id))]

    async def _serve_history(self, request: Request) -> Response:
        """Return the messages of a thread, oldest first; raise PilotageError where they cannot be read."""
        thread_id = str(request.path_params["thread_id"])
        factory = self._factory_for(principal_in(request.scope))
        messages = await factory.messages(thread_id) if isinstance(factory, AgentDriver) else []
        shown = [message.model_dump(by_alias=True, mode="json", exclude_none=True) for message in messages]
        return JSONResponse({"threadId": thread_id, "messages": shown})

    def http_stream_route(self) -> Route:
        """Return the route of lines of JSON."""
        return self._post_route(self._config.http_stream_path, NDJSON_FORMAT)

    def websocket_route(self) -> WebSocketRoute:
        """Return the route of WebSockets."""
        path = self._config.websocket_path
        return WebSocketRoute(path, self._serve_socket, name=f"agui:{path}")

    def _post_route(self, path: str, stream_format: streaming.StreamFormat[str]) -> Route:
        operation = post_operation(path, stream_format.media_type, self._agent_id)
        return self._route(path, partial(self._serve_post, stream_format), "POST", operation)

    def _route(self, path: str, handle: Handler, method: str, operation: RouteOperation) -> Route:
        """Return a route with everything around its handler, for pages of other origins too."""
        middleware = HttpMiddleware(self._authentication, self._settings, owns_errors=True)
        serve = middleware.endpoint(handle)
        route = Route(path, serve, methods=[method, "OPTIONS"], name=f"agui:{path}", include_in_schema=False)
        return with_operation(route, operation)

    @property
    def _agent_id(self) -> str | None:
        factory = self._factory
        definition = AgentDefinition.get_or_none(factory.agent) if isinstance(factory, AgentDriver) else None
        return definition.agent_id if definition is not None else None

    async def _serve_post(self, stream_format: streaming.StreamFormat[str], request: Request) -> Response:
        """Return the stream for an input that is posted; raise PilotageError for one that cannot be served."""
        principal = principal_in(request.scope)
        self._streams.refuse(principal)
        stream = await open_stream(
            self._factory_for(principal),
            await request.body(),
            stream_format.media_type,
            last_event_id=request.headers.get("last-event-id"),
            limits=self._config.limits,
        )
        return self._streams.response(frames_of(stream), stream_format)

    async def _serve_socket(self, socket: WebSocket) -> None:
        """Serve a WebSocket to its end: each message is an input, each answer a frame as server-sent events have it."""
        try:
            principal = await self._authentication.principal_of(socket)
            with self._streams.entered(principal) as shutdown:
                await websockets.accept(socket)
                writer = self._streams.writer(
                    partial(websockets.send_text, socket), streaming.SSE_HEARTBEAT.decode()
                )
                factory = self._factory_for(principal)
                dialogue = Dialogue(factory, writer.write, SSE, self._config.limits)
                async with aclosing(_messages(socket)) as messages:
                    await streaming.until_the_first_ends(
                        dialogue.serve_all(messages), writer.keep_alive(), shutdown
                    )
                # Inputs last as long as the client is connected: it is the server that stops.
                await socket.close(streaming.RECONNECT.code, streaming.RECONNECT.reason)
        except PilotageError as error:
            await websockets.refuse(socket, error)
        except (ClientDisconnect, WebSocketDisconnect, OSError):
            # The client has gone; its durable runs go on.
            return

    def _factory_for(self, principal: Principal | None) -> RunDriverFactory:
        if principal is None or not isinstance(self._factory, ActsForOthers):
            return self._factory
        return self._factory.for_principal(principal)


async def _messages(socket: WebSocket) -> AsyncGenerator[str | bytes, None]:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
        text = message.get("text")
        yield text if text is not None else message.get("bytes") or b""


def _error_in(media_type: str, problem: ProblemView) -> bytes:
    error = RunErrorEvent(message=problem.detail, code=problem.code)
    return encoder_for(media_type).encode(error).encode()


SSE_FORMAT: streaming.StreamFormat[str] = streaming.StreamFormat(
    SSE, encode=str.encode, problem=partial(_error_in, SSE)
)
# Lines of JSON have no piece without a meaning, so no heartbeat.
NDJSON_FORMAT: streaming.StreamFormat[str] = streaming.StreamFormat(
    NDJSON,
    encode=lambda frame: line_of(frame).encode(),
    problem=partial(_error_in, NDJSON),
    heartbeat=None,
)


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


@overload
def AGUICompatible(sse_path: T, /) -> T: ...
@overload
def AGUICompatible(
    sse_path: str | None = None, http_stream_path: str | None = None, websocket_path: str | None = None
) -> Callable[[T], T]: ...
def AGUICompatible(
    sse_path: T | str | None = None, http_stream_path: str | None = None, websocket_path: str | None = None
) -> T | Callable[[T], T]:
    """Serve an agent over AG-UI wherever its application is served: `@AGUICompatible("/teller")` above `@Agent`.

    The other two paths lie below the first; without any, and as a bare `@AGUICompatible`, they are those of
    `AgUiConfig`.

    Raises:
        AgentDefinitionError: a path is none.
    """
    if isinstance(sse_path, type):
        return AGUICompatible()(sse_path)
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
    """Return the routes of all agents of an application that are `@AGUICompatible`, for a router of your own.

    FastAPI and Starlette applications that are pods have them by themselves.

    Raises:
        AgUiEndpointConflictError: two agents have the same path.
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
        routes += served.history_routes()
    return routes


def agui_extension(
    app: Application, *, config: AgUiConfig | None = None, principal: IPrincipalResolver | None = None
) -> Callable[[Starlette], None]:
    """Return an extension with these routes for `asgi_application(app, extensions=[...])`."""

    def extend(api: Starlette) -> None:
        add_routes(api, agui_routes(app, config=config, principal=principal))

    return extend


def serve_agents(app: Application, pod: object) -> None:
    """Add these routes to a pod that is a FastAPI or Starlette application."""
    if isinstance(pod, Starlette):
        agui_extension(app)(pod)


def conflicts_in(graph: Graph) -> Iterator[Problem]:
    """Return the paths that two agents share."""
    return _conflicts(graph, _config_in(graph))


def _compatible(graph: Graph, config: AgUiConfig) -> Iterator[tuple[AgentDefinition, AgUiConfig]]:
    for node in graph.nodes:
        if isinstance(node.pod, AgentDefinition):
            # An agent that is made from another one is another one: its paths are its own.
            paths = cast("dict[str, object]", vars(node.pod.target)).get(_PATHS)
            if isinstance(paths, _Paths):
                yield node.pod, paths.within(config)


def _config_in(graph: Graph) -> AgUiConfig:
    """Return the settings that the application was given; those of the environment where it was given none."""
    return graph.given(AgUiConfig) or AgUiConfig.from_environment()


def _conflicts(graph: Graph, config: AgUiConfig) -> Iterator[Problem]:
    served: dict[tuple[str, str], list[str]] = defaultdict(list)
    for definition, own in _compatible(graph, config):
        for kind, path in (
            (_POST, own.sse_path),
            (_POST, own.http_stream_path),
            (_SOCKET, own.websocket_path),
        ):
            served[kind, path].append(definition.target.__name__)
    for (_, path), agents in served.items():
        if len(agents) > 1:
            yield Problem(
                code=AgUiEndpointConflictError.code,
                summary=f"{' and '.join(agents)} have the same path {path!r}.",
                remedy="Give each a path of its own: @AGUICompatible(sse_path=...).",
                family=AgUiEndpointConflictError,
            )
