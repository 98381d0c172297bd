"""Streaming responses: heartbeats, an end, slow clients, and no task left when the client goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.behaviour.newsroom import let_run

from pilotage.adapters.asgi import HttpSettings, OpenStreams, StreamFormat, StreamingResponse
from pilotage.testing import VirtualClock

TEXT: StreamFormat[str] = StreamFormat(
    "text/event-stream", str.encode, problem=lambda problem: problem.code.encode(), reconnect=b"reconnect"
)
SETTINGS = HttpSettings(max_streams=1, heartbeat_seconds=15)


class Line:
    """The connection of a client, as a server has it."""

    def __init__(self) -> None:
        self.sent = asyncio.Queue[dict[str, Any]]()
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.is_broken = False

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        if self.is_broken:
            raise OSError("broken pipe")
        self.sent.put_nowait(message)

    async def said(self) -> bytes:
        message = await self.sent.get()
        return message.get("body", b"start")


class Told:
    """Pieces that come when a test says so."""

    def __init__(self) -> None:
        self.queue = asyncio.Queue[str | None]()
        self.is_closed = False

    async def pieces(self) -> AsyncGenerator[str, None]:
        try:
            while (piece := await self.queue.get()) is not None:
                yield piece
        finally:
            self.is_closed = True


def responding(told: Told, line: Line, clock: VirtualClock, streams: OpenStreams) -> asyncio.Task[None]:
    response = StreamingResponse(told.pieces(), TEXT, streams=streams, settings=SETTINGS, clock=clock)
    return asyncio.create_task(response({"type": "http"}, line.receive, line.send))


async def test_pieces_are_sent_as_they_come_with_heartbeats_between_them_and_an_end() -> None:
    told, line, clock, streams = Told(), Line(), VirtualClock(), OpenStreams()
    task = responding(told, line, clock, streams)
    assert await line.said() == b"start"
    told.queue.put_nowait("one")
    assert await line.said() == b"one"
    clock.advance(15)
    assert await line.said() == b":\n\n"
    told.queue.put_nowait(None)
    assert await line.said() == b""
    await task
    assert (told.is_closed, line.sent.empty(), clock.sleepers, streams.count) == (True, True, 0, 0)


async def test_a_stream_too_many_is_a_problem_and_its_items_are_closed() -> None:
    first, second, line, refused, streams = Told(), Told(), Line(), Line(), OpenStreams()
    task = responding(first, line, VirtualClock(), streams)
    assert await line.said() == b"start"
    await responding(second, refused, VirtualClock(), streams)
    start, body = refused.sent.get_nowait(), refused.sent.get_nowait()
    assert (start["status"], json.loads(body["body"])["code"]) == (503, "too_many_streams")
    line.gone.set()
    await task


@pytest.mark.parametrize("is_noticed_by_sending", [False, True])
async def test_when_the_client_goes_the_pieces_are_closed(is_noticed_by_sending: bool) -> None:
    told, line, streams = Told(), Line(), OpenStreams()
    task = responding(told, line, VirtualClock(), streams)
    told.queue.put_nowait("one")
    assert [await line.said(), await line.said()] == [b"start", b"one"]
    if is_noticed_by_sending:
        line.is_broken = True
        told.queue.put_nowait("two")
    else:
        line.gone.set()
    await task
    assert (told.is_closed, streams.count) == (True, 0)


@pytest.mark.parametrize("is_quiet", [False, True], ids=["while pieces come", "while only heartbeats come"])
async def test_a_client_that_does_not_read_is_given_up(is_quiet: bool) -> None:
    told, line, clock, streams = Told(), Line(), VirtualClock(), OpenStreams()
    task = responding(told, line, clock, streams)
    assert await line.said() == b"start"
    line.reads.clear()
    if not is_quiet:
        told.queue.put_nowait("one")
    await let_run()
    for _ in range(3):
        clock.advance(15)
        await let_run()
    assert streams.count == 1
    for _ in range(2):
        clock.advance(15)
        await let_run()
    await task
    assert (told.is_closed, streams.count, line.sent.empty()) == (True, 0, True)


async def test_a_client_that_reads_slowly_is_kept() -> None:
    told, line, clock, streams = Told(), Line(), VirtualClock(), OpenStreams()
    task = responding(told, line, clock, streams)
    assert await line.said() == b"start"
    for _ in range(6):
        line.reads.clear()
        told.queue.put_nowait("piece")
        await let_run()
        for _ in range(3):
            clock.advance(15)
            await let_run()
        line.reads.set()
        assert await line.said() == b"piece"
        await let_run()
    assert streams.count == 1
    line.gone.set()
    await task
