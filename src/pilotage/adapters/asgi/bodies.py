"""Bodies of requests, within bounds."""

from __future__ import annotations

from typing import ClassVar

from starlette.requests import Request

from pilotage.errors import CallerError


class BodyTooLargeError(CallerError):
    """The body is longer than this process takes."""

    message: ClassVar[str] = "The body is too long."
    code: ClassVar[str] = "body_too_large"


async def bounded_body(request: Request, longest: int) -> bytes:
    """The body of a request; no more of it is read than allowed.

    Raises:
        BodyTooLargeError: it is longer.
        ClientDisconnect: it broke off.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > longest:
            raise BodyTooLargeError(
                f"the body is longer than {longest:,} bytes, which is what this server takes."
            )
        pieces.append(piece)
    return b"".join(pieces)
