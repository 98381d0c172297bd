"""Events of a run over a WebSocket: the same frames as in a server-sent stream, each a message of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from pilotage.adapters.fastapi.bodies import cursor_of
from pilotage.adapters.fastapi.callers import principal_in
from pilotage.adapters.fastapi.errors import StoreUnreachableError
from pilotage.adapters.fastapi.frames import SOCKET_HEARTBEAT, Frame
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.problems import problem_of
from pilotage.adapters.fastapi.reading import RunId
from pilotage.adapters.fastapi.run_frames import EncodedEvents, RunFrames
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.adapters.fastapi.socket_guard import SocketGuard, protocol_for, turn_away
from pilotage.adapters.fastapi.telling import GONE, Line, Telling
from pilotage.errors import PilotageError
from pilotage.runtime.runs import AgentRuns


class EventSocket:
    """Tells a client what a run does, until it pauses or ends. What the client sends is not looked at."""

    def __init__(
        self,
        runs: Callable[[], AgentRuns],
        guard: SocketGuard,
        streams: OpenStreams,
        settings: HttpSettings,
        encoded: EncodedEvents,
    ) -> None:
        self._runs = runs
        self._guard = guard
        self._streams = streams
        self._settings = settings
        self._encoded = encoded

    def add_to(self, router: APIRouter) -> None:
        """Add the route to a router, at the address of the server-sent stream."""
        router.websocket("/runs/{run_id}/events")(self.read_events)

    async def read_events(self, websocket: WebSocket, run_id: RunId, after: str | None = None) -> None:
        """The events behind `after`; a run that cannot be read is refused before the connection is made."""
        try:
            told = await self._opened(websocket, run_id, after)
            with self._streams.entered(principal_in(websocket.scope), self._settings) as is_to_end:
                await websocket.accept(protocol_for(websocket))
                await self._tell(websocket, told, is_to_end)
        except PilotageError as error:
            await turn_away(websocket, problem_of(error))
        except ClientDisconnect:
            pass

    async def _opened(self, websocket: WebSocket, run_id: str, after: str | None) -> RunFrames:
        try:
            await self._guard.admit(websocket)
            caller, cursor, runs = principal_in(websocket.scope), cursor_of(None, after), self._runs()
            await runs.get(run_id, principal=caller)
        except OSError as error:
            raise StoreUnreachableError from error
        return RunFrames(runs, run_id, caller, cursor, self._encoded)

    async def _tell(self, websocket: WebSocket, told: RunFrames, is_to_end: asyncio.Future[None]) -> None:
        line, clock = SocketLine(websocket), self._runs().services.clock
        telling = Telling(told, line, self._streams, clock, self._settings.heartbeat_seconds)
        ending = await telling.to_the_end(is_to_end)
        if ending is not GONE:
            await line.end(ending.frame, ending.code, ending.reason)


class SocketLine(Line):
    """A WebSocket that is open."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def say(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            await self._write(frame.message)

    async def beat(self) -> None:
        await self._write(SOCKET_HEARTBEAT)

    async def gone(self) -> None:
        while self._websocket.client_state is WebSocketState.CONNECTED:
            await self._websocket.receive()

    async def end(self, last: Frame | None, code: int, reason: str) -> None:
        """Write the last frame and close."""
        if last is not None:
            await self.say([last])
        try:
            await self._websocket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ClientDisconnect from error

    async def _write(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ClientDisconnect from error
