"""Frames: events and values as server-sent events and messages of a WebSocket; the events of a run as frames."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, partial
from itertools import count, groupby
from operator import attrgetter
from typing import TypeAlias, cast, get_args

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocket

from pilotage.adapters.asgi import streaming, websockets
from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    RunFinishedEvent,
    RunPausedEvent,
    delta_of,
    with_text,
)
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentStatus
from pilotage.agent.yields import AgentYield, AgentYieldJsonEncoder
from pilotage.errors import PilotageError
from pilotage.inbound.bodies import RunId, cursor_of
from pilotage.inbound.problems import ProblemView, RunStoreUnreachableError, json_text
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.events.feed import EventCursor, PositionedEvent
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

SOCKET_HEARTBEAT = '{"event":"heartbeat"}'
_RETRY_MILLISECONDS = 1_000
_EVENTS_TOGETHER = 256
_CHARACTERS_TOGETHER = 32_000
_REMEMBERED = 1_024
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


@value(slots=False)
class Frame:
    """One frame: its event name, its JSON text, and the cursor after it, if there is one."""

    event: str | None
    data: str
    id: str | None = None

    @cached_property
    def sse(self) -> str:
        """The frame as a server-sent event."""
        retry = f"retry: {_RETRY_MILLISECONDS}\n" if self is RECONNECT_FRAME else ""
        named = f"id: {self.id}\n" if self.id is not None else ""
        called = f"event: {self.event}\n" if self.event is not None else ""
        return f"{named}{retry}{called}data: {self.data}\n\n"

    @cached_property
    def message(self) -> str:
        """The frame as one message over a WebSocket: an object with `event`, `id` and `data`."""
        named = f'"id":"{self.id}",' if self.id is not None else ""
        called = f'"event":"{self.event}",' if self.event is not None else ""
        return f'{{{called}{named}"data":{self.data}}}'


RECONNECT_FRAME = Frame(
    "reconnect", '{"detail":"The stream ends here and the run goes on. Come back with the last id."}'
)
"""The last frame of a stream that ends before its run does."""


def event_frame(event: AgentEvent, cursor: str, *, is_attributed: bool = True) -> Frame:
    """Return an event with the cursor after it; without an attribution for readers who know it already."""
    members = {name: read(event) for name, read in _MEMBERS[type(event)].items()}
    if not members["metadata"]:
        del members["metadata"]
    if is_attributed:
        members["attribution"] = event.attribution
    return Frame(event.kind.value, text_of(members), cursor)


# Without the attribution: by a name, what reads one member.
_MEMBERS: Mapping[type[AgentEvent], Mapping[str, Callable[[AgentEvent], object]]] = {
    kind: {each.name: attrgetter(each.name) for each in fields(kind) if each.name != "attribution"}
    for kind in get_args(AgentEvent)
}


def problem_frame(problem: ProblemView) -> Frame:
    """Return the frame for an early end. It has no id: a client that reconnects continues after the last event."""
    return Frame("problem", json_text(problem).decode())


def item_frame(item: object) -> Frame:
    """Return an item of an agent's stream, an event of a run, or any value that has a JSON form."""
    if isinstance(item, AgentYield):
        item_of_stream = cast("AgentYield[object]", item)
        return Frame(item_of_stream.kind.value, text_of(AgentYieldJsonEncoder.encode(item_of_stream)))
    kind: object = getattr(item, "kind", None)
    return Frame(kind.value if isinstance(kind, AgentEventKind) else None, text_of(item))


def text_of(item: object) -> str:
    """Return JSON on one line, all of it ASCII: lone surrogates have no other form on the wire."""
    return _encoder.encode(to_json_value(item))


def sse_of(frames: Sequence[Frame]) -> bytes:
    """Return frames as a piece of a server-sent stream."""
    return "".join([frame.sse for frame in frames]).encode()


def messages_of(frames: Sequence[Frame]) -> Sequence[str]:
    """Return frames as messages of a WebSocket."""
    return [frame.message for frame in frames]


def last_frames(end: streaming.StreamEnd) -> Sequence[Frame]:
    """Return the last frames of a stream that ends before its items do, with the reason."""
    if end.problem is not None:
        return [problem_frame(end.problem)]
    return [RECONNECT_FRAME] if end is streaming.RECONNECT else []


SSE_FORMAT: streaming.StreamFormat[Sequence[Frame]] = streaming.StreamFormat(
    streaming.EVENT_STREAM,
    encode=sse_of,
    problem=lambda problem: sse_of([problem_frame(problem)]),
    reconnect=sse_of([RECONNECT_FRAME]),
)
"""Frames that go out together, as server-sent events."""


class ItemFrames(AsyncIterator[Sequence[Frame]]):
    """The items of a method that is an async generator, as frames."""

    def __init__(self, items: AsyncGenerator[object, None]) -> None:
        self._items = items

    async def __anext__(self) -> Sequence[Frame]:
        return (item_frame(await anext(self._items)),)

    async def aclose(self) -> None:
        await self._items.aclose()


Piece: TypeAlias = tuple[PositionedEvent, ...]
"""Events that go out as one: a single one, or pieces of one text."""


def joined(batch: Iterable[PositionedEvent]) -> Iterator[Piece]:
    """Yield the events of a batch; consecutive pieces of one text come together, up to a size. Pure."""
    for _, group in groupby(batch, _TextOf()):
        yield tuple(group)


class _TextOf:
    """Gives events of one text equal keys, as long as there is not too much of it, and all others keys of their own."""

    def __init__(self) -> None:
        self._alone = count()
        self._size = 0

    def __call__(self, positioned: PositionedEvent) -> object:
        event = positioned[3]
        delta = delta_of(event) if not event.metadata else None
        if delta is None:
            return next(self._alone)
        self._size += len(delta[1])
        return self._size // _CHARACTERS_TOGETHER, positioned[0], event.attribution, delta[0]


class EncodedEvents:
    """The frames of the last events: all readers of a live run get the same objects."""

    def __init__(self) -> None:
        # With the events themselves: as long as they are here, no other object has their ids.
        self._frames: OrderedDict[tuple[int, int, bool], tuple[Piece, Frame]] = OrderedDict()

    def frame_of(self, piece: Piece, *, is_attributed: bool) -> Frame:
        """Return the frame of an event, or of pieces of one text."""
        key = (id(piece[0][3]), id(piece[-1][3]), is_attributed)
        cached = self._frames.get(key)
        if cached is not None and cached[0] == piece:
            return cached[1]
        epoch, number, offset, event = piece[-1]
        if len(piece) > 1:
            texts = (delta_of(each[3]) for each in piece)
            event = with_text(event, "".join([delta[1] for delta in texts if delta is not None]))
        frame = event_frame(event, str(EventCursor(epoch, number, offset)), is_attributed=is_attributed)
        self._frames[key] = (piece, frame)
        if len(self._frames) > _REMEMBERED:
            self._frames.popitem(last=False)
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
        self._run_id = run_id
        self._events = runs.events(run_id, after=after, principal=principal)
        self._state = partial(runs.get, run_id, principal=principal)
        self._encoded = encoded
        self._ready: deque[Frame] = deque()
        self._last: AgentEventAttribution | None = None
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
        self._ready.extend(map(self._frame_of, joined(batch)))
        self._is_over = self._is_end(batch[-1][3])

    def _is_end(self, event: AgentEvent) -> bool:
        """Return whether the run pauses or ends with an event; the end of a child run is none."""
        is_own = event.attribution.run_id == self._run_id
        return is_own and isinstance(event, RunFinishedEvent | RunPausedEvent)

    def _frame_of(self, piece: Piece) -> Frame:
        """Return the frame of a piece, with an attribution if it differs from that of the piece before."""
        by = piece[0][3].attribution
        is_known, self._last = by is self._last or by == self._last, by
        return self._encoded.frame_of(piece, is_attributed=not is_known)

    async def _stop(self) -> None:
        """End the frames: either no events will follow, or this process does not drive the run any more."""
        state = await self._state()
        if state.is_terminal or state.status is AgentStatus.INTERRUPTED:
            raise StopAsyncIteration
        raise streaming.StreamInterruptedError


class EventSocket:
    """Events of a run over a WebSocket, until it pauses or ends; messages of the client are ignored."""

    def __init__(
        self,
        runs: Callable[[], AgentRuns],
        authentication: Authentication,
        streams: streaming.Streams,
        encoded: EncodedEvents,
    ) -> None:
        self._runs = runs
        self._authentication = authentication
        self._streams = streams
        self._encoded = encoded

    def add_to(self, router: APIRouter) -> None:
        """Add the route to a router, at the address of the server-sent stream."""
        router.websocket("/runs/{run_id}/events")(self.read_events)

    async def read_events(self, websocket: WebSocket, run_id: RunId, after: str | None = None) -> None:
        """Send the events after `after`; a run that cannot be read is refused before the connection is made."""
        try:
            frames = await self._opened(websocket, run_id, after)
            with self._streams.entered(principal_in(websocket.scope)) as shutdown:
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

        writer: streaming.ClientWriter[Sequence[str]] = self._streams.writer(send, (SOCKET_HEARTBEAT,))
        end = await streaming.deliver(
            frames, messages_of, writer, websockets.disconnected(websocket), shutdown
        )
        if end is not streaming.DISCONNECTED:
            await send(messages_of(last_frames(end)))
            await websockets.close(websocket, end.code, end.reason)
