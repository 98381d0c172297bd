"""`add_agui_endpoint` and its siblings: AG-UI for any FastAPI or Starlette application.

Who asks is known before a byte of a body is read. What cannot be served is a problem (RFC 9457) as long as no stream
has begun; from then on every stream has an end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import NDJSON, SSE, line_of
from pilotage.adapters.agui.errors import (
    AgUiApprovalDecodeError,
    AgUiEndpointConflictError,
    AgUiInputTooLargeError,
    AgUiRunResolutionError,
)
from pilotage.adapters.agui.gatekeeping import Gatekeeper
from pilotage.adapters.agui.settings import AgUiConfig, AgUiLimits
from pilotage.adapters.agui.sockets import SocketEndpoint
from pilotage.adapters.agui.transport import frames_of, open_stream
from pilotage.adapters.asgi.bodies import bounded_body
from pilotage.adapters.asgi.lasting_answer import Heartbeat, LastingAnswer, OpenStreams
from pilotage.adapters.asgi.problems import Statuses, problem_answer
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.errors import PilotageError

_STATUSES: Statuses = (
    (AgUiInputTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (AgUiRunResolutionError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (AgUiApprovalDecodeError, HTTPStatus.UNPROCESSABLE_ENTITY),
)
_BEAT = b":\n\n"


class PostEndpoint:
    """Serves inputs that are posted, each with a stream of its own: of server-sent events, or of lines."""

    def __init__(self, gatekeeper: Gatekeeper, limits: AgUiLimits, media_type: str) -> None:
        self._gatekeeper = gatekeeper
        self._limits = limits
        self._media_type = media_type
        self._streams = OpenStreams(limits.max_streams, gatekeeper.common_end)

    async def serve(self, request: Request) -> Response:
        """The stream for an input, or why there is none."""
        try:
            factory = await self._gatekeeper.admitted(request)
            self._streams.refuse_more()
            body = await bounded_body(request, self._limits.max_body_bytes)
            last_event_id = request.headers.get("last-event-id")
            stream = await open_stream(
                factory, body, self._media_type, last_event_id=last_event_id, limits=self._limits
            )
        except PilotageError as error:
            return problem_answer(error, _STATUSES)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        return self._answer(stream)

    def _answer(self, stream: AsyncIterable[str]) -> Response:
        clock, beat = self._gatekeeper.clock, Heartbeat(_BEAT, self._limits.heartbeat_seconds)
        if self._media_type == SSE:
            return LastingAnswer(frames_of(stream), SSE, self._streams, clock, beat)
        return LastingAnswer(_lines(frames_of(stream)), NDJSON, self._streams, clock)


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
    """The route of server-sent events."""
    return _post_route(config.sse_path, factory, config, principal, SSE)


def http_stream_route(
    factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None = None
) -> Route:
    """The route of lines."""
    return _post_route(config.http_stream_path, factory, config, principal, NDJSON)


def websocket_route(
    factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None = None
) -> WebSocketRoute:
    """The route of sockets."""
    endpoint = SocketEndpoint(Gatekeeper(factory, config, principal), config.limits)
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


def _post_route(
    path: str,
    factory: RunDriverFactory,
    config: AgUiConfig,
    principal: IPrincipalResolver | None,
    media_type: str,
) -> Route:
    endpoint = PostEndpoint(Gatekeeper(factory, config, principal), config.limits, media_type)
    return Route(path, endpoint.serve, methods=["POST"], name=f"agui:{path}", include_in_schema=False)


async def _lines(frames: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(frames):
        async for frame in frames:
            yield line_of(frame)
