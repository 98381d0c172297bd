"""The same source of items behind FastAPI and behind AG-UI, and clients that speak ASGI by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from ag_ui.core import RunAgentInput
from fastapi import FastAPI
from starlette.applications import Starlette
from tests.adapters.agui.samples import said

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    Pod,
    Principal,
    RecoveryStrategy,
    Token,
)
from pilotage.adapters.agui import (
    AgentDriver,
    AgUiConfig,
    AgUiLimits,
    add_agui_endpoint,
    add_agui_http_stream_endpoint,
    add_agui_websocket_endpoint,
)
from pilotage.adapters.asgi import HttpSettings, OpenStreams
from pilotage.adapters.fastapi import (
    ApiController,
    agent_routes,
    asgi_application,
    controller_routes,
    post,
    sse,
)
from pilotage.agent import IPrincipalResolver
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.errors import NotAuthenticatedError
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, VirtualClock

ADA, EVE = {"authorization": "Bearer ada"}, {"authorization": "Bearer eve"}
BODY = json.dumps(said()).encode()


class Badges(IPrincipalResolver):
    """Knows people by the name in their token; one name breaks it, and one needs a store that is away."""

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        name = headers.get("authorization", "").removeprefix("Bearer ")
        match name:
            case "":
                raise NotAuthenticatedError("show a badge.")
            case "broken":
                raise ZeroDivisionError("password=hunter2")
            case "away":
                raise OSError("nobody answers at db.internal:5432")
            case _:
                return Principal(name)


@Pod
class Source:
    """Items that come when a test says so; an error among them is raised, None ends them."""

    def __init__(self) -> None:
        self.items = asyncio.Queue[str | Exception | None]()
        self.refusal: Exception | None = None
        self.closed = 0

    async def read(self) -> AsyncGenerator[str, None]:
        try:
            while (item := await self.items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed += 1


@Agent(spec=AgentExecutionSpec(name="talker", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Talker:
    """Says the items of the source; its runs are what WebSockets of FastAPI read."""

    def __init__(self, source: Source) -> None:
        self.source = source

    async def execute(self, about: str) -> AsyncGenerator[AgentYield[str], None]:
        async with aclosing(self.source.read()) as items:
            async for item in items:
                yield Token(item)
        yield Final(about)


@ApiController(prefix="/items")
class Items:
    """The items over FastAPI."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @sse("", method="POST")
    async def stream(self) -> AsyncIterator[str]:
        """All items."""
        async with aclosing(self.source.read()) as items:
            async for item in items:
                yield item

    @post("/refused")
    async def refused(self) -> None:
        """Raise the refusal of the source."""
        if self.source.refusal is not None:
            raise self.source.refusal


class ItemDriver(AgentDriver):
    """The items over AG-UI."""

    def __call__(
        self, run_input: CoreRunInput, ag_ui_input: RunAgentInput, accept: str | None = None
    ) -> AsyncIterable[str]:
        source = self.app.get(Source)
        if source.refusal is not None:
            raise source.refusal
        return _frames(source)


async def _frames(source: Source) -> AsyncGenerator[str, None]:
    async with aclosing(source.read()) as items:
        async for item in items:
            yield f"data: {json.dumps({'type': 'CUSTOM', 'name': 'item', 'value': item})}\n\n"


def _fastapi(app: Application, principal: IPrincipalResolver | None, settings: HttpSettings) -> FastAPI:
    api = FastAPI()
    api.include_router(controller_routes(app, principal=principal, settings=settings))
    if principal is not None:
        api.include_router(agent_routes(app, principal=principal, settings=settings))
    return api


def _server(app: Application, principal: IPrincipalResolver | None, settings: HttpSettings) -> FastAPI:
    return asgi_application(app, principal=principal, settings=settings)


def _agui(app: Application, principal: IPrincipalResolver | None, settings: HttpSettings) -> Starlette:
    limits = AgUiLimits(
        max_body_bytes=settings.max_body_bytes,
        max_streams=settings.max_streams,
        max_streams_per_principal=settings.max_streams_per_principal,
        heartbeat_seconds=settings.heartbeat_seconds,
    )
    config = AgUiConfig(allowed_origins=settings.allowed_origins, limits=limits)
    api, driver = Starlette(), ItemDriver(app, Talker)
    for add in (add_agui_endpoint, add_agui_http_stream_endpoint, add_agui_websocket_endpoint):
        add(api, run_driver_factory=driver, config=config, principal=principal)
    return api


@dataclass(frozen=True)
class Place:
    """Where the items are streamed, and how that protocol writes what every stream may have to say."""

    make: Callable[[Application, IPrincipalResolver | None, HttpSettings], Any]
    path: str
    refused_path: str
    media_type: str
    heartbeat: bytes | None
    reconnect: str
    problem: str


_SSE, _BEAT = "text/event-stream; charset=utf-8", b":\n\n"
_NDJSON, _ERROR = "application/x-ndjson", '"type":"RUN_ERROR"'
PLACES = {
    "FastAPI": Place(_fastapi, "/items", "/items/refused", _SSE, _BEAT, "event: reconnect", "event: problem"),
    "AG-UI": Place(_agui, "/agui", "/agui", _SSE, _BEAT, "", _ERROR),
    "AG-UI lines": Place(_agui, "/agui/stream", "/agui/stream", _NDJSON, None, "", _ERROR),
}
SERVER = replace(PLACES["FastAPI"], make=_server)
"""What `serve` serves: without a resolver it serves this machine only, as AG-UI does."""


@dataclass(frozen=True)
class Shop:
    """An application that is served, and what a test moves in it."""

    api: Any
    app: Application
    source: Source
    clock: VirtualClock

    @property
    def streams(self) -> OpenStreams:
        return OpenStreams.of(self.app)

    async def socket_path(self, place: str) -> str:
        """The path of a WebSocket on which an item of the source is sent."""
        if place == "AG-UI":
            return "/agui/ws"
        run = await self.app.get(AgentRuns).start("talker", "x", principal=Principal("ada"))
        return f"/runs/{run.id}/events"


@asynccontextmanager
async def opened(
    place: str | Place, principal: IPrincipalResolver | None = None, settings: HttpSettings | None = None
) -> AsyncGenerator[Shop, None]:
    """A started application behind one of the places."""
    clock, source = VirtualClock(), Source()
    pods = (Talker, Items, source, clock, *MemoryStore(clock).ports)
    app = Application("shop").add(*pods)
    async with app.load_plugins(include=["agent", "runtime", "agui"]):
        found = place if isinstance(place, Place) else PLACES[place]
        api = found.make(app, principal, settings or HttpSettings())
        yield Shop(api, app, source, clock)


class Connection:
    """One connection over ASGI itself: what the server sends is read when the test wants, and the client may go."""

    def __init__(
        self,
        api: Any,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        kind: str = "http",
        body: bytes | None = BODY,
        client: tuple[str, int] | None = ("127.0.0.1", 1),
        method: str = "POST",
    ) -> None:
        self._api, self.path = api, path
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.received = 0
        self.reads = asyncio.Event()
        self.reads.set()
        self.task: asyncio.Task[None] | None = None
        if kind == "websocket":
            self.inbox.put_nowait({"type": "websocket.connect"})
        elif body is None:
            self.inbox.put_nowait({"type": "http.disconnect"})
        else:
            self.inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
        given = {"host": "localhost", "content-type": "application/json", **(headers or {})}
        self._scope: dict[str, Any] = {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), text.encode()) for name, text in given.items()],
            "client": client,
            "server": ("localhost", 80),
            "scheme": "http" if kind == "http" else "ws",
            "extensions": {"websocket.http.response": {}},
            "subprotocols": [],
        } | ({"method": method} if kind == "http" else {})

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._api(self._scope, self._receive, self._send))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        """The client goes; when this returns, the server is done with it."""
        self.reads.set()
        kind = "http.disconnect" if self._scope["type"] == "http" else "websocket.disconnect"
        self.inbox.put_nowait({"type": kind, "code": 1001})
        await self.over()

    async def over(self) -> None:
        """Return when the server is done."""
        assert self.task is not None
        await self.task

    async def message(self) -> dict[str, Any]:
        """The next message of the server; a server that sends none fails the test instead of blocking it."""
        async with asyncio.timeout(120):
            return await self.sent.get()

    async def start(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the response."""
        message = await self.message()
        assert message["type"].endswith("http.response.start"), message
        return message["status"], {name.decode(): text.decode() for name, text in message["headers"]}

    async def problem(self) -> tuple[int, str, dict[str, str]]:
        """The status, the code and the headers of a response that is a problem."""
        status, headers = await self.start()
        found = json.loads(await self.piece())
        assert headers["content-type"] == "application/problem+json"
        assert (found["status"], found["type"]) == (status, f"urn:pilotage:error:{found['code']}")
        return status, found["code"], headers

    async def piece(self) -> bytes:
        """The next piece of the body, or the next message of a WebSocket."""
        message = await self.message()
        return message["body"] if "body" in message else str(message["text"]).encode()

    async def _receive(self) -> dict[str, Any]:
        self.received += 1
        return await self.inbox.get()

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        self.sent.put_nowait(message)
