"""Pages of other origins: every layer honours the allowed ones, answers their preflights, and lets them read responses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from tests.adapters.agui.samples import said
from tests.adapters.http.places import ADA, PLACES, Badges, Connection, opened

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.agui import AGUICompatible, AgUiConfig, add_agui_endpoint, agui_extension, driver_for
from pilotage.adapters.asgi import HttpSettings
from pilotage.adapters.fastapi import ApiController, asgi_application, get
from pilotage.errors import AgentDefinitionError
from pilotage.testing import MemoryStore, ScriptedModel, says

PAGE, OTHER = "https://shop.example", "https://elsewhere.example"
ALLOWED = HttpSettings(allowed_origins=(PAGE,))
ASKED = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,last-event-id",
}
EVERYWHERE = pytest.mark.parametrize("place", PLACES)


@AGUICompatible("/clerk")
@Agent(spec=AgentExecutionSpec(name="clerk", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class OriginClerk:
    """Answer briefly."""


@ApiController(prefix="/hello")
class OriginHello:
    """Says hello."""

    @get("")
    async def hello(self) -> str:
        """Hello."""
        return "hello"


PATHS = [
    ("POST", "/runs"),
    ("GET", "/runs/x/events"),
    ("GET", "/hello"),
    ("POST", "/clerk"),
    ("POST", "/clerk/stream"),
    ("GET", "/openapi.json"),
    ("GET", "/extra"),
]


def _extra(api: FastAPI) -> None:
    api.add_api_route("/extra", lambda: "extra")


def _shop(*pods: object) -> Application:
    app = Application("shop").add(OriginClerk, OriginHello, ScriptedModel([says("Yes.")] * 3))
    return app.add(*MemoryStore().ports, *pods).load_plugins(include=["agent", "runtime", "agui"])


@asynccontextmanager
async def _client(api: FastAPI) -> AsyncGenerator[httpx.AsyncClient, None]:
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 1))
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client,
    ):
        yield client


def _server(settings: HttpSettings, *pods: object) -> FastAPI:
    app = _shop(*pods)
    return asgi_application(app, settings=settings, extensions=[agui_extension(app), _extra])


def _granted(headers: httpx.Headers | dict[str, str]) -> tuple[str | None, str | None]:
    return headers.get("access-control-allow-origin"), headers.get("access-control-allow-credentials")


@EVERYWHERE
@pytest.mark.parametrize("badges", [Badges(), None], ids=["authenticated", "local"])
async def test_a_router_of_its_own_answers_preflights_before_it_asks_who_it_is(
    place: str, badges: Badges | None
) -> None:
    async with opened(place, badges, ALLOWED) as shop:
        async with Connection(
            shop.api, PLACES[place].path, {"origin": PAGE, **ASKED}, method="OPTIONS"
        ) as connection:
            status, headers = await connection.start()
        assert (status, _granted(headers)) == (204, (PAGE, "true"))
        assert headers["access-control-allow-headers"] == ASKED["access-control-request-headers"]
        assert "POST" in headers["access-control-allow-methods"]
        assert connection.received == 0


@EVERYWHERE
async def test_a_refused_preflight_names_the_origin_and_the_option(place: str) -> None:
    async with (
        opened(place, Badges(), ALLOWED) as shop,
        Connection(shop.api, PLACES[place].path, {"origin": OTHER, **ASKED}, method="OPTIONS") as connection,
    ):
        status, headers = await connection.start()
        problem = json.loads(await connection.piece())
    assert (status, problem["code"], _granted(headers)) == (403, "origin_refused", (None, None))
    assert f"'{OTHER}'" in problem["detail"]
    assert f"--allow-origin {OTHER}" in problem["detail"]
    assert "PILOTAGE_HTTP_ALLOWED_ORIGINS" in problem["detail"]


@EVERYWHERE
async def test_a_page_may_read_the_stream_and_the_refusal(place: str) -> None:
    async with opened(place, Badges(), ALLOWED) as shop:
        for known, expected in ((ADA, 200), ({}, 401)):
            async with Connection(shop.api, PLACES[place].path, {**known, "origin": PAGE}) as connection:
                status, headers = await connection.start()
                assert (status, _granted(headers), headers["vary"]) == (expected, (PAGE, "true"), "Origin")


@EVERYWHERE
async def test_a_page_may_read_that_there_are_too_many_streams(place: str) -> None:
    settings = HttpSettings(allowed_origins=(PAGE,), max_streams=1)
    headers = {**ADA, "origin": PAGE}
    async with (
        opened(place, Badges(), settings) as shop,
        Connection(shop.api, PLACES[place].path, headers) as first,
    ):
        assert (await first.start())[0] == 200
        async with Connection(shop.api, PLACES[place].path, headers) as second:
            status, sent = await second.start()
            assert (status, _granted(sent)) == (503, (PAGE, "true"))


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_one_setting_counts_for_everything_that_is_served(method: str, path: str) -> None:
    async with _client(_server(ALLOWED)) as client:
        asked = await client.options(path, headers={"origin": PAGE, "access-control-request-method": method})
        assert (asked.status_code, _granted(asked.headers)) == (204, (PAGE, "true"))
        body = {"json": said()} if "clerk" in path else {"json": {}} if method == "POST" else {}
        answer = await client.request(method, path, headers={"origin": PAGE}, **body)
        assert answer.status_code not in (401, 403, 405)
        assert _granted(answer.headers) == (PAGE, "true")
        assert answer.headers.get_list("vary") == ["Origin"]
        refused = await client.request(method, path, headers={"origin": OTHER}, **body)
        assert (refused.status_code, refused.json()["code"]) == (403, "origin_refused")
        assert _granted(refused.headers) == (None, None)


async def test_the_origins_of_ag_ui_count_for_the_server() -> None:
    config = AgUiConfig(allowed_origins=(PAGE,))
    async with _client(_server(HttpSettings(), config)) as client:
        for method, path in PATHS:
            answer = await client.request(method, path, headers={"origin": PAGE}, json={})
            assert answer.status_code != 403, path


def test_a_socket_of_ag_ui_is_opened_by_pages_that_http_allows() -> None:
    with TestClient(_server(ALLOWED), "http://localhost", client=("127.0.0.1", 1)) as client:
        with client.websocket_connect("ws://localhost/clerk/ws", headers={"origin": PAGE}) as socket:
            socket.send_json(said())
            assert "RUN_STARTED" in socket.receive_text()
        with (
            pytest.raises(WebSocketDenialResponse) as refused,
            client.websocket_connect("ws://localhost/clerk/ws", headers={"origin": OTHER}),
        ):
            raise AssertionError("it must be refused")
    assert refused.value.status_code == 403


async def test_options_without_a_preflight_is_no_way_in() -> None:
    async with _client(_server(ALLOWED)) as client:
        for headers in ({}, {"origin": PAGE}, {"access-control-request-method": "POST"}):
            for path in ("/clerk", "/runs"):
                assert (await client.options(path, headers=headers)).status_code in (400, 405, 422)


async def test_an_endpoint_in_a_router_that_is_included_answers_preflights() -> None:
    app = _shop()
    api, router = FastAPI(), APIRouter()
    driver = driver_for(app, OriginClerk)
    add_agui_endpoint(router, run_driver_factory=driver, config=AgUiConfig(allowed_origins=(PAGE,)))
    api.include_router(router, prefix="/api")
    async with app, _client(api) as client:
        for path in ("/api/agui", "/api/agui/threads/thread-1"):
            answer = await client.options(path, headers={"origin": PAGE, **ASKED})
            assert (answer.status_code, _granted(answer.headers)) == (204, (PAGE, "true"))
        history = await client.get("/api/agui/threads/thread-1", headers={"origin": PAGE})
        assert (history.json()["messages"], _granted(history.headers)) == ([], (PAGE, "true"))


def test_the_environment_of_http_allows_origins_for_ag_ui() -> None:
    environ = {"PILOTAGE_HTTP_ALLOWED_ORIGINS": PAGE, "PILOTAGE_AGUI_ALLOWED_ORIGINS": OTHER}
    assert set(AgUiConfig.from_environment(environ).allowed_origins) == {PAGE, OTHER}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://Shop.example:443/", PAGE),
        ("http://localhost:5173", "http://localhost:5173"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_an_origin_is_compared_as_browsers_send_it(text: str, expected: str) -> None:
    assert HttpSettings(allowed_origins=(text,)).allowed_origins == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        *("*", "https://*", "https://*.shop.example", "https://shop.example/page", "ftp://shop.example"),
        *(
            "localhost:5173",
            "https://ada@shop.example",
            "http://shop.example:99999",
            "null",
            "",
            "http://:80",
        ),
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(AgentDefinitionError, match="no origin"):
        HttpSettings(allowed_origins=(text,))
