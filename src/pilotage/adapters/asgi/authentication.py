"""Authentication of connections. It precedes everything else, and fails closed."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from starlette.requests import HTTPConnection

from pilotage.adapters.asgi.cross_origin import refuse_foreign_origin
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.errors import NotAuthenticatedError
from pilotage.inbound.authentication import resolved

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
