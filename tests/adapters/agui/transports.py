"""The four transports as a client uses them: send an input, read so many frames, come back behind the last."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from typing import Any

import httpx
import websockets
from tests.adapters.agui.bank import Frame
from tests.adapters.agui.server import Given

from pilotage.adapters.agui import AgUiStdioCommand, RunDriverFactory

Read = tuple[str | None, Frame]
"""A frame with its id."""
_ENDS = ("RUN_FINISHED", "RUN_ERROR")


class Transport(ABC):
    """One way to an agent; `address` is a server that has all of the others' endpoints."""

    def __init__(self, factory: RunDriverFactory, address: str) -> None:
        self.factory = factory
        self.address = address

    async def read(self, given: Given, last: str | None = None, most: int | None = None) -> list[Read]:
        """What comes for an input: at most so many frames, then the line is cut."""
        read: list[Read] = []
        try:
            await self._read(given, last, read, most)
        except (OSError, httpx.TransportError, websockets.ConnectionClosed):
            """The line broke, here or there: what was read was read."""
        return read

    @abstractmethod
    async def _read(self, given: Given, last: str | None, read: list[Read], most: int | None) -> None:
        """Read into a list."""


class _Http(Transport):
    path: str

    async def _read(self, given: Given, last: str | None, read: list[Read], most: int | None) -> None:
        headers = {"last-event-id": last} if last else {}
        url = f"http://{self.address}{self.path}"
        async with (
            httpx.AsyncClient(timeout=240, verify=False) as http,  # noqa: S501 - no TLS here
            http.stream("POST", url, json=given, headers=headers) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            frame_id: str | None = None
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    frame_id = line.removeprefix("id: ")
                elif line.removeprefix("data: ").startswith("{"):
                    read.append(_unmarked(frame_id, json.loads(line.removeprefix("data: "))))
                if len(read) == most:
                    return


class Sse(_Http):
    """Server-sent events."""

    path = "/agui"


class HttpStream(_Http):
    """Lines of JSON."""

    path = "/agui/stream"


class Socket(Transport):
    """WebSocket."""

    async def _read(self, given: Given, last: str | None, read: list[Read], most: int | None) -> None:
        # Without a bound on what is not read yet: the client would not see the end of a line that it cuts.
        async with websockets.connect(f"ws://{self.address}/agui/ws", max_queue=None) as socket:
            await socket.send(json.dumps(_come_back(given, last)))
            while len(read) != most and (not read or read[-1][1]["type"] not in _ENDS):
                head, _, data = str(await socket.recv()).strip().partition("data: ")
                read.append((head.removeprefix("id: ").strip() or None, json.loads(data)))


class Stdio(Transport):
    """A pair of text streams."""

    async def _read(self, given: Given, last: str | None, read: list[Read], most: int | None) -> None:
        out = _Out(read, most)
        await AgUiStdioCommand(self.factory, io.StringIO(), out)(json.dumps(_come_back(given, last)))


class _Out(io.StringIO):
    """A stream that breaks after so many lines."""

    def __init__(self, read: list[Read], most: int | None) -> None:
        super().__init__()
        self._read, self._most = read, most

    def write(self, text: str) -> int:
        self._read.append(_unmarked(None, json.loads(text)))
        if len(self._read) == self._most:
            raise BrokenPipeError
        return len(text)


TRANSPORTS = [Sse, HttpStream, Socket, Stdio]


def _come_back(given: Given, last: str | None) -> Given:
    return (
        {**given, "forwardedProps": {**(given.get("forwardedProps") or {}), "lastEventId": last}}
        if last
        else given
    )


def _unmarked(frame_id: str | None, frame: Frame) -> Read:
    """The frame without the id that its metadata may carry."""
    metadata: dict[str, Any] = frame.get("metadata") or {}
    if "cursor" not in metadata:
        return frame_id, frame
    return metadata["cursor"], {name: value for name, value in frame.items() if name != "metadata"}
