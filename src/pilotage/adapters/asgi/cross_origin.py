"""Requests of pages of other origins: answers to preflights, and the headers with which a browser shows a response.

Refusing such requests is a matter of authentication, which asks the same set of origins. A server adds its own set to
the scope of every connection, so that one setting counts for all routes that it serves.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.adapters.asgi.problems import problem_response
from pilotage.inbound.problems import OriginRefusedError

_ALLOWED = "pilotage.allowed_origins"
_WANTED_METHOD, _WANTED_HEADERS = "access-control-request-method", "access-control-request-headers"
# The headers of our responses that a page may want to read, beyond those that every page may.
_EXPOSED = "deprecation, link, location, retry-after, www-authenticate"
_METHODS = "GET, POST, PUT, PATCH, DELETE"
_PREFLIGHT_SECONDS = "600"


def is_allowed_origin(origin: str | None, host: str | None, allowed: Collection[str]) -> bool:
    """Return whether a request may be sent: by a program, by a page of this host, or by a page of an allowed origin."""
    if origin is None:
        return True
    return origin.lower() in allowed or (bool(host) and _host_of(origin) == str(host).lower())


def _host_of(origin: str) -> str:
    return origin.lower().partition("://")[2]


def allowed_in(scope: MutableMapping[str, Any], allowed: Collection[str]) -> frozenset[str]:
    """Return the origins that a layer allows, with those of the server around it."""
    outer: frozenset[str] = scope.get(_ALLOWED, frozenset[str]())
    return outer | frozenset(allowed)


def refuse_foreign_origin(connection: HTTPConnection, allowed: Collection[str]) -> None:
    """Refuse pages of other sites: a browser sends the credentials of its user with the requests of any page.

    Raises:
        OriginRefusedError: the page that sends the request has an origin that is not allowed.
    """
    origin, host = connection.headers.get("origin"), connection.headers.get("host")
    if not is_allowed_origin(origin, host, allowed_in(connection.scope, allowed)):
        raise OriginRefusedError(
            f"pages of {origin!r} may not connect. Allow the origin if they should: pilotage serve --allow-origin "
            f"{origin}, allowed_origins in HttpSettings or AgUiConfig, or PILOTAGE_HTTP_ALLOWED_ORIGINS."
        )


class CrossOrigin:
    """ASGI middleware that answers preflights, and adds the headers that pages of allowed origins need.

    With `is_server` the origins count for everything inside, whatever settings the inner layers have.
    """

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str], *, is_server: bool = False) -> None:
        self._app = app
        self._allowed = frozenset(allowed_origins)
        self._is_server = is_server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_server:
            scope[_ALLOWED] = allowed_in(scope, self._allowed)
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, allowed = Headers(scope=scope), allowed_in(scope, self._allowed)
        if scope["method"] == "OPTIONS" and "origin" in headers and _WANTED_METHOD in headers:
            await self._preflight(HTTPConnection(scope))(scope, receive, send)
            return
        origin = headers.get("origin", "")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, origin if origin.lower() in allowed else None)
            await send(message)

        await self._app(scope, receive, send_with_headers if allowed else send)

    def _preflight(self, connection: HTTPConnection) -> Response:
        try:
            refuse_foreign_origin(connection, self._allowed)
        except OriginRefusedError as error:
            return problem_response(error)
        headers = connection.headers
        granted = {
            "access-control-allow-origin": headers["origin"],
            "access-control-allow-credentials": "true",
            "access-control-allow-methods": _METHODS,
            "access-control-max-age": _PREFLIGHT_SECONDS,
            "vary": f"Origin, {_WANTED_HEADERS}",
        }
        if wanted := headers.get(_WANTED_HEADERS):
            granted["access-control-allow-headers"] = wanted
        return Response(status_code=204, headers=granted)


def _add_headers(message: Message, origin: str | None) -> None:
    headers = MutableHeaders(scope=message)
    if "origin" not in headers.get("vary", "").lower():
        headers.add_vary_header("Origin")
    if origin is not None:
        headers["access-control-allow-origin"] = origin
        headers["access-control-allow-credentials"] = "true"
        headers["access-control-expose-headers"] = _EXPOSED
