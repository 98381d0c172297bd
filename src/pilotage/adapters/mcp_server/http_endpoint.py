"""MCP over HTTP: one path, no sessions, for any Starlette or FastAPI application.

Each request is answered by itself, so that every worker can answer any of them: those of the modern era as the
protocol has them, those of the older one without sessions. Authentication, origins and limits are those of all routes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.problems import SECURITY_HEADERS, problem_response
from pilotage.adapters.asgi.streaming import Streams, stopped
from pilotage.adapters.http_settings import HttpSettings
from pilotage.adapters.mcp_server.exports import McpExports
from pilotage.adapters.mcp_server.server import mcp_server
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import PilotageError
from pilotage.inbound.problems import ServerStoppingError

PATH = "/mcp"
_SDK_LOG = logging.getLogger("mcp.server.streamable_http_manager")


def mcp_route(
    app: Application,
    exports: McpExports | None = None,
    *,
    path: str = PATH,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> Route:
    """Return the route of an application's MCP server, for any Starlette or FastAPI application.

    `principal` resolves the principal of a request, by default the application's `IPrincipalResolver`. Without one
    only programs on this machine are served. The application is started by `pilotage_lifespan`.
    """
    bounds = settings or HttpSettings.from_environment()
    endpoint = _Endpoint(app, exports, Streams(app, bounds))
    middleware = HttpMiddleware(
        Authentication.of(app, principal, bounds.allowed_origins), bounds, owns_errors=True
    )
    return Route(path, endpoint=middleware.endpoint(endpoint.answer), methods=None)


def mcp_extension(
    app: Application,
    exports: McpExports | None = None,
    *,
    path: str = PATH,
    principal: IPrincipalResolver | None = None,
) -> Callable[[Starlette], None]:
    """Return an extension with the route, for `serve(app, extensions=[...])` and `asgi_application`."""

    def extend(api: Starlette) -> None:
        api.router.routes.append(mcp_route(app, exports, path=path, principal=principal))

    return extend


class _Endpoint:
    """Answers requests; the server is made with the first one, when the application has been started."""

    def __init__(self, app: Application, exports: McpExports | None, streams: Streams) -> None:
        self._app = app
        self._exports = exports
        self._streams = streams
        self._server: Server[Any] | None = None
        if _SDK_LOG.level == logging.NOTSET:
            # It reports the start and the end of each request.
            _SDK_LOG.setLevel(logging.WARNING)

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request whose body has been read."""
        if self._server is None:
            self._server = mcp_server(self._app, self._exports)
        return _McpResponse(self._server, request, self._streams)


class _McpResponse(Response):
    """The answer of the SDK's transport to one request; it ends when the client leaves or the server stops."""

    def __init__(self, server: Server[Any], request: Request, streams: Streams) -> None:
        super().__init__()
        self._server = server
        self._request = request
        self._streams = streams
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._has_begun = True
                known = {name for name, _ in message.get("headers", [])}
                more = [(name.encode(), text.encode()) for name, text in SECURITY_HEADERS.items()]
                message["headers"] = [
                    *message.get("headers", []),
                    *(each for each in more if each[0] not in known),
                ]
            await send(message)

        try:
            with self._streams.entered(principal_in(self._request.scope)) as shutdown:
                await self._until_shutdown(shutdown, send_guarded)
        except PilotageError as error:
            if self._has_begun:
                # The stream ends without a result: the client calls again.
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await problem_response(error)(scope, receive, send)

    async def _until_shutdown(self, shutdown: asyncio.Future[None], send: Send) -> None:
        """Serve the request, in a manager of its own: no task outlives it."""
        manager = StreamableHTTPSessionManager(app=self._server, stateless=True)
        serving = asyncio.ensure_future(self._served(manager, send))
        try:
            await asyncio.wait([serving, shutdown], return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_stopped = not serving.done()
            await stopped([serving])
        if is_stopped:
            raise ServerStoppingError
        serving.result()

    async def _served(self, manager: StreamableHTTPSessionManager, send: Send) -> None:
        async with manager.run():
            await manager.handle_request(_trimmed(self._request.scope), self._request.receive, send)


def _trimmed(scope: Scope) -> Scope:
    """Return a scope whose headers have no blanks around their values; not every server removes them."""
    return {**scope, "headers": [(name, text.strip()) for name, text in scope["headers"]]}
