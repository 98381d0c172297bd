"""Bodies of requests, bounded in length and depth."""

from __future__ import annotations

import re

from starlette.requests import Request

from pilotage.adapters.asgi.errors import BodyTooLargeError

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
            raise BodyTooLargeError(
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
