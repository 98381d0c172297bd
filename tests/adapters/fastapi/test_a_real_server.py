"""What only shows with a real server: clients that go or do not read, and a server that stops."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, Callable
from typing import Annotated

import pytest
from fastapi import FastAPI, WebSocket
from tests.adapters.fastapi.harbour import Frame, served
from tests.adapters.fastapi.quay import Moored, Wire, messages, moored, read
from tests.behaviour.newsroom import DURABLE, Gate, Newsroom, Slow, parts
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    AgentYieldJsonEncoder,
    Application,
    Final,
    Progress,
)
from pilotage.adapters.fastapi import (
    ApiController,
    HttpSettings,
    Inject,
    controller_routes,
    pilotage_lifespan,
    websocket,
)
from pilotage.adapters.fastapi.server import GracefulServer

PAGES, PAGE = 1_200, "x" * 16_000


@Agent(spec=AgentExecutionSpec(name="flood", recovery=DURABLE))
class Flood:
    """Says more than any buffer takes."""

    async def execute(self, pages: int) -> AsyncGenerator[AgentYield[str], None]:
        """So many pages."""
        for number in range(pages):
            yield Progress(f"{number} {PAGE}")
        yield Final("said")


async def start(here: Moored, agent: str, **given: int) -> str:
    answer = await here.at.client.post("/api/runs", json={"agent": agent, "input": given})
    run_id: str = answer.json()["id"]
    return run_id


async def until(is_true: Callable[[], bool]) -> None:
    """Let the server work until something is true; a server that never gets there fails the test."""
    give_up = time.monotonic() + 240
    while not is_true():
        await asyncio.sleep(0)
        assert time.monotonic() < give_up, "it never came true"


async def test_a_client_that_goes_is_noticed() -> None:
    gate = Gate()
    async with moored(Newsroom(), parts(1), Slow(gate)) as here:
        run_id = await start(here, "reporter", parts=1)
        await gate.reached.wait()
        async with Wire.to(here.port, f"/api/runs/{run_id}/events") as wire, here.socket(run_id) as socket:
            await anext(wire.frames())
            await socket.recv()
            assert here.streams.count == 2
            wire.writer.transport.abort()
            socket.transport.abort()
            await until(lambda: here.streams.count == 0)
        gate.open.set()


async def test_a_reader_that_does_not_read_holds_little_and_nobody_up() -> None:
    async with moored(Newsroom(), parts(1), Flood) as here:
        run_id = await start(here, "flood", pages=PAGES)
        async with (
            Wire.to(here.port, f"/api/runs/{run_id}/events", limit=2**12) as wire,
            here.socket(run_id) as socket,
        ):
            await until(lambda: here.at.runs.launcher.live(run_id) is None)
            assert (await here.at.runs.get(run_id)).status is AgentStatus.COMPLETED
            assert here.streams.count == 2
            held = [each.transport.get_write_buffer_size() for each in here.server.server_state.connections]
            assert sum(held) < PAGES * len(PAGE) / 20
            over_sse = [frame async for frame in wire.frames()]
            over_socket = await messages(socket)
        for frames in (over_sse, over_socket):
            assert [page_of(frame) for frame in frames if frame.event == "step_started"] == list(range(PAGES))
            assert frames[-1].event == "run_finished"


def page_of(frame: Frame) -> int:
    return int(str(frame.data["step_name"]).partition(" ")[0])


async def test_a_client_that_takes_nothing_for_long_is_given_up() -> None:
    room = Newsroom()
    settings = HttpSettings(heartbeat_seconds=5)
    async with moored(room, parts(1), Flood, settings=settings) as here:
        run_id = await start(here, "flood", pages=PAGES)
        async with Wire.to(here.port, f"/api/runs/{run_id}/events", limit=2**12):
            await until(lambda: here.at.runs.launcher.live(run_id) is None)

            def is_given_up() -> bool:
                room.clock.advance(5)
                return here.streams.count == 0

            await until(is_given_up)


async def test_a_server_that_stops_tells_its_streams_to_come_back_and_leaves_its_runs() -> None:
    gate, room = Gate(), Newsroom()
    async with moored(room, parts(2), Slow(gate)) as here:
        run_id = await start(here, "reporter", parts=2)
        await gate.reached.wait()
        async with Wire.to(here.port, f"/api/runs/{run_id}/events") as wire, here.socket(run_id) as socket:
            first, over_socket = await anext(wire.frames()), [read(await socket.recv())]
            stopping = asyncio.create_task(here.stop())
            rest = [frame async for frame in wire.frames()]
            over_socket += await messages(socket)
            await stopping
            assert (socket.close_code, socket.close_reason) == (1012, "come back with the last id")
    assert [(frames[-1].event, frames[-1].id) for frames in (rest, over_socket)] == [("reconnect", None)] * 2
    assert first.event == "run_started"
    last = next(frame.id for frame in reversed(rest) if frame.id is not None)
    async with served(room, parts(2)) as at:
        await at.client.post(f"/api/runs/{run_id}/resume")
        again = await at.client.get(f"/api/runs/{run_id}/events", headers={"last-event-id": str(last)})
        assert "event: run_finished" in again.text


async def test_a_server_that_stops_begins_no_more_streams() -> None:
    async with moored(Newsroom(), parts(1)) as here:
        run_id = await start(here, "reporter", parts=1)
        here.streams.close()
        refused = await here.at.client.get(f"/api/runs/{run_id}/events")
        assert (refused.status_code, refused.json()["code"]) == (503, "server_stopping")
        assert refused.headers["retry-after"] == "1"


async def test_an_endpoint_of_ones_own_streams_an_agent_over_a_socket() -> None:
    async with moored(Newsroom(), parts(1), Flood) as here:
        api = FastAPI(lifespan=pilotage_lifespan(here.at.runs.services.app))
        here.at.api.mount("/own", api)

        @api.websocket("/agents/flood")
        async def flood(socket: WebSocket, agent: Annotated[Flood, Inject()]) -> None:
            await socket.accept()
            async for item in agent.execute((await socket.receive_json())["pages"]):
                await socket.send_json(AgentYieldJsonEncoder.encode(item))

        async with (
            api.router.lifespan_context(api),
            connect(f"ws://127.0.0.1:{here.port}/own/agents/flood") as mine,
        ):
            await mine.send('{"pages": 3}')
            items = [json.loads(await mine.recv()) for _ in range(4)]
        assert [item["kind"] for item in items] == ["progress"] * 3 + ["final"]


@ApiController(prefix="/echo")
class Echo:
    """Says everything again, as long as somebody listens."""

    def __init__(self) -> None:
        self.left = 0

    @websocket("")
    async def echo(self, socket: WebSocket) -> None:
        """A socket that never ends by itself."""
        await socket.accept()
        try:
            while True:
                await socket.send_text(await socket.receive_text())
        finally:
            self.left += 1


async def test_sockets_of_controllers_are_streams_too_and_end_with_the_server() -> None:
    app = Application("echo").add(Echo)
    settings = HttpSettings(max_streams_per_principal=1)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(controller_routes(app, settings=settings))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = GracefulServer.over(app, api, "127.0.0.1", 0, settings)
        serving = asyncio.create_task(server.serve([listening]))
        address = f"ws://127.0.0.1:{listening.getsockname()[1]}/echo"
        async with connect(address) as mine:
            await mine.send("hello")
            assert await mine.recv() == "hello"
            with pytest.raises(InvalidStatus) as refused:
                await connect(address)
            assert refused.value.response.status_code == 429
            server.should_exit = True
            await messages(mine)
            assert (mine.close_code, mine.close_reason) == (1012, "come back with the last id")
        await serving
