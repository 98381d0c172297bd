"""What stands in front of every route: who asks, how much they send, and what they are told when it fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from fastapi import Depends
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from pilotage.adapters.fastapi.answers import problem_answer
from pilotage.adapters.fastapi.problems import (
    BodyTooLargeError,
    problem_of,
    problem_of_fields,
    problem_of_status,
)
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.errors import NotAuthenticatedError, PilotageError

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

_PRINCIPAL = "pilotage.principal"


class Guard:
    """Lets a request in when it is known who asks, and no more of it than the settings allow."""

    def __init__(self, resolver: Callable[[], IPrincipalResolver], settings: HttpSettings) -> None:
        self._resolver = resolver
        self._longest = settings.max_body_bytes

    def around(self, handle: Handler) -> Handler:
        """The handler behind the guard; every error of ours becomes a problem."""

        async def guarded(request: Request) -> Response:
            try:
                request.scope[_PRINCIPAL] = await self._principal_of(request)
                return await handle(await self._bounded(request))
            except RequestValidationError as error:
                return problem_answer(problem_of_fields(error.errors()))
            except HTTPException as error:
                return problem_answer(problem_of_status(error.status_code, str(error.detail)))
            except PilotageError as error:
                return problem_answer(problem_of(error))
            except ClientDisconnect:
                return problem_answer(problem_of_status(400, "the body broke off"))

        return guarded

    async def _principal_of(self, request: Request) -> Principal:
        headers: dict[str, str] = {}
        for name, text in request.headers.items():
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        principal = cast(object, await self._resolver().resolve(headers))
        if not isinstance(principal, Principal):
            raise NotAuthenticatedError
        return principal

    async def _bounded(self, request: Request) -> Request:
        """The request with its body read: the framework would read one of any length."""
        pieces: list[bytes] = []
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > self._longest:
                raise BodyTooLargeError(
                    f"the body is longer than {self._longest:,} bytes, which is what this server takes."
                )
            pieces.append(piece)
        body = b"".join(pieces)

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(request.scope, receive)


class GuardedRoute(APIRoute):
    """A route behind a guard."""

    guard: ClassVar[Guard]

    def get_route_handler(self) -> Handler:
        return self.guard.around(super().get_route_handler())


def route_behind(guard: Guard) -> type[GuardedRoute]:
    """The class of routes behind one guard; a router makes its routes of it."""
    return type("RouteBehindGuard", (GuardedRoute,), {"guard": guard})


async def _caller(request: Request) -> Principal:
    return cast(Principal, request.scope[_PRINCIPAL])


Caller = Annotated[Principal, Depends(_caller)]
"""Who asks, as the guard found out."""
