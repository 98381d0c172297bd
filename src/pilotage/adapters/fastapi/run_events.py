"""Events of a run as frames, each encoded once for all readers; over a WebSocket, too."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocket

from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.adapters.asgi.errors import RunStoreUnreachableError
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.streaming import (
    DISCONNECTED,
    RECONNECT,
    ClientWriter,
    Heartbeat,
    StreamEnd,
    StreamInterruptedError,
    deliver,
)
from pilotage.adapters.fastapi.bodies import RunId, cursor_of
from pilotage.adapters.fastapi.frames import (
    RECONNECT_FRAME,
    SOCKET_HEARTBEAT,
    Frame,
    event_frame,
    problem_frame,
)
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.events import RunFinishedEvent, RunPausedEvent
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentStatus
from pilotage.errors import PilotageError
from pilotage.runtime.events.feed import EventCursor, PositionedEvent
from pilotage.runtime.runs import AgentRuns

_EVENTS_TOGETHER = 256
_CHARACTERS_TOGETHER = 32_000
_REMEMBERED = 1_024


class EncodedEvents:
    """The frames of the last events: all readers of a live run get the same objects."""

    def __init__(self) -> None:
        # With the event itself: as long as it is here, no other object has its id.
        self._known: OrderedDict[int, tuple[PositionedEvent, Frame]] = OrderedDict()

    def frame_of(self, told: PositionedEvent) -> Frame:
        """Return the frame of an event."""
        known = self._known.get(id(told[3]))
        if known is not None and known[0][:3] == told[:3]:
            return known[1]
        epoch, number, offset, event = told
        frame = event_frame(event, str(EventCursor(epoch, number, offset)))
        self._known[id(event)] = (told, frame)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return frame


class RunFrames(AsyncIterator[Sequence[Frame]]):
    """The events of a run after a cursor, as frames that go out together.

    Raises StreamInterruptedError where they end before the run pauses or ends.
    """

    def __init__(
        self,
        runs: AgentRuns,
        run_id: str,
        principal: Principal | None,
        after: str | None,
        encoded: EncodedEvents,
    ) -> None:
        self._events = runs.events(run_id, after=after, principal=principal)
        self._state = partial(runs.get, run_id, principal=principal)
        self._encoded = encoded
        self._ready: deque[Frame] = deque()
        self._is_over = False

    async def __anext__(self) -> Sequence[Frame]:
        if not self._ready:
            await self._read()
        frames: list[Frame] = []
        size = 0
        # A client that does not read should not hold more than this in the buffers of its connection.
        while self._ready and size < _CHARACTERS_TOGETHER:
            frames.append(self._ready.popleft())
            size += len(frames[-1].data)
        return frames

    async def aclose(self) -> None:
        """End the subscription."""
        await self._events.aclose()

    async def _read(self) -> None:
        if self._is_over:
            raise StopAsyncIteration
        try:
            batch = await self._events.next_batch(_EVENTS_TOGETHER)
            if not batch:
                await self._stop()
        except OSError as error:
            raise RunStoreUnreachableError from error
        self._ready.extend(map(self._encoded.frame_of, batch))
        self._is_over = isinstance(batch[-1][3], RunFinishedEvent | RunPausedEvent)

    async def _stop(self) -> None:
        """End the frames: either no events will follow, or this process does not drive the run any more."""
        state = await self._state()
        if state.is_terminal or state.status is AgentStatus.INTERRUPTED:
            raise StopAsyncIteration
        raise StreamInterruptedError


class EventSocket:
    """Sends the events of a run over a WebSocket, until it pauses or ends; messages of the client are ignored."""

    def __init__(
        self,
        runs: Callable[[], AgentRuns],
        authentication: Authentication,
        streams: OpenStreams,
        settings: HttpSettings,
        encoded: EncodedEvents,
    ) -> None:
        self._runs = runs
        self._authentication = authentication
        self._streams = streams
        self._settings = settings
        self._encoded = encoded

    def add_to(self, router: APIRouter) -> None:
        """Add the route to a router, at the address of the server-sent stream."""
        router.websocket("/runs/{run_id}/events")(self.read_events)

    async def read_events(self, websocket: WebSocket, run_id: RunId, after: str | None = None) -> None:
        """Send the events after `after`; a run that cannot be read is refused before the connection is made."""
        try:
            frames = await self._opened(websocket, run_id, after)
            with self._streams.entered(principal_in(websocket.scope), self._settings) as shutdown:
                await websockets.accept(websocket)
                await self._send(websocket, frames, shutdown)
        except PilotageError as error:
            await websockets.refuse(websocket, error)
        except ClientDisconnect:
            pass

    async def _opened(self, websocket: WebSocket, run_id: str, after: str | None) -> RunFrames:
        try:
            caller = await self._authentication.principal_of(websocket)
            cursor, runs = cursor_of(None, after), self._runs()
            await runs.get(run_id, principal=caller)
        except OSError as error:
            raise RunStoreUnreachableError from error
        return RunFrames(runs, run_id, caller, cursor, self._encoded)

    async def _send(self, websocket: WebSocket, frames: RunFrames, shutdown: asyncio.Future[None]) -> None:
        async def send(messages: Sequence[str]) -> None:
            for message in messages:
                await websockets.send_text(websocket, message)

        heartbeat: Heartbeat[Sequence[str]] = Heartbeat((SOCKET_HEARTBEAT,), self._settings.heartbeat_seconds)
        writer = ClientWriter(send, heartbeat, self._streams, self._runs().services.clock)
        end = await deliver(frames, _messages, writer, websockets.disconnected(websocket), shutdown)
        if end is not DISCONNECTED:
            await send(_last_messages(end))
            await websockets.close(websocket, end.code, end.reason)


def _messages(frames: Sequence[Frame]) -> Sequence[str]:
    return [frame.message for frame in frames]


def _last_messages(end: StreamEnd) -> Sequence[str]:
    if end.problem is not None:
        return [problem_frame(end.problem).message]
    return [RECONNECT_FRAME.message] if end is RECONNECT else []
