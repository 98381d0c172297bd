"""Shared parts of all routes: middleware, the dependencies `Caller` and `Inject()`, responses and their description."""

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

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.lifespan import application_of
from pilotage.adapters.asgi.middleware import Handler, HttpMiddleware
from pilotage.adapters.asgi.problems import PROBLEM_JSON, SECURITY_HEADERS, problem_response
from pilotage.adapters.asgi.streaming import EVENT_STREAM
from pilotage.agent.principal import Principal
from pilotage.inbound.problems import ProblemView, json_text, problem_of_fields, problem_of_status


class MiddlewareRoute(APIRoute):
    """A route with middleware around its handler."""

    middleware: ClassVar[HttpMiddleware]

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        return self.middleware.wrap(_with_problems(handle) if self.middleware.owns_errors else handle)


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


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the problems of a route."""
    schema = ProblemView.model_json_schema()
    # References would point into the whole description, where their targets are missing.
    schema["properties"]["problems"]["items"] = schema.pop("$defs")["FieldProblem"]
    content = {PROBLEM_JSON: {"schema": schema}}
    return {status: {"description": "The request failed.", "content": content} for status in statuses}


def stream_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the frames of a stream, and of the problems of its route."""
    frame: dict[str, Any] = {
        "title": "Frame",
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": {"type": "string", "description": "The cursor after the event."},
            "event": {"type": "string", "description": "The kind of the event; or problem, or reconnect."},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "retry": {"type": "integer", "description": "After how many milliseconds to come back."},
        },
    }
    streamed = {"description": "Frames as they come.", "content": {EVENT_STREAM: {"schema": frame}}}
    return {200: streamed, **problem_responses(*statuses)}
