"""A server for stories over HTTP: the newsroom's runs behind routes, two tenants, and lines that can be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from fastapi import FastAPI
from tests.behaviour.newsroom import Newsroom

from pilotage import IAgentModel, Principal
from pilotage.adapters.fastapi import BearerTokens, HttpSettings, agent_routes
from pilotage.runtime import AgentRuns

ADA = {"authorization": "Bearer token-of-ada-0123456789"}
EVE = {"authorization": "Bearer token-of-eve-0123456789"}
PEOPLE = BearerTokens(
    {
        "token-of-ada-0123456789": Principal("ada"),
        "token-of-eve-0123456789": Principal("eve", tenant="elsewhere"),
    }
)


@dataclass(frozen=True)
class Frame:
    """One frame of a stream."""

    id: str | None
    event: str | None
    data: Any
    text: str = field(default="", compare=False)

    @classmethod
    def read(cls, text: str) -> Frame:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        return cls(
            fields.get("id"),
            fields.get("event"),
            json.loads(fields["data"]) if "data" in fields else None,
            text,
        )


class Line:
    """One request over ASGI itself: its frames are read as they come, and the client may go at any moment."""

    def __init__(self, api: FastAPI, path: str, headers: Mapping[str, str] = ADA, query: str = "") -> None:
        self._api, self._cut = api, asyncio.Event()
        self._is_sent = False
        self._said: asyncio.Queue[str | None] = asyncio.Queue()
        self.status = 0
        self.task: asyncio.Task[None] | None = None
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
            "scheme": "http",
        }

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._api(self._scope, self._receive, self._send))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.cut()

    async def cut(self) -> None:
        """The client goes; when this returns, the server has noticed and is done."""
        self._cut.set()
        assert self.task is not None
        await self.task

    async def frames(self) -> AsyncIterator[Frame]:
        """Every frame until the server ends the stream."""
        while (text := await self._said.get()) is not None:
            yield Frame.read(text)

    async def _receive(self) -> dict[str, object]:
        if not self._is_sent:
            self._is_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._cut.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            for text in message.get("body", b"").decode().split("\n\n")[:-1]:
                self._said.put_nowait(text)
            if not message.get("more_body"):
                self._said.put_nowait(None)


@dataclass(frozen=True)
class Served:
    """A server and its first client."""

    api: FastAPI
    client: httpx.AsyncClient
    runs: AgentRuns

    def line(self, run_id: str, *, headers: Mapping[str, str] = ADA, query: str = "") -> Line:
        """A line to the events of a run."""
        return Line(self.api, f"/api/runs/{run_id}/events", headers, query)


@asynccontextmanager
async def served(
    room: Newsroom,
    model: IAgentModel,
    *pods: object,
    settings: HttpSettings | None = None,
    leases: bool = False,
) -> AsyncGenerator[Served, None]:
    """One process of the newsroom that serves; the client is Ada."""
    async with room.process(model, *pods, leases=leases) as runs:
        api = FastAPI()
        routes = agent_routes(runs.services.app, principal=PEOPLE, settings=settings)
        api.include_router(routes, prefix="/api")
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=ADA) as client:
            yield Served(api, client, runs)


def frames_in(text: str) -> list[Frame]:
    """The frames of a whole stream."""
    return [Frame.read(each) for each in text.split("\n\n") if each]


def attributed(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Frames as a client completes them: an event that does not say whose it is is whose the one before it was."""
    last: object = None
    for frame in frames:
        if "kind" not in frame.data:
            yield frame
            continue
        last = frame.data.get("attribution", last)
        yield Frame(frame.id, frame.event, {"metadata": {}, **frame.data, "attribution": last})
