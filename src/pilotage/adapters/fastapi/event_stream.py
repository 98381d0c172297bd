"""Events of a run as an answer that lasts: signs of life while nothing happens, and nothing left when the client goes.

Its own class, because what the frameworks offer costs many times as much per event and keeps readers that have left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.fastapi.answers import problem_answer
from pilotage.adapters.fastapi.frames import HEARTBEAT, event_frame, problem_frame
from pilotage.adapters.fastapi.problems import TooManyStreamsError, problem_of
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.errors import PilotageError
from pilotage.ids import IClock
from pilotage.runtime.stream.subscription import Subscription


class OpenStreams:
    """How many streams are open in this process, and how many may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    def enter(self) -> bool:
        """Count one more; False where there are enough."""
        if self.count >= self._most:
            return False
        self.count += 1
        return True

    def leave(self) -> None:
        """Count one less."""
        self.count -= 1


class EventStream(Response):
    """The events of a subscription, until the run pauses or ends, or the client goes. Leaving never touches the run.

    A slow client is not waited for: its subscription falls behind and catches up from the journal.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: Subscription, streams: OpenStreams, settings: HttpSettings, clock: IClock
    ) -> None:
        # Proxies must not hold frames back.
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._streams = streams
        self._seconds = settings.heartbeat_seconds
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._streams.enter():
            await problem_answer(problem_of(TooManyStreamsError()))(scope, receive, send)
            return
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await _until_the_first_ends(self._tell(send), self._beat(send), _gone(receive))
            # Only now: a sign of life behind the end would be an error of the server.
            await _say(send, b"", more=False)
        except ClientDisconnect:
            pass
        finally:
            self._streams.leave()
            await self._events.aclose()

    async def _tell(self, send: Send) -> None:
        try:
            async for event in self._events:
                await _say(send, event_frame(event, self._events.cursor))
        except PilotageError as error:
            await _say(send, problem_frame(problem_of(error)))

    async def _beat(self, send: Send) -> None:
        """Tell clients and proxies that the line still holds."""
        while True:
            await self._clock.sleep(self._seconds)
            await _say(send, HEARTBEAT)


async def _say(send: Send, body: bytes, *, more: bool = True) -> None:
    try:
        await send({"type": "http.response.body", "body": body, "more_body": more})
    except OSError as error:
        raise ClientDisconnect from error


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_the_first_ends(*works: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
