"""A real server on the loopback for tests: uvicorn in the test's own event loop, and clients of all transports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tests.adapters.agui.bank import Frame, Teller

from pilotage import Application
from pilotage.adapters.agui import (
    AgUiConfig,
    RunDriverFactory,
    add_agui_endpoint,
    add_agui_http_stream_endpoint,
    add_agui_websocket_endpoint,
    driver_for,
)
from pilotage.agent import IPrincipalResolver

Given = dict[str, Any]
_TURNS_TO_CLOSE = 100
"""So many turns of the event loop a response that still streams may take to end with its connection."""


def endpoints(
    factory: RunDriverFactory, config: AgUiConfig | None = None, principal: IPrincipalResolver | None = None
) -> Starlette:
    """An application with all three endpoints."""
    api, config = Starlette(), config or AgUiConfig()
    add_agui_endpoint(api, run_driver_factory=factory, config=config, principal=principal)
    add_agui_http_stream_endpoint(api, run_driver_factory=factory, config=config, principal=principal)
    add_agui_websocket_endpoint(api, run_driver_factory=factory, config=config, principal=principal)
    return api


@asynccontextmanager
async def served(api: ASGIApp) -> AsyncGenerator[str, None]:
    """The address of a server that serves an application; nothing of it is left behind."""
    config = uvicorn.Config(
        api, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    # It would take the signals of the test process.
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    loop = asyncio.ensure_future(server.main_loop())
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"127.0.0.1:{port}"
    finally:
        loop.cancel()
        await _closed(server)


async def _closed(server: uvicorn.Server) -> None:
    """Close the server. It waits a fifth of a second to do so itself, and some tests serve a hundred times."""
    state = server.server_state
    for listening in server.servers:
        listening.close()
    for connection in list(state.connections):
        connection.shutdown()
    for _ in range(_TURNS_TO_CLOSE):
        if not (state.connections or state.tasks):
            return
        await asyncio.sleep(0)


@asynccontextmanager
async def client(address: str, **headers: str) -> AsyncGenerator[httpx.AsyncClient, None]:
    """An HTTP client of a server."""
    url = f"http://{address}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=240, verify=False) as http:  # noqa: S501 - no TLS
        yield http


def frames_in(body: str) -> list[Frame]:
    """What server-sent events or lines say."""
    lines = [line.removeprefix("data: ") for line in body.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def teller(app: Application) -> RunDriverFactory:
    """The teller of a bank."""
    return driver_for(app, Teller)
