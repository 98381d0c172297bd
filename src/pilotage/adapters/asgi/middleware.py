"""`HttpMiddleware`: authentication, limits of bodies, problems and security headers around a handler of requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from pilotage.adapters.asgi import problems
from pilotage.adapters.asgi.authentication import Authentication
from pilotage.adapters.http_settings import HttpSettings
from pilotage.errors import PilotageError
from pilotage.jsonvalue import repeated_key
from pilotage.runtime.journal.interruptions import StoreUnavailable

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


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
            raise problems.BodyTooLargeError(
                f"the body is longer than {longest:,} bytes, which is what this server takes."
            )
        pieces.append(piece)
    return b"".join(pieces)


def is_deeper_than(levels: int, body: bytes) -> bool:
    """Return whether a JSON text is nested deeper, without decoding it."""
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels:
            return True
    return False


class HttpMiddleware:
    """Middleware that authenticates a request before its body is read, and limits that body by the settings.

    Without authentication all requests are served. `owns_errors` says that the handlers are ours alone: an OSError is
    then an error of the store.
    """

    def __init__(
        self, authentication: Authentication | None, settings: HttpSettings, *, owns_errors: bool = False
    ) -> None:
        self._authentication = authentication
        self._settings = settings
        self.owns_errors = owns_errors

    def wrap(self, handle: Handler) -> Handler:
        """Return the handler with the middleware around it."""

        async def wrapped(request: Request) -> Response:
            response = await self._handled(request, handle)
            for name, text in problems.NOSNIFF.items():
                response.headers.setdefault(name, text)
            return response

        return wrapped

    async def _handled(self, request: Request, handle: Handler) -> Response:
        try:
            if self._authentication is not None:
                await self._authentication.principal_of(request)
            return await handle(await self._bounded(request))
        except PilotageError as error:
            return problems.problem_response(error)
        except StoreUnavailable:
            return problems.problem_response(problems.RunStoreUnreachableError())
        except ClientDisconnect:
            return problems.problem_response(problems.problem_of_status(400, "the body broke off"))
        except OSError:
            if not self.owns_errors:
                raise
            return problems.problem_response(problems.RunStoreUnreachableError())

    async def _bounded(self, request: Request) -> Request:
        """Return the request with its body read: frameworks read bodies of any length and depth."""
        body = await bounded_body(request, self._settings.max_body_bytes)
        deepest = self._settings.max_body_depth
        if "json" in request.headers.get("content-type", "json"):
            if is_deeper_than(deepest, body):
                raise problems.RequestRefusedError(f"the body is nested more than {deepest} levels deep.")
            repeated = repeated_key(body)
            if repeated is not None:
                raise problems.RequestRefusedError(
                    f"the body has the key {repeated!r} twice in one object. Send it once."
                )

        is_given = False

        async def receive() -> Message:
            nonlocal is_given
            if is_given:
                # All that can follow is that the client disconnects.
                return await request.receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(request.scope, receive)
