"""Authentication: which principal sends a request. It precedes everything else, and fails closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, MutableMapping
from typing import Any, cast

from starlette.requests import HTTPConnection

from pilotage.adapters.asgi.errors import OriginRefusedError, RunStoreUnreachableError
from pilotage.adapters.asgi.origins import is_allowed_origin, is_from_this_machine
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.errors import NotAuthenticatedError, PilotageError

_LOG = logging.getLogger(__name__)
_PRINCIPAL = "pilotage.principal"
# Browsers cannot set headers of a WebSocket. They can offer protocols, and one of these carries the token.
_OFFERED = "sec-websocket-protocol"
_PREFIX = "bearer."


class Authentication:
    """Finds the principal of a connection. Without a resolver only programs on this machine are served."""

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
        """Return the authentication by a resolver; without one the application's own resolver is used."""

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
        principal = await _resolved(resolver, headers_of(connection))
        connection.scope[_PRINCIPAL] = principal
        return principal


def has_resolver(app: Application, principal: IPrincipalResolver | None) -> bool:
    """Return whether a principal resolver is given, or is among the pods of the application."""
    return principal is not None or app.contains(IPrincipalResolver)


def principal_in(scope: MutableMapping[str, Any]) -> Principal | None:
    """Return the principal that authentication kept in a scope; None where there was no authentication."""
    found: object = scope.get(_PRINCIPAL)
    return found if isinstance(found, Principal) else None


def refuse_foreign_origin(connection: HTTPConnection, allowed: Collection[str]) -> None:
    """Refuse pages of other sites: a browser sends the credentials of its user with the requests of any page.

    Raises:
        OriginRefusedError: the origin is neither the server's own nor an allowed one.
    """
    origin, host = connection.headers.get("origin"), connection.headers.get("host")
    if not is_allowed_origin(origin, host, allowed):
        raise OriginRefusedError(
            f"pages of {origin!r} may not connect. Add the origin to allowed_origins "
            "(PILOTAGE_HTTP_ALLOWED_ORIGINS, PILOTAGE_AGUI_ALLOWED_ORIGINS) if they should."
        )


def refuse_other_machines(connection: HTTPConnection) -> None:
    """Refuse requests that do not come from this machine.

    Raises:
        NotAuthenticatedError: the request comes from another machine, or through a foreign name.
    """
    client = connection.client
    if not is_from_this_machine(client.host if client else None, connection.headers.get("host")):
        raise NotAuthenticatedError(
            "nothing says who asks, so only programs on this machine are served. Give the endpoint a principal "
            "resolver, or add a pod that implements IPrincipalResolver."
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


async def _resolved(resolver: IPrincipalResolver, headers: dict[str, str]) -> Principal:
    try:
        principal = cast(object, await resolver.resolve(headers))
    except PilotageError:
        raise
    except OSError as error:
        raise RunStoreUnreachableError from error
    except Exception as error:
        _LOG.exception("%s could not resolve the principal", type(resolver).__name__)
        raise NotAuthenticatedError from error
    if not isinstance(principal, Principal):
        raise NotAuthenticatedError
    return principal
