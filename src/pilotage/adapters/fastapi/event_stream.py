"""An answer that lasts: frames as server-sent events, and nothing left when the client goes.

Its own class, because what the frameworks offer costs many times as much per event and keeps readers that have left.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.fastapi.answers import EVENT_STREAM, problem_answer
from pilotage.adapters.fastapi.callers import principal_in
from pilotage.adapters.fastapi.frames import HEARTBEAT, Frame
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.problems import problem_of
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.adapters.fastapi.telling import GONE, Frames, Line, Telling
from pilotage.errors import PilotageError
from pilotage.ids import IClock


class EventStream(Response):
    """Frames until there are no more, or the client goes. Leaving never touches the run behind them.

    A slow client is not waited for: its subscription falls behind and catches up from the journal.
    """

    media_type = EVENT_STREAM

    def __init__(self, told: Frames, streams: OpenStreams, settings: HttpSettings, clock: IClock) -> None:
        # Proxies must not hold frames back.
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._told = told
        self._streams = streams
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.entered(principal_in(scope), self._settings) as is_to_end:
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                line = _SseLine(receive, send)
                seconds = self._settings.heartbeat_seconds
                ending = await Telling(self._told, line, self._streams, self._clock, seconds).to_the_end(
                    is_to_end
                )
                # Only now: a sign of life behind the end would be an error of the server.
                if ending is not GONE:
                    await line.end(ending.frame)
        except ClientDisconnect:
            pass
        except PilotageError as error:
            await self._told.aclose()
            await problem_answer(problem_of(error))(scope, receive, send)


class _SseLine(Line):
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def say(self, frames: Sequence[Frame]) -> None:
        await self._write("".join([frame.sse for frame in frames]).encode())

    async def beat(self) -> None:
        await self._write(HEARTBEAT)

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def end(self, last: Frame | None) -> None:
        """Write the last frame, and that it is the last one."""
        await self._write(last.sse.encode() if last else b"", more=False)

    async def _write(self, body: bytes, *, more: bool = True) -> None:
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError as error:
            raise ClientDisconnect from error
