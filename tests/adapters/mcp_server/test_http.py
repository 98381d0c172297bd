"""MCP over HTTP: both eras by the official client against a real server; authentication, origins, limits, shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.adapters.mcp_server.shop import LEGACY, MODERN, Bank, filled, keyed, run_id_of, shop, text_of

from pilotage import AgentRuns, Application, Principal
from pilotage.adapters.asgi import BearerTokens, HttpSettings, OpenStreams, pilotage_lifespan
from pilotage.adapters.fastapi import asgi_application
from pilotage.adapters.fastapi.server import GracefulServer, listening
from pilotage.adapters.mcp_server import mcp_extension, mcp_route

TOKENS = {
    "token-of-ada-0123456789": Principal("ada", "navy"),
    "token-of-bob-0123456789": Principal("bob", "army"),
}
PEOPLE = BearerTokens(TOKENS)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
WAIT = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "Waiter", "arguments": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def served(app: Application, api: FastAPI) -> AsyncGenerator[str]:
    """The origin of a server."""
    listens: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = GracefulServer.over(app, api, "127.0.0.1", 0, HttpSettings(), announce=listens.set_result)
    serving = asyncio.create_task(server.serve(listening("127.0.0.1", 0)))
    try:
        yield await listens
    finally:
        server.should_exit = True
        await serving


def api_of(app: Application, **options: Any) -> FastAPI:
    """A web application of somebody's own with the route."""
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.router.routes.append(mcp_route(app, **options))
    return api


@asynccontextmanager
async def client_at(url: str, mode: str = MODERN, token: str = "", **options: Any) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode, cache=None, **options) as client:
            yield client


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_call_over_http_is_a_run_of_the_principal(mode: str) -> None:
    app = shop()
    async with served(app, api_of(app, principal=PEOPLE)) as url:
        async with client_at(url, mode, "token-of-ada-0123456789") as client:
            first = await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("one"))
            assert text_of(first) == "Hello Ada"
        async with client_at(url, mode, "token-of-bob-0123456789") as client:
            other = await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("one"))
        runs = app.get(AgentRuns)
        (run,) = (await runs.list(principal=Principal("x", "army"))).runs
        assert run.id == run_id_of(other) != run_id_of(first)


async def test_a_question_over_http_is_answered_in_a_second_request() -> None:
    app = shop()

    async def yes(context: object, params: Any) -> Any:
        return filled(decision="approve")

    async with served(app, api_of(app)) as url, client_at(url, elicitation_callback=yes) as client:
        result = await client.call_tool("pay", {"amount": 5})
        assert result.structured_content == {"number": 1, "to": "shop"}
        assert app.get(Bank).paid == [5]


async def test_progress_streams_over_http() -> None:
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    app = shop()
    async with served(app, api_of(app)) as url, client_at(url) as client:
        await client.call_tool("slow", {}, progress_callback=note)
    assert any("slow" in str(each) for each in told)


async def test_a_client_that_leaves_does_not_end_the_run() -> None:
    app = shop()
    async with served(app, api_of(app)) as url:
        bank, streams = app.get(Bank), OpenStreams.of(app)
        bank.gate.clear()
        async with httpx.AsyncClient(base_url=url, headers=ACCEPT) as client:
            posted = asyncio.create_task(client.post("/mcp", json=WAIT, timeout=60))
            await bank.waiting.wait()
            posted.cancel()
            await asyncio.wait([posted])
        bank.gate.set()
        runs = app.get(AgentRuns)
        (run,) = (await runs.list()).runs
        assert [type(each).__name__ async for each in runs.events(run.id)][-1] == "RunFinishedEvent"
        await streams.empty()


async def test_a_server_that_stops_ends_its_calls_and_not_their_runs() -> None:
    app = shop()
    async with (
        app,
        served(app, api_of(app)) as url,
        httpx.AsyncClient(base_url=url, headers=ACCEPT) as client,
    ):
        app.get(Bank).gate.clear()
        posted = asyncio.create_task(client.post("/mcp", json=WAIT, timeout=60))
        await app.get(Bank).waiting.wait()
        OpenStreams.of(app).close()
        assert b"result" not in (await posted).content
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 503
        (run,) = (await app.get(AgentRuns).list()).runs
        assert not run.is_terminal


async def refusals(api: FastAPI, **options: Any) -> httpx.Response:
    """The answer to a request of the handshake."""
    client = options.pop("client", ("127.0.0.1", 5000))
    transport = httpx.ASGITransport(app=api, client=client)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url=options.pop("base_url", "http://127.0.0.1")) as http,
    ):
        return await http.post("/mcp", headers={**ACCEPT, **options.pop("headers", {})}, **options)


async def test_without_a_resolver_only_this_machine_is_served() -> None:
    assert (await refusals(api_of(shop()), json=INITIALIZE)).status_code == 200
    assert (await refusals(api_of(shop()), json=INITIALIZE, client=("192.0.2.7", 1))).status_code == 401
    assert (
        await refusals(api_of(shop()), json=INITIALIZE, base_url="http://evil.example")
    ).status_code == 401


async def test_without_a_token_nothing_is_served() -> None:
    refused = await refusals(api_of(shop(), principal=PEOPLE), json=INITIALIZE)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    wrong = {"authorization": "Bearer token-of-eve-0123456789"}
    assert (
        await refusals(api_of(shop(), principal=PEOPLE), json=INITIALIZE, headers=wrong)
    ).status_code == 401


async def test_pages_of_other_origins_may_not_connect() -> None:
    evil = {"origin": "https://evil.example"}
    assert (await refusals(api_of(shop()), json=INITIALIZE, headers=evil)).status_code == 403
    settings = HttpSettings(allowed_origins=("https://shop.example",))
    page = {"origin": "https://shop.example"}
    assert (
        await refusals(api_of(shop(), settings=settings), json=INITIALIZE, headers=page)
    ).status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"x" * 20_000, 413),
        (b"[" * 300 + b"]" * 300, 422),
        (b'{"id": 1, "id": 2}', 422),
        (b"no json", 400),
        (b"[]", 400),
        (b"", 400),
        (json.dumps({**INITIALIZE, "jsonrpc": "9"}).encode(), 400),
    ],
)
async def test_hostile_bodies_are_refused(content: bytes, status: int) -> None:
    settings = HttpSettings(max_body_bytes=10_000)
    api = api_of(shop(), settings=settings)
    headers = {"content-type": "application/json"}
    assert (await refusals(api, content=content, headers=headers)).status_code == status


async def test_requests_count_as_streams() -> None:
    app = shop()
    api = api_of(app, settings=HttpSettings(max_streams_per_principal=1))
    async with served(app, api) as url, httpx.AsyncClient(base_url=url, headers=ACCEPT) as client:
        app.get(Bank).gate.clear()
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "Waiter", "arguments": {}},
        }
        posted = asyncio.create_task(client.post("/mcp", json=call, timeout=60))
        await app.get(Bank).waiting.wait()
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 429
        app.get(Bank).gate.set()
        assert (await posted).status_code == 200


async def test_it_is_an_extension_of_the_server_with_all_routes() -> None:
    app = shop()
    api = asgi_application(app, extensions=[mcp_extension(app)])
    async with served(app, api) as url, client_at(url) as client:
        assert text_of(await client.call_tool("Greeter", {"name": "Ada"})) == "Hello Ada"
        async with httpx.AsyncClient(base_url=url) as http:
            assert len((await http.get("/runs")).json()["runs"]) == 1
