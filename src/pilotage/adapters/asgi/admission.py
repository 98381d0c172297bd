"""Who may come in: asked before anything else of a request is looked at. Fails closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar, cast
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.errors import CallerError, NotAuthenticatedError

_LOG = logging.getLogger(__name__)
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginRefusedError(CallerError):
    """A page of another origin wants something that only pages of known origins may have."""

    message: ClassVar[str] = "Pages of this origin may not connect."
    code: ClassVar[str] = "origin_refused"


class Admission:
    """Finds out who asks. Where nothing says so, only programs on this machine are let in, as nobody in particular."""

    def __init__(
        self, resolver: Callable[[], IPrincipalResolver | None], allowed_origins: Collection[str] = ()
    ) -> None:
        self._resolver = resolver
        self._allowed = frozenset(allowed_origins)

    async def principal_of(self, connection: HTTPConnection) -> Principal | None:
        """The principal behind a connection; None for whoever is on this machine, where nothing says who asks.

        Raises:
            OriginRefusedError: a page asks whose origin is neither the server's own nor an allowed one.
            NotAuthenticatedError: nobody knows who asks.
        """
        self._refuse_foreign_pages(connection)
        resolver = self._resolver()
        if resolver is None:
            _refuse_other_machines(connection)
            return None
        try:
            principal = cast(object, await resolver.resolve(_headers_of(connection)))
        except CallerError:
            raise
        except Exception as error:
            _LOG.exception("%s could not say who asks", type(resolver).__name__)
            raise NotAuthenticatedError from error
        if not isinstance(principal, Principal):
            raise NotAuthenticatedError
        return principal

    def _refuse_foreign_pages(self, connection: HTTPConnection) -> None:
        """Browsers say which page asks, and send along what their user is known by: for any page there is."""
        origin = connection.headers.get("origin")
        if origin is None or origin in self._allowed:
            return
        if urlsplit(origin).netloc != connection.headers.get("host"):
            raise OriginRefusedError(
                "a page of another origin asks. Name its origin in allowed_origins, where it may connect."
            )


def _headers_of(connection: HTTPConnection) -> dict[str, str]:
    """Headers by lower-case name; repeated ones are joined, so that none can hide behind another."""
    headers: dict[str, str] = {}
    for name, text in connection.headers.items():
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _refuse_other_machines(connection: HTTPConnection) -> None:
    client = connection.client
    peer = _address(client.host) if client is not None else None
    if peer is None:
        # No network: a socket file, or a test that calls the application itself.
        return
    # A name that points here may belong to anybody: the pages under it are not this machine's.
    named = urlsplit(f"//{connection.headers.get('host', '')}").hostname
    if not peer.is_loopback or named not in _THIS_MACHINE:
        raise NotAuthenticatedError(
            "nothing says who asks, so only programs on this machine are served. Give the endpoint a principal "
            "resolver, or add a pod that implements IPrincipalResolver."
        )


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
