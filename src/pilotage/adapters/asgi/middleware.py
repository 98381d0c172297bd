"""`HttpMiddleware`: authentication, limits of bodies, problems and security headers around a handler of requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Message

from pilotage.adapters.asgi.authentication import Authentication, CrossOrigin
from pilotage.adapters.asgi.problems import NOSNIFF, problem_response
from pilotage.adapters.http_settings import HttpSettings
from pilotage.errors import PilotageError
from pilotage.inbound.limits import body_too_large, check_body
from pilotage.inbound.problems import RunStoreUnreachableError, problem_of_status
from pilotage.runtime.journal.interruptions import StoreUnavailable

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


async def bounded_body(request: Request, longest: int) -> bytes:
    """Return the body of a request, of which no more than allowed is read.

    Raises:
        BodyTooLargeError: it is longer.
        ClientDisconnect: the client left before the end of the body.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > longest:
            raise body_too_large(longest)
        pieces.append(piece)
    return b"".join(pieces)


class HttpMiddleware:
    """Middleware that authenticates a request before its body is read, and limits that body by the settings.

    Without authentication all requests are served. `owns_errors` says that the handlers are ours alone: an OSError is
    then an error of the store. `takes_any` says that bodies are bytes of any kind, and that nothing reads them as JSON.
    """

    def __init__(
        self,
        authentication: Authentication | None,
        settings: HttpSettings,
        *,
        owns_errors: bool = False,
        takes_any: bool = False,
    ) -> None:
        self._authentication = authentication
        self._settings = settings
        self.owns_errors = owns_errors
        self._takes_any = takes_any

    def wrap(self, handle: Handler) -> Handler:
        """Return the handler with the middleware around it."""

        async def wrapped(request: Request) -> Response:
            response = await self._handled(request, handle)
            for name, text in NOSNIFF.items():
                response.headers.setdefault(name, text)
            return response

        return wrapped

    def cross_origin(self, app: ASGIApp) -> CrossOrigin:
        """Return an ASGI application with answers to preflights, and the headers for pages of allowed origins."""
        return CrossOrigin(app, self._settings.allowed_origins)

    def endpoint(self, handle: Handler) -> CrossOrigin:
        """Return the handler, with everything around it, as the endpoint of a route that lets OPTIONS through."""
        return self.cross_origin(request_response(self.wrap(handle)))

    async def _handled(self, request: Request, handle: Handler) -> Response:
        try:
            if self._authentication is not None:
                await self._authentication.principal_of(request)
            return await handle(await self._bounded(request))
        except PilotageError as error:
            return problem_response(error)
        except StoreUnavailable:
            return problem_response(RunStoreUnreachableError())
        except ClientDisconnect:
            return problem_response(problem_of_status(400, "the body broke off"))
        except OSError:
            if not self.owns_errors:
                raise
            return problem_response(RunStoreUnreachableError())

    async def _bounded(self, request: Request) -> Request:
        """Return the request with its body read: frameworks read bodies of any length and depth."""
        body = await bounded_body(request, self._settings.max_body_bytes)
        if not self._takes_any and "json" in request.headers.get("content-type", "json"):
            check_body(body, self._settings)

        is_given = False

        async def receive() -> Message:
            nonlocal is_given
            if is_given:
                # All that can follow is that the client disconnects.
                return await request.receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(request.scope, receive)
