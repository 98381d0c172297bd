"""Streaming to one client over HTTP or a WebSocket: heartbeats, slow clients, shutdown, errors; no task is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from starlette.requests import ClientDisconnect

from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.problems import INTERNAL, ProblemView, problem_of
from pilotage.container.application import Application
from pilotage.errors import PilotageError
from pilotage.ids import IClock, SystemClock
from pilotage.values import value

_log = logging.getLogger(__name__)
# A client that takes nothing for so many heartbeats is given up: it holds a stream that others could have.
_MISSED_HEARTBEATS = 4

ItemT = TypeVar("ItemT")
ItemT_co = TypeVar("ItemT_co", covariant=True)
T = TypeVar("T")


class Items(Protocol[ItemT_co]):
    """What is streamed, item by item; an async generator is one."""

    def __aiter__(self) -> AsyncIterator[ItemT_co]: ...

    def aclose(self) -> Awaitable[None]:
        """Free what the items are read from."""
        ...


class StreamInterruptedError(Exception):
    """The items end here although there will be more of them: the client should reconnect."""


@value(slots=False)
class Heartbeat(Generic[T]):
    """What is sent while nothing else is (nothing where it is None), and how often."""

    piece: T | None
    seconds: float


@value
class StreamEnd:
    """Why a stream ended, with the code and the reason that close a WebSocket; `problem` is there after an error."""

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


def clock_of(app: Application | None) -> IClock:
    """Return the clock of an application, else the clock of the system."""
    return (app.get_or_none(IClock) if app is not None else None) or SystemClock()
