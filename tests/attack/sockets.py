"""A WebSocket client in the event loop of its application: no server, no thread, every message of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message


class SocketRefusedError(AssertionError):
    """The server did not accept the handshake."""


class Socket:
    """An open connection: `send` texts, read until the server closes."""

    def __init__(self) -> None:
        self._to_server: asyncio.Queue[Message] = asyncio.Queue()
        self._to_client: asyncio.Queue[Message] = asyncio.Queue()
        self.closed: Message | None = None

    async def send(self, text: str) -> None:
        """Send one message."""
        await self._to_server.put({"type": "websocket.receive", "text": text})

    async def texts(self) -> AsyncIterator[str]:
        """Yield what the server sends until it closes, its reason for that last."""
        while self.closed is None:
            message = await self._to_client.get()
            if message["type"] == "websocket.close":
                self.closed = message
                yield f"{message.get('code')} {message.get('reason')}"
            else:
                yield str(message.get("text", message.get("bytes")))

    async def handshake(self) -> None:
        """Ask to connect; raise SocketRefusedError for anything but an acceptance."""
        await self._to_server.put({"type": "websocket.connect"})
        answer = await self._to_client.get()
        if answer["type"] != "websocket.accept":
            raise SocketRefusedError(answer)

    async def serve(self, app: ASGIApp, path: str, headers: Mapping[str, str]) -> None:
        """Let the application serve the connection."""
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        await app(scope, self._to_server.get, self._to_client.put)

    def leave(self) -> None:
        """Disconnect, as a client that has seen enough."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})


@asynccontextmanager
async def connected(app: ASGIApp, path: str, headers: Mapping[str, str]) -> AsyncIterator[Socket]:
    """Connect to a path of an application, and let it end its part before returning."""
    socket = Socket()
    served = asyncio.create_task(socket.serve(app, path, headers))
    try:
        await socket.handshake()
        yield socket
    finally:
        socket.leave()
        await served
