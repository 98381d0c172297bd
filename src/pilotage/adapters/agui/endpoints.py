"""`add_agui_endpoint` and its siblings: AG-UI for any FastAPI or Starlette application.

An input that cannot be served is a problem (RFC 9457) until its stream begins; from then on every stream has an end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Protocol, runtime_checkable

from ag_ui.core import RunErrorEvent
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.agui.driver import AgentDriver, RunDriverFactory
from pilotage.adapters.agui.errors import AgUiEndpointConflictError
from pilotage.adapters.agui.stream import NDJSON, SSE, AgUiEncoder, NdjsonEncoder, SseEncoder, line_of
from pilotage.adapters.agui.transport import Dialogue, frames_of, open_stream
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.problems import ProblemView
from pilotage.adapters.asgi.streaming import (
    RECONNECT,
    SSE_HEARTBEAT,
    StreamFormat,
    Streams,
    until_the_first_ends,
)
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.errors import PilotageError


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

    `principal` says who asks; without one the application's `IPrincipalResolver` does.

    Raises:
        AgUiEndpointConflictError: something else is served on the path.
    """
    add_routes(app, [Endpoints(run_driver_factory, config, principal).sse_route()])


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
        self._streams = Streams(app, self._settings)

    def sse_route(self) -> Route:
        """Return the route of server-sent events."""
        return self._post_route(self._config.sse_path, SSE_FORMAT)

    def http_stream_route(self) -> Route:
        """Return the route of lines of JSON."""
        return self._post_route(self._config.http_stream_path, NDJSON_FORMAT)

    def websocket_route(self) -> WebSocketRoute:
        """Return the route of WebSockets."""
        path = self._config.websocket_path
        return WebSocketRoute(path, self._serve_socket, name=f"agui:{path}")

    def _post_route(self, path: str, stream_format: StreamFormat[str]) -> Route:
        middleware = HttpMiddleware(self._authentication, self._settings, owns_errors=True)
        handle = middleware.wrap(partial(self._serve_post, stream_format))
        return Route(path, handle, methods=["POST"], name=f"agui:{path}", include_in_schema=False)

    async def _serve_post(self, stream_format: StreamFormat[str], request: Request) -> Response:
        """Return the stream for an input that is posted.

        Raises:
            PilotageError: the input cannot be served.
        """
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
                writer = self._streams.writer(partial(websockets.send_text, socket), SSE_HEARTBEAT.decode())
                factory = self._factory_for(principal)
                dialogue = Dialogue(factory, writer.write, SSE, self._config.limits)
                async with aclosing(_messages(socket)) as messages:
                    await until_the_first_ends(dialogue.hold(messages), writer.keep_alive(), shutdown)
                # Inputs last as long as the client is connected: it is the server that stops.
                await socket.close(RECONNECT.code, RECONNECT.reason)
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


def _error_with(encoder: AgUiEncoder, problem: ProblemView) -> bytes:
    return encoder.encode(RunErrorEvent(message=problem.detail, code=problem.code)).encode()


SSE_FORMAT: StreamFormat[str] = StreamFormat(
    SSE, encode=str.encode, problem=lambda problem: _error_with(SseEncoder(), problem)
)
# Lines of JSON have no piece without a meaning, so no heartbeat.
NDJSON_FORMAT: StreamFormat[str] = StreamFormat(
    NDJSON,
    encode=lambda frame: line_of(frame).encode(),
    problem=lambda problem: _error_with(NdjsonEncoder(), problem),
    heartbeat=None,
)
