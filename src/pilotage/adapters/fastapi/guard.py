"""What stands in front of every route: who asks, how much they send, and what they are told when it fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeAlias

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from pilotage.adapters.asgi.bodies import bounded_body
from pilotage.adapters.fastapi.answers import problem_answer
from pilotage.adapters.fastapi.bodies import is_deeper_than
from pilotage.adapters.fastapi.entrance import Entrance
from pilotage.adapters.fastapi.errors import RequestRefusedError, StoreUnreachableError
from pilotage.adapters.fastapi.problems import ProblemView, problem_of, problem_of_fields, problem_of_status
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.errors import PilotageError
from pilotage.runtime.journal.interruptions import StoreUnavailable

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class Guard:
    """Lets a request in when it is known who asks, and no more of it than the settings allow.

    Without an entrance everybody is let in. `owns_errors` says that nothing but us is behind it: what the framework
    refuses is told as a problem too, and a broken connection is one to the store.
    """

    def __init__(
        self, entrance: Entrance | None, settings: HttpSettings, *, owns_errors: bool = False
    ) -> None:
        self._entrance = entrance
        self._settings = settings
        self._owns_errors = owns_errors

    def around(self, handle: Handler) -> Handler:
        """The handler behind the guard; every error of ours becomes a problem."""

        async def guarded(request: Request) -> Response:
            try:
                if self._entrance is not None:
                    await self._entrance.admit(request)
                return await handle(await self._bounded(request))
            except PilotageError as error:
                return problem_answer(problem_of(error))
            except StoreUnavailable:
                return problem_answer(problem_of(StoreUnreachableError()))
            except ClientDisconnect:
                return problem_answer(problem_of_status(400, "the body broke off"))
            except (RequestValidationError, HTTPException, OSError) as error:
                if not self._owns_errors:
                    raise
                return problem_answer(_told(error))

        return guarded

    async def _bounded(self, request: Request) -> Request:
        """The request with its body read: the framework would read one of any length and depth."""
        body = await bounded_body(request, self._settings.max_body_bytes)
        deepest = self._settings.max_body_depth
        if "json" in request.headers.get("content-type", "") and is_deeper_than(deepest, body):
            raise RequestRefusedError(f"the body is nested more than {deepest} levels deep.")

        is_given = False

        async def receive() -> Message:
            nonlocal is_given
            if is_given:
                # Nothing more comes but that the client goes.
                return await request.receive()
            is_given = True
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


def _told(error: RequestValidationError | HTTPException | OSError) -> ProblemView:
    match error:
        case RequestValidationError():
            return problem_of_fields(error.errors())
        case HTTPException():
            return problem_of_status(error.status_code, str(error.detail))
        case _:
            return problem_of(StoreUnreachableError())
