"""Answers that last: signs of life, an end, and nothing left when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pilotage.adapters.asgi import Heartbeat, LastingAnswer, OpenStreams, TooManyStreamsError
from pilotage.testing import VirtualClock

BEAT = Heartbeat(b":\n\n", 15)


class Line:
    """The connection of a client, as a server has it."""

    def __init__(self) -> None:
        self.sent = asyncio.Queue[dict[str, Any]]()
        self.gone = asyncio.Event()
        self.is_broken = False

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
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


def answering(told: Told, line: Line, clock: VirtualClock, streams: OpenStreams) -> asyncio.Task[None]:
    answer = LastingAnswer(told.pieces(), "text/event-stream", streams, clock, BEAT)
    return asyncio.create_task(answer({"type": "http"}, line.receive, line.send))


async def test_pieces_are_sent_as_they_come_with_signs_of_life_between_them_and_an_end() -> None:
    told, line, clock, streams = Told(), Line(), VirtualClock(), OpenStreams(1)
    task = answering(told, line, clock, streams)
    assert await line.said() == b"start"
    with pytest.raises(TooManyStreamsError):
        streams.refuse_more()
    told.queue.put_nowait("one")
    assert await line.said() == b"one"
    clock.advance(15)
    assert await line.said() == b":\n\n"
    told.queue.put_nowait(None)
    assert await line.said() == b""
    await task
    streams.refuse_more()
    assert (told.is_closed, line.sent.empty(), clock.sleepers) == (True, True, 0)


@pytest.mark.parametrize("is_noticed_by_sending", [False, True])
async def test_when_the_client_goes_the_pieces_are_closed(is_noticed_by_sending: bool) -> None:
    told, line, streams = Told(), Line(), OpenStreams(1)
    task = answering(told, line, VirtualClock(), streams)
    told.queue.put_nowait("one")
    assert [await line.said(), await line.said()] == [b"start", b"one"]
    if is_noticed_by_sending:
        line.is_broken = True
        told.queue.put_nowait("two")
    else:
        line.gone.set()
    await task
    assert (told.is_closed, streams.count) == (True, 0)
