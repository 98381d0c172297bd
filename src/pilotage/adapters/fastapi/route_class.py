"""Routes of FastAPI with the middleware of the HTTP layer around them."""

from __future__ import annotations

from typing import ClassVar

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pilotage.adapters.asgi.middleware import Handler, HttpMiddleware
from pilotage.adapters.asgi.problems import problem_of_fields, problem_of_status, problem_response


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
