"""FastAPI dependencies: `Caller`, the principal of a request, and `Inject()`, a pod of the application."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from fastapi.params import Depends as DependsParam
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.lifespan import application_of
from pilotage.agent.principal import Principal


async def _caller(connection: HTTPConnection) -> Principal:
    principal = principal_in(connection.scope)
    if principal is None:
        raise HTTPException(
            401,
            "No principal resolver is configured for this route. Pass principal=... to controller_routes().",
        )
    return principal


Caller = Annotated[Principal, Depends(_caller)]
"""The principal of the request, as a parameter of a route with authentication: `caller: Caller`."""


@dataclass(frozen=True)
class Inject(DependsParam):
    """Gives an endpoint the pod of the annotated type: `clerk: Annotated[Clerk, Inject()]`.

    `name` chooses among several. The application is the one of `pilotage_lifespan`.
    """

    name: str | None = None

    def __post_init__(self) -> None:
        # FastAPI replaces a dependency that is not given by the annotated type, which is only known here.
        if self.dependency is not None:
            object.__setattr__(self, "dependency", _pod_of(self.dependency, self.name))


def _pod_of(
    type_: Callable[..., Any], name: str | None
) -> Callable[[HTTPConnection], Coroutine[Any, Any, Any]]:
    async def pod(connection: HTTPConnection) -> Any:
        return application_of(connection).get(type_, name)

    return pod
