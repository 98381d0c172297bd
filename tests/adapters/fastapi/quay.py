"""A real server on loopback, and clients with real connections: what only shows over a network."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.adapters.fastapi.harbour import ADA, Frame, Served, served
from tests.behaviour.newsroom import Newsroom
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from pilotage import IAgentModel
from pilotage.adapters.fastapi import HttpSettings
from pilotage.adapters.fastapi.server import GracefulServer
from pilotage.inbound.limits import OpenStreams


@dataclass(frozen=True)
class Moored:
    """A server that listens."""

    at: Served
    port: int
    server: GracefulServer
    serving: asyncio.Task[None]

    @property
    def streams(self) -> OpenStreams:
        """The open streams of the server's application."""
        return OpenStreams.of(self.at.runs.services.app)

    def socket(self, run_id: str, after: str | None = None, headers: Mapping[str, str] = ADA) -> connect:
        """A WebSocket to the events of a run."""
        query = f"?after={after}" if after else ""
        address = f"ws://127.0.0.1:{self.port}/api/runs/{run_id}/events{query}"
        return connect(address, additional_headers=headers)

    async def stop(self) -> None:
        """Tell the server to stop, as a signal would, and wait until it has."""
        self.server.should_exit = True
        await self.serving


@asynccontextmanager
async def moored(
    room: Newsroom, model: IAgentModel, *pods: object, settings: HttpSettings | None = None
) -> AsyncGenerator[Moored, None]:
    """One process of the newsroom behind a real server."""
    settings = settings or HttpSettings()
    async with served(room, model, *pods, settings=settings) as at:
        with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
            server = GracefulServer.over(at.runs.services.app, at.api, "127.0.0.1", 0, settings)
            server.config.log_config = None
            serving = asyncio.create_task(server.serve([listening]))
            here = Moored(at, listening.getsockname()[1], server, serving)
            try:
                yield here
            finally:
                await here.stop()


class Wire:
    """A plain connection that asks for a server-sent stream and reads as much of it as somebody wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._held, self._read = b"", deque[Frame]()

    @classmethod
    @asynccontextmanager
    async def to(
        cls, port: int, path: str, *, after: str | None = None, limit: int = 2**16
    ) -> AsyncGenerator[Wire, None]:
        """A connection; leaving the block closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
        wire = cls(reader, writer)
        try:
            last = f"last-event-id: {after}\r\n" if after else ""
            who = f"authorization: {ADA['authorization']}\r\n"
            writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{who}{last}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            yield wire
        finally:
            writer.close()

    async def frames(self) -> AsyncIterator[Frame]:
        """The frames, until the stream or the connection ends."""
        while True:
            while self._read:
                yield self._read.popleft()
            piece = await self._piece()
            if not piece:
                return
            *whole, self._held = (self._held + piece).split(b"\n\n")
            self._read.extend(Frame.read(text.decode()) for text in whole)

    async def _piece(self) -> bytes:
        line = await self.reader.readline()
        size = int(line or b"0", 16)
        return (await self.reader.readexactly(size + 2))[:-2] if size else b""


async def messages(connection: ClientConnection) -> list[Frame]:
    """Everything that comes over a WebSocket, until it is closed, however."""
    found: list[Frame] = []
    with suppress(ConnectionClosed):
        while True:
            found.append(read(await connection.recv()))
    return found


def read(text: str | bytes) -> Frame:
    """A message of a WebSocket."""
    told = json.loads(text)
    return Frame(told.get("id"), told.get("event"), told.get("data"))
