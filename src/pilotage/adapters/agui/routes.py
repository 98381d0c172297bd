"""`add_agui_endpoint` and its siblings: AG-UI for any FastAPI or Starlette application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.endpoints import (
    NDJSON_FORMAT,
    SSE_FORMAT,
    EndpointParts,
    PostEndpoint,
    SocketEndpoint,
)
from pilotage.adapters.agui.errors import AgUiEndpointConflictError
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.streaming_response import StreamFormat
from pilotage.agent.ports.principals import IPrincipalResolver


def add_agui_endpoint(
    app: Starlette | Router,
    *,
    run_driver_factory: RunDriverFactory,
    config: AgUiConfig | None = None,
    principal: IPrincipalResolver | None = None,
) -> None:
    """Serve an agent as server-sent events: POST of a RunAgentInput to `config.sse_path`.

    `principal` says who asks; without one the application's `IPrincipalResolver` does.

    Raises:
        AgUiEndpointConflictError: something else is served on the path.
    """
    add_routes(app, [sse_route(run_driver_factory, config or AgUiConfig.from_environment(), principal)])


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
    route = http_stream_route(run_driver_factory, config or AgUiConfig.from_environment(), principal)
    add_routes(app, [route])


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
    route = websocket_route(run_driver_factory, config or AgUiConfig.from_environment(), principal)
    add_routes(app, [route])


def sse_route(
    factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None = None
) -> Route:
    """Return the route of server-sent events."""
    return _post_route(config.sse_path, EndpointParts(factory, config, principal), SSE_FORMAT)


def http_stream_route(
    factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None = None
) -> Route:
    """Return the route of lines of JSON."""
    return _post_route(config.http_stream_path, EndpointParts(factory, config, principal), NDJSON_FORMAT)


def websocket_route(
    factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None = None
) -> WebSocketRoute:
    """Return the route of WebSockets."""
    endpoint = SocketEndpoint(EndpointParts(factory, config, principal))
    return WebSocketRoute(config.websocket_path, endpoint.serve, name=f"agui:{config.websocket_path}")


def add_routes(app: Starlette | Router, routes: list[Route | WebSocketRoute]) -> None:
    """Add routes, none of which is there already.

    Raises:
        AgUiEndpointConflictError: something else is served on one of the paths.
    """
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


def _post_route(path: str, parts: EndpointParts, stream_format: StreamFormat[str]) -> Route:
    middleware = HttpMiddleware(parts.authentication, parts.settings, owns_errors=True)
    handle = middleware.wrap(PostEndpoint(parts, stream_format).serve)
    return Route(path, handle, methods=["POST"], name=f"agui:{path}", include_in_schema=False)
