"""Stands between a client and a server, and cuts the line before a reply ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def cutting(port: int, before: bytes) -> AsyncIterator[str]:
    """The address of a proxy to a port; it is gone as soon as the server says certain words."""

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, asking = await asyncio.open_connection("127.0.0.1", port)
        asking_on = asyncio.ensure_future(_copied(reader, asking))
        with suppress(ConnectionError):
            while (piece := await upstream.read(65_536)) and before not in piece:
                writer.write(piece)
                await writer.drain()
            # Whatever came in the same piece is passed on, up to the end of the event in front.
            events, _, _ = piece.partition(before)
            writer.write(events[: events.rfind(b"\n\n") + 2] if b"\n\n" in events else b"")
        asking_on.cancel()
        for each in (writer, asking):
            each.close()

    listening = await asyncio.start_server(passed_on, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
