"""An answer that lasts: pieces as they come, signs of life in between, and nothing left when the client goes.

A class of our own: what the frameworks offer costs many times as much per piece, and keeps readers that have left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import ClassVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.asgi.common_end import CommonEnd
from pilotage.adapters.asgi.waiting import until_the_first_ends
from pilotage.errors import CallerError
from pilotage.ids import IClock
from pilotage.values import value


class TooManyStreamsError(CallerError):
    """As many streams are open as this process serves at once."""

    message: ClassVar[str] = "Too many streams are open. Come back in a moment."
    code: ClassVar[str] = "too_many_streams"


class OpenStreams:
    """How many streams are open at one place, and how many may be; they end together with all of the application."""

    def __init__(self, most: int, end: CommonEnd | None = None) -> None:
        self._most = most
        self._end = end or CommonEnd()
        self.count = 0

    def refuse_more(self) -> None:
        """Refuse one more where there are enough, or all are about to end.

        Raises:
            TooManyStreamsError: there are.
            ServerStoppingError: no more are opened.
        """
        self._end.refuse_if_closing()
        if self.count >= self._most:
            raise TooManyStreamsError

    @contextmanager
    def counted(self) -> Generator[asyncio.Future[None], None, None]:
        """Around one stream; the future is done when the stream is to end.

        Raises:
            ServerStoppingError: no more are opened.
        """
        with self._end.entered() as end:
            self.count += 1
            try:
                yield end
            finally:
                self.count -= 1


@value
class Heartbeat:
    """What is sent while nothing happens, and how often."""

    piece: bytes
    seconds: float


class LastingAnswer(Response):
    """Sends pieces until there are no more, the client goes or the server stops; then they are closed."""

    def __init__(
        self,
        pieces: AsyncGenerator[str, None],
        media_type: str,
        streams: OpenStreams,
        clock: IClock,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        # Proxies must not hold pieces back.
        headers = {
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            "x-content-type-options": "nosniff",
        }
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._pieces = pieces
        self._streams = streams
        self._clock = clock
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        with self._streams.counted() as end:
            try:
                await send(start)
                beating = [self._beat(send, self._heartbeat)] if self._heartbeat is not None else []
                await until_the_first_ends(self._tell(send), _gone(receive), end, *beating)
                # Only now: a sign of life behind the end would be an error of the server.
                await _say(send, b"", more=False)
            except ClientDisconnect:
                pass
            finally:
                await self._pieces.aclose()

    async def _tell(self, send: Send) -> None:
        async for piece in self._pieces:
            await _say(send, piece.encode())

    async def _beat(self, send: Send, heartbeat: Heartbeat) -> None:
        """Tell clients and proxies that the line still holds."""
        while True:
            await self._clock.sleep(heartbeat.seconds)
            await _say(send, heartbeat.piece)


async def _say(send: Send, body: bytes, *, more: bool = True) -> None:
    try:
        await send({"type": "http.response.body", "body": body, "more_body": more})
    except OSError as error:
        raise ClientDisconnect from error


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
