"""The caller of a request: its principal, and what its client can do."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import HTTPConnection

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.mcp_server.errors import TASKS
from pilotage.agent.principal import LOCAL, Principal
from pilotage.values import value


@value(slots=False)
class Caller:
    """The caller of one request.

    `has_forms` says that its user fills in forms, `has_tasks` that it knows the Tasks extension. A client of the modern
    era gets questions as results; one of the handshake era is asked while its call waits, if the transport can.
    """

    principal: Principal
    is_modern: bool
    has_forms: bool
    has_tasks: bool

    @classmethod
    def of(cls, context: ServerRequestContext[Any, Any], principal: Principal) -> Caller:
        """Return the caller of a request; `principal` is the one of transports without authentication of their own."""
        capabilities = context.session.client_capabilities or types.ClientCapabilities()
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(
            principal_of(context, principal),
            is_modern,
            _has_forms(capabilities) and (is_modern or context.session.can_send_request),
            is_modern and TASKS in (capabilities.extensions or {}),
        )


def principal_of(context: ServerRequestContext[Any, Any], otherwise: Principal = LOCAL) -> Principal:
    """Return the principal of a request: the one that HTTP has authenticated, else that of the server."""
    request: object = context.request
    return (principal_in(request.scope) if isinstance(request, HTTPConnection) else None) or otherwise


def _has_forms(capabilities: types.ClientCapabilities) -> bool:
    """Return whether a client takes forms: it says so, or that it takes what a client of the first version took."""
    asked = capabilities.elicitation
    return asked is not None and (asked.form is not None or asked.url is None)
