"""Finding out who is behind a connection, before anything else of it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from starlette.requests import HTTPConnection

from pilotage.adapters.fastapi.callers import remember
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.errors import NotAuthenticatedError

# Browsers cannot set headers of a WebSocket. What they can name is a protocol, and this one carries a token.
_OFFERED = "sec-websocket-protocol"
_TOKEN = "bearer."  # noqa: S105 - what stands in front of one
PROTOCOL = "pilotage"


class Entrance:
    """Lets a connection in when the resolver knows who it is."""

    def __init__(self, resolver: Callable[[], IPrincipalResolver]) -> None:
        self._resolver = resolver

    async def admit(self, connection: HTTPConnection) -> None:
        """Find out who it is, for everything behind.

        Raises:
            NotAuthenticatedError: nobody that is known here.
        """
        principal = cast(object, await self._resolver().resolve(headers_of(connection)))
        if not isinstance(principal, Principal):
            raise NotAuthenticatedError
        remember(connection.scope, principal)


def entrance_of(app: Application, principal: IPrincipalResolver | None) -> Entrance | None:
    """The entrance with the resolver that is given, or the application's own; None where there is neither."""
    if principal is not None:
        return Entrance(lambda: principal)
    if app.contains(IPrincipalResolver):
        return Entrance(partial(app.get, IPrincipalResolver))
    return None


def headers_of(connection: HTTPConnection) -> dict[str, str]:
    """Headers by lower-case name, repeated ones joined by commas; a token of a WebSocket in its usual place."""
    headers: dict[str, str] = {}
    for name, text in connection.headers.items():
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    if connection.scope["type"] == "websocket" and "authorization" not in headers:
        for offered in offered_protocols(headers):
            if offered.startswith(_TOKEN):
                headers["authorization"] = f"Bearer {offered.removeprefix(_TOKEN)}"
    return headers


def offered_protocols(headers: dict[str, str]) -> list[str]:
    """The protocols that the client of a WebSocket offers."""
    return [each.strip() for each in headers.get(_OFFERED, "").split(",")]
