"""Shared parts of all routes: middleware, the dependencies `Caller` and `Inject()`, JSON responses."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import Depends
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as DependsParam
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.lifespan import application_of
from pilotage.adapters.asgi.middleware import Handler, HttpMiddleware
from pilotage.adapters.asgi.problems import SECURITY_HEADERS, problem_response
from pilotage.agent.principal import Principal
from pilotage.inbound.problems import json_text, problem_of_fields, problem_of_status


class MiddlewareRoute(APIRoute):
    """A route with middleware around its handler."""

    middleware: ClassVar[HttpMiddleware]

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        return self.middleware.wrap(_with_problems(handle) if self.middleware.owns_errors else handle)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of the path; a preflight too, which has another method than the route."""
        await self.middleware.cross_origin(super().handle)(scope, receive, send)


def route_class_with(middleware: HttpMiddleware) -> type[MiddlewareRoute]:
    """Return the class from which a router makes routes with this middleware."""
    return type("RouteWithMiddleware", (MiddlewareRoute,), {"middleware": middleware})


def _with_problems(handle: Handler) -> Handler:
    """Return the handler with the refusals of FastAPI itself as problems."""

    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except RequestValidationError as error:
            return problem_response(problem_of_fields(error.errors()))
        except HTTPException as error:
            return problem_response(problem_of_status(error.status_code, str(error.detail)))

    return handled


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
    """Dependency that injects the pod of the annotated type: `clerk: Annotated[Clerk, Inject()]`.

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


def json_response(view: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a view as the body of a response."""
    return Response(
        json_text(view),
        status,
        headers={**SECURITY_HEADERS, **(headers or {})},
        media_type="application/json",
    )
