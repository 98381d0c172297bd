"""Authentication of connections. It precedes everything else, and fails closed.

Of pages of other origins preflights are answered, and responses get the headers with which a browser shows them to the
page. A server adds the origins that it allows to the scope of every connection, so that one setting counts for all
routes that it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.adapters.asgi.problems import problem_response
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.errors import NotAuthenticatedError
from pilotage.inbound.authentication import resolved
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


_PRINCIPAL = "pilotage.principal"
# Browsers cannot set headers of a WebSocket. They can offer protocols, and one of these carries the token.
_OFFERED = "sec-websocket-protocol"
_PREFIX = "bearer."


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the host."""
    name = host.strip().lower().removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_from_this_machine(client: str | None, host: str | None) -> bool:
    """Return whether a request was sent by this machine, to a name of this machine.

    Both are needed: a page of another site may send requests to this machine through a name that leads here (DNS
    rebinding), and then `Host` has that name. A client without a network address is refused: a socket file may belong
    to a proxy that serves other machines.
    """
    return client is not None and host is not None and is_loopback(client) and is_loopback(_name_in(host))


def _name_in(host: str) -> str:
    """Return the name in a `Host` header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


class Authentication:
    """Authentication of connections. Without a resolver only programs on this machine are served."""

    def __init__(
        self, resolver: Callable[[], IPrincipalResolver | None], allowed_origins: Collection[str] = ()
    ) -> None:
        self._resolver = resolver
        self._allowed = frozenset(allowed_origins)

    @classmethod
    def of(
        cls,
        app: Application | None,
        principal: IPrincipalResolver | None,
        allowed_origins: Collection[str] = (),
    ) -> Authentication:
        """Return the authentication by a resolver, by default the application's own."""

        def resolver() -> IPrincipalResolver | None:
            return principal if principal is not None or app is None else app.get_or_none(IPrincipalResolver)

        return cls(resolver, allowed_origins)

    async def principal_of(self, connection: HTTPConnection) -> Principal | None:
        """Return the principal of a connection and keep it in its scope; None on this machine without a resolver.

        Raises:
            OriginRefusedError: the page that sends the request has an origin that is not allowed.
            NotAuthenticatedError: the principal is not known.
            RunStoreUnreachableError: the resolver cannot reach its store.
        """
        refuse_foreign_origin(connection, self._allowed)
        resolver = self._resolver()
        if resolver is None:
            refuse_other_machines(connection)
            return None
        principal = await resolved(resolver, headers_of(connection))
        connection.scope[_PRINCIPAL] = principal
        return principal


def has_resolver(app: Application, principal: IPrincipalResolver | None) -> bool:
    """Return whether a principal resolver is given, or is among the pods of the application."""
    return principal is not None or app.contains(IPrincipalResolver)


def principal_in(scope: MutableMapping[str, Any]) -> Principal | None:
    """Return the principal that authentication kept in a scope; None where there was no authentication."""
    found: object = scope.get(_PRINCIPAL)
    return found if isinstance(found, Principal) else None


def refuse_other_machines(connection: HTTPConnection) -> None:
    """Refuse requests that come from another machine, or through a foreign name."""
    client = connection.client
    if not is_from_this_machine(client.host if client else None, connection.headers.get("host")):
        raise NotAuthenticatedError(
            "no principal resolver is configured, so only programs on this machine are served. Give the endpoint "
            "one, or add a pod that implements IPrincipalResolver."
        )


def headers_of(connection: HTTPConnection) -> dict[str, str]:
    """Return headers by lower-case name, repeated ones joined by commas, with the token of a WebSocket among them."""
    headers: dict[str, str] = {}
    for name, text in connection.headers.items():
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    if connection.scope["type"] == "websocket" and "authorization" not in headers:
        for offered in offered_protocols(headers):
            if offered.startswith(_PREFIX):
                headers["authorization"] = f"Bearer {offered.removeprefix(_PREFIX)}"
    return headers


def offered_protocols(headers: dict[str, str]) -> list[str]:
    """Return the protocols that the client of a WebSocket offers."""
    return [each.strip() for each in headers.get(_OFFERED, "").split(",")]
