"""Serving: one agent by the routes of runs, by AG-UI and by an endpoint of one's own, behind a real server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from websockets.asyncio.client import connect

from pilotage import Application
from pilotage.adapters.agui_plugin import initialize as initialize_agui
from pilotage.adapters.fastapi import HttpSettings
from pilotage.adapters.fastapi.server import GracefulServer
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, says
from tests.programs.program_08_serving import CodeAssistant, main

ADA = {"authorization": "Bearer secret-token"}


@asynccontextmanager
async def served() -> AsyncGenerator[str, None]:
    """The address of a server over the program; its model has one answer."""
    app = Application("code").add(CodeAssistant, ScriptedModel([says("All is tidy.")]), *MemoryStore().ports)
    initialize(app)
    initialize_agui(app)
    async with app:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = GracefulServer.over(app, main(app), "127.0.0.1", 0, HttpSettings())
            serving = asyncio.create_task(server.serve([listening]))
            try:
                yield f"127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving


async def test_it_is_reached_by_the_routes_of_runs() -> None:
    async with served() as address, httpx.AsyncClient(base_url=f"http://{address}") as client:
        body = {"agent": "code_assistant", "input": {"task": {"goal": "tidy up"}}}
        run = (await client.post("/runs", json=body, headers=ADA)).json()
        assert "event: run_finished" in (await client.get(f"/runs/{run['id']}/events", headers=ADA)).text
        result = (await client.get(f"/runs/{run['id']}/result", headers=ADA)).json()
        assert (result["output"], result["run"]["agent_type"]) == ("All is tidy.", "code_assistant")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer another-token"}])
async def test_who_has_no_token_reaches_no_runs(headers: dict[str, str]) -> None:
    async with served() as address, httpx.AsyncClient(base_url=f"http://{address}") as client:
        assert (await client.get("/runs", headers=headers)).status_code == 401


async def test_it_is_reached_by_ag_ui() -> None:
    given = {
        "threadId": "thread-1",
        "runId": "run-1",
        "messages": [{"id": "message-1", "role": "user", "content": "tidy up"}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
    }
    async with served() as address, httpx.AsyncClient(base_url=f"http://{address}") as client:
        told = (await client.post("/agui", json=given)).text
        frames = [
            json.loads(line.removeprefix("data: ")) for line in told.splitlines() if line.startswith("data: ")
        ]
        said = "".join(each["delta"] for each in frames if each["type"] == "TEXT_MESSAGE_CONTENT")
        assert (said, frames[-1]["type"]) == ("All is tidy.", "RUN_FINISHED")


async def test_it_is_reached_by_an_endpoint_of_ones_own() -> None:
    async with served() as address, connect(f"ws://{address}/agents/code") as mine:
        await mine.send('{"goal": "tidy up"}')
        items = [json.loads(await mine.recv())]
        while items[-1]["kind"] != "final":
            items.append(json.loads(await mine.recv()))
    assert "".join(item["payload"]["text"] for item in items[:-1]) == "All is tidy."
    assert items[-1]["payload"]["output"] == "All is tidy."
