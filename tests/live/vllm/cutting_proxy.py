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
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            # An event ends with an empty line; the chunk of HTTP around it ends one line later.
            while before not in (event := await upstream.readuntil(b"\n\n\r\n")):
                writer.write(event)
                await writer.drain()
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
