"""Who asks, as the guard in front of a route found out."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Annotated, Any

from pilotage.agent.principal import Principal

try:
    from fastapi import Depends
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
except ImportError as error:
    raise ImportError('this adapter needs an extra: pip install "pilotage[fastapi]"') from error

_PRINCIPAL = "pilotage.principal"


def remember(scope: MutableMapping[str, Any], principal: Principal) -> None:
    """Keep for the rest of a connection who is behind it."""
    scope[_PRINCIPAL] = principal


def principal_in(scope: MutableMapping[str, Any]) -> Principal | None:
    """Who is behind a connection; None where nobody asked."""
    found: object = scope.get(_PRINCIPAL)
    return found if isinstance(found, Principal) else None


async def _caller(connection: HTTPConnection) -> Principal:
    principal = principal_in(connection.scope)
    if principal is None:
        raise HTTPException(401, "Nothing in front of this route says who asks.")
    return principal


Caller = Annotated[Principal, Depends(_caller)]
"""Whoever asks, as a parameter of a route behind a principal resolver: `caller: Caller`."""
