"""`StreamingResponse`: an HTTP response that is written piece by piece, for every adapter and format.

A class of our own: those of the frameworks cost many times as much per piece, and keep readers that have left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.problems import SECURITY_HEADERS, ProblemView, problem_response
from pilotage.adapters.asgi.streaming import (
    DISCONNECTED,
    RECONNECT,
    ClientWriter,
    Heartbeat,
    Items,
    StreamEnd,
    deliver,
)
from pilotage.adapters.http_settings import HttpSettings
from pilotage.errors import PilotageError
from pilotage.ids import IClock
from pilotage.values import value

EVENT_STREAM = "text/event-stream"
SSE_HEARTBEAT = b":\n\n"
T = TypeVar("T")


@value(slots=False)
class StreamFormat(Generic[T]):
    """How a protocol writes its streams.

    `encode`      an item as bytes
    `problem`     the last piece of a stream that failed
    `reconnect`   the last piece of a stream that ends before its items do
    `heartbeat`   what is sent while nothing happens; None where the format has no such piece
    """

    media_type: str
    encode: Callable[[T], bytes]
    problem: Callable[[ProblemView], bytes]
    reconnect: bytes = b""
    heartbeat: bytes | None = SSE_HEARTBEAT


class StreamingResponse(Response):
    """Sends items until they end, the client goes or the server stops; then the items are closed.

    The limits of streams apply when it begins: a stream too many is answered with a problem instead.
    """

    media_type = EVENT_STREAM

    def __init__(
        self,
        items: Items[T],
        stream_format: StreamFormat[T],
        *,
        streams: OpenStreams,
        settings: HttpSettings,
        clock: IClock,
    ) -> None:
        # Proxies must not buffer the pieces.
        headers = {**SECURITY_HEADERS, "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type=stream_format.media_type)
        del self.headers["content-length"]
        self._items: Items[Any] = items
        self._format: StreamFormat[Any] = stream_format
        self._streams = streams
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.entered(principal_in(scope), self._settings) as shutdown:
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )

                async def write(body: bytes) -> None:
                    await _write(send, body)

                heartbeat = Heartbeat(self._format.heartbeat, self._settings.heartbeat_seconds)
                writer = ClientWriter(write, heartbeat, self._streams, self._clock)
                end = await deliver(
                    self._items, self._format.encode, writer, _disconnected(receive), shutdown
                )
                # Only now: a heartbeat after the end would be an error of the server.
                if end is not DISCONNECTED:
                    await _write(send, self._last_piece(end), more=False)
        except ClientDisconnect:
            pass
        except PilotageError as error:
            await self._items.aclose()
            await problem_response(error)(scope, receive, send)

    def _last_piece(self, end: StreamEnd) -> bytes:
        if end.problem is not None:
            return self._format.problem(end.problem)
        return self._format.reconnect if end is RECONNECT else b""


async def _write(send: Send, body: bytes, *, more: bool = True) -> None:
    try:
        await send({"type": "http.response.body", "body": body, "more_body": more})
    except OSError as error:
        raise ClientDisconnect from error


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
