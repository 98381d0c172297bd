"""Streaming to one client over HTTP or a WebSocket: heartbeats, slow clients, shutdown, errors; no task is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.problems import SECURITY_HEADERS, problem_response
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.principal import Principal
from pilotage.container.application import Application
from pilotage.errors import PilotageError
from pilotage.ids import IClock, SystemClock
from pilotage.inbound.limits import OpenStreams
from pilotage.inbound.problems import INTERNAL, ProblemView, problem_of
from pilotage.values import value

_log = logging.getLogger(__name__)
# A client that takes nothing for so many heartbeats is given up: it holds a stream that others could have.
_MISSED_HEARTBEATS = 4
EVENT_STREAM = "text/event-stream"
SSE_HEARTBEAT = b":\n\n"

ItemT = TypeVar("ItemT")
ItemT_co = TypeVar("ItemT_co", covariant=True)
T = TypeVar("T")


class Items(Protocol[ItemT_co]):
    """The items of a stream; an async generator is one."""

    def __aiter__(self) -> AsyncIterator[ItemT_co]: ...

    def aclose(self) -> Awaitable[None]:
        """Free what the items are read from."""
        ...


class StreamInterruptedError(Exception):
    """The items end here although there will be more of them: the client should reconnect."""


@value(slots=False)
class Heartbeat(Generic[T]):
    """The bytes sent while nothing else is (None for nothing), and the interval."""

    piece: T | None
    seconds: float


@value
class StreamEnd:
    """Reason for the end of a stream, with the code and text that close a WebSocket; `problem` after an error."""

    code: int
    reason: str
    problem: ProblemView | None = None


COMPLETED = StreamEnd(1000, "this is all")
RECONNECT = StreamEnd(1012, "come back with the last id")
DISCONNECTED = StreamEnd(1001, "the client has gone")


def failed(problem: ProblemView) -> StreamEnd:
    """Return the end of a stream that cannot go on; its code is 4000 and the status."""
    return StreamEnd(4000 + problem.status, problem.code, problem)


class ClientWriter(Generic[T]):
    """Writes to one client. Writes raise ClientDisconnect when the client has gone."""

    def __init__(
        self,
        send: Callable[[T], Awaitable[None]],
        heartbeat: Heartbeat[T],
        streams: OpenStreams,
        clock: IClock,
    ) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._streams = streams
        self._clock = clock
        self._is_writing = False
        self._written = 0
        self._beating: asyncio.Future[None] | None = None

    async def write(self, piece: T) -> None:
        """Send a piece; return when there is room for more, and the pause that all streams make is over."""
        started, self._is_writing = self._clock.monotonic(), True
        await self._send(piece)
        self._is_writing = False
        self._streams.wrote(self._clock.monotonic() - started)
        self._written += 1
        if rest := self._streams.rest():
            await self._clock.sleep(rest)

    async def keep_alive(self) -> None:
        """Send heartbeats while nothing else is sent.

        Raises:
            ClientDisconnect: the client has gone, or has taken nothing for several heartbeats.
        """
        missed = 0
        try:
            while missed < _MISSED_HEARTBEATS:
                written = self._written
                await self._clock.sleep(self._heartbeat.seconds)
                is_stuck = self._is_writing and written == self._written
                missed = missed + 1 if is_stuck or not self._beat() else 0
        finally:
            if self._beating is not None:
                await stopped([self._beating])
                # A failed heartbeat needs no report: the stream has ended.
                if not self._beating.cancelled():
                    self._beating.exception()
        raise ClientDisconnect

    def _beat(self) -> bool:
        """Begin to send a heartbeat; return False while the last one is not sent yet."""
        last, piece = self._beating, self._heartbeat.piece
        if last is not None:
            if not last.done():
                return False
            last.result()
        if piece is not None and not self._is_writing:
            self._beating = asyncio.ensure_future(self._send(piece))
        return True


async def deliver(
    items: Items[ItemT],
    encode: Callable[[ItemT], T],
    writer: ClientWriter[T],
    disconnected: Coroutine[Any, Any, None],
    shutdown: asyncio.Future[None],
) -> StreamEnd:
    """Write all items, until they end, the client goes or the server stops; the items are closed then."""
    sending = asyncio.ensure_future(_send_all(items, encode, writer))
    try:
        await until_the_first_ends(sending, writer.keep_alive(), disconnected, shutdown)
    except ClientDisconnect:
        return DISCONNECTED
    finally:
        await items.aclose()
    if sending.done() and not sending.cancelled():
        return sending.result()
    return DISCONNECTED if shutdown.cancelled() else RECONNECT


async def _send_all(items: Items[ItemT], encode: Callable[[ItemT], T], writer: ClientWriter[T]) -> StreamEnd:
    try:
        async for item in items:
            await writer.write(encode(item))
    except PilotageError as error:
        return failed(problem_of(error))
    except StreamInterruptedError:
        return RECONNECT
    except ClientDisconnect:
        raise
    except Exception:  # noqa: BLE001 - the top of a stream: the client gets an end
        _log.exception("a stream broke off")
        return failed(INTERNAL)
    return COMPLETED


async def until_the_first_ends(*works: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Return when one of several works has ended, after all others are cancelled and over; raise what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stopped(tasks)
    for task in ended:
        task.result()


async def stopped(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks and return when all are over.

    A cancellation that arrives meanwhile is raised after that, as the very same error: frameworks recognise their
    cancellations by it, and cancel again and again until they are obeyed.
    """
    for task in tasks:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


@value(slots=False)
class StreamFormat(Generic[T]):
    """Stream format of a protocol.

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
    """Response that sends items until they end, the client goes or the server stops; then the items are closed.

    The limits of streams apply when it begins: a stream too many is answered with a problem instead. A class of our
    own: those of the frameworks cost many times as much per piece, and do not notice readers that have left.
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


class Streams:
    """Streams of some routes, within their limits; all streams of an application are counted together."""

    def __init__(self, app: Application | None, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings
        self._open = OpenStreams.of(app) if app is not None else OpenStreams()

    def refuse(self, principal: Principal | None) -> None:
        """Refuse one more stream where no more may be opened, by `OpenStreams.refuse`."""
        self._open.refuse(principal, self._settings)

    def entered(self, principal: Principal | None) -> AbstractContextManager[asyncio.Future[None]]:
        """Count a stream while the block lasts; the future is done when the stream must end, since the server stops."""
        return self._open.entered(principal, self._settings)

    def writer(self, send: Callable[[T], Awaitable[None]], heartbeat: T) -> ClientWriter[T]:
        """Return a writer to one client."""
        beat = Heartbeat(heartbeat, self._settings.heartbeat_seconds)
        return ClientWriter(send, beat, self._open, self._clock())

    def response(self, items: Items[T], stream_format: StreamFormat[T]) -> StreamingResponse:
        """Return a response that sends items."""
        return StreamingResponse(
            items, stream_format, streams=self._open, settings=self._settings, clock=self._clock()
        )

    def _clock(self) -> IClock:
        return (self._app.get_or_none(IClock) if self._app is not None else None) or SystemClock()
