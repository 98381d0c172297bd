"""A whole server over an application: where it may listen, whom it answers, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket
from tests.adapters.fastapi.harbour import ADA, PEOPLE, Frame

from pilotage import Agent, AgentExecutionSpec, Application, Pod, RecoveryStrategy
from pilotage.adapters.asgi.authentication import is_allowed_origin, is_from_this_machine, is_loopback
from pilotage.adapters.fastapi import (
    ApiController,
    BindingRefusedError,
    HttpSettings,
    asgi_application,
    get,
    serve,
    websocket,
)
from pilotage.adapters.fastapi.serving import refuse_open_binding
from pilotage.errors import ApplicationStartError
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, says

SHOP = Path(__file__).with_name("shop_server.py")
HERE = "http://localhost:8000"


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Answer briefly."""


@ApiController(prefix="/hello")
class Hello:
    """Says hello."""

    @get("")
    async def hello(self) -> str:
        """Hello."""
        return "hello"


def shop(*pods: object) -> Application:
    app = Application("shop").add(Clerk, Hello, ScriptedModel([says("Yes.")]), *MemoryStore().ports, *pods)
    initialize(app)
    return app


@asynccontextmanager
async def client_of(
    api: FastAPI, client: str = "127.0.0.1", base_url: str = HERE
) -> AsyncGenerator[httpx.AsyncClient, None]:
    transport = httpx.ASGITransport(app=api, client=(client, 1))
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url=base_url) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - what is not to be taken for loopback
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("shop.example", False),
    ],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    refuse_open_binding(host, has_resolver=True)
    if expected:
        refuse_open_binding(host, has_resolver=False)
    else:
        with pytest.raises(BindingRefusedError, match="no principal resolver is configured") as refused:
            refuse_open_binding(host, has_resolver=False)
        assert refused.value.host == host


@pytest.mark.parametrize(
    ("client", "host", "expected"),
    [
        ("127.0.0.1", "localhost:8000", True),
        ("::1", "[::1]:8000", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "rebound.example", False),
        ("127.0.0.1", None, False),
        ("10.0.0.1", "localhost:8000", False),
        ("testclient", "localhost:8000", False),
        (None, "localhost:8000", False),
    ],
)
def test_which_requests_come_from_this_machine(client: str | None, host: str | None, expected: bool) -> None:
    assert is_from_this_machine(client, host) is expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, True),
        ("https://shop.example", True),
        ("HTTPS://Shop.Example", True),
        ("https://friend.example", True),
        ("https://friend.example.evil", False),
        ("https://shop.example:8443", False),
        ("http://localhost:3000", False),
        ("null", False),
        ("", False),
    ],
)
def test_which_pages_may_open_a_socket(origin: str | None, expected: bool) -> None:
    assert is_allowed_origin(origin, "shop.example", ("https://friend.example",)) is expected


def test_a_server_that_others_reach_needs_to_know_who_asks() -> None:
    with pytest.raises(BindingRefusedError, match=r"host '0\.0\.0\.0' can be reached by others"):
        serve(shop(), host="0.0.0.0")  # noqa: S104 - refused


def test_a_wrong_application_is_refused_before_the_server_starts() -> None:
    @Pod
    class Needy:
        def __init__(self, missing: Path) -> None: ...

    with pytest.raises(ApplicationStartError, match="nothing provides Path"):
        serve(shop(Needy))


async def test_without_a_resolver_programs_on_this_machine_are_the_application_itself() -> None:
    async with client_of(asgi_application(shop())) as client:
        run = (await client.post("/runs", json={"agent": "clerk", "input": "hm?"})).json()
        assert "run_finished" in (await client.get(f"/runs/{run['id']}/events")).text
        assert (await client.get("/hello")).json() == "hello"
        foreign = await client.get("/runs", headers={"origin": "https://elsewhere.example"})
        assert (foreign.status_code, foreign.json()["code"]) == (403, "origin_refused")


@pytest.mark.parametrize(("client", "base"), [("10.0.0.1", HERE), ("127.0.0.1", "http://rebound.example")])
async def test_without_a_resolver_nobody_else_is_answered_wherever_it_listens(client: str, base: str) -> None:
    async with client_of(asgi_application(shop()), client, base) as found:
        for path in ("/runs", "/hello", "/docs", "/openapi.json"):
            assert (await found.get(path)).status_code == 401


def test_without_a_resolver_no_foreign_page_opens_a_socket() -> None:
    api = asgi_application(shop())
    with (
        TestClient(api, base_url=HERE, client=("127.0.0.1", 1)) as client,
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/runs/any/events", headers={"origin": "https://elsewhere.example"}),
    ):
        pytest.fail("it was let in")
    assert (refused.value.status_code, refused.value.json()["code"]) == (403, "origin_refused")


async def test_with_a_resolver_everybody_whom_it_knows_is_answered() -> None:
    api = asgi_application(shop(), principal=PEOPLE)
    async with client_of(api, "10.0.0.1", "http://shop.example") as client:
        assert (await client.get("/runs")).status_code == 401
        assert (await client.get("/hello")).status_code == 401
        assert (await client.get("/runs", headers=ADA)).status_code == 200
        assert (await client.get("/hello", headers=ADA)).json() == "hello"


async def test_a_server_is_extended_with_what_others_bring() -> None:
    def more(api: FastAPI) -> None:
        api.add_api_route("/more", lambda: "more")

    async with client_of(asgi_application(shop(), extensions=[more])) as client:
        assert (await client.get("/more")).json() == "more"


def test_a_controller_may_not_stand_where_the_routes_of_runs_are() -> None:
    @ApiController(prefix="/runs")
    class Shadowed:
        @get("/{number}")
        async def one(self, number: str) -> str:
            return number

        @websocket("/{number}/events")
        async def events(self, socket: WebSocket, number: str) -> None:
            await socket.close()

        @get("/{number}/photo")
        async def photo(self, number: str) -> str:
            return number

    with pytest.raises(ApplicationStartError, match="2 problems") as refused:
        asgi_application(shop(Shadowed))
    assert "Shadowed.one: GET /runs/{number} is answered by the routes of runs already." in str(refused.value)
    assert "Shadowed.events: WebSocket /runs/{number}/events is answered" in str(refused.value)


async def test_settings_bound_the_whole_server() -> None:
    api = asgi_application(shop(), principal=PEOPLE, settings=HttpSettings(max_body_bytes=10))
    async with client_of(api) as client:
        answer = await client.post("/runs", json={"agent": "clerk", "input": "hm?"}, headers=ADA)
        assert answer.status_code == 413


@pytest.mark.slow
def test_a_process_that_is_told_to_stop_ends_streams_and_actions_and_another_one_goes_on(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as (client, process):
        run_id = client.post("/runs", json={"agent": "payer", "input": {"amount": 7}}).json()["id"]
        with client.stream("GET", f"/runs/{run_id}/events") as stream:
            frames = frames_of(stream)
            while next(frames).data.get("step_name") != "paying":
                pass
            until_written(tmp_path / "ledger")
            process.send_signal(signal.SIGTERM)
            *_, last = frames
            until_said(process, b"Waiting for application shutdown")
            (tmp_path / "may-end").touch()
        assert process.wait(240) == -signal.SIGTERM
    assert last.event == "reconnect"
    # The payment was under way: it came to its end before the process did, and nobody asks what became of it.
    assert (tmp_path / "ledger").read_text() == "begun paid 7 "
    with serving(tmp_path) as (client, process):
        assert client.get(f"/runs/{run_id}").json()["status"] == "active"
        client.post(f"/runs/{run_id}/resume")
        with client.stream("GET", f"/runs/{run_id}/events") as stream:
            assert [frame.event for frame in frames_of(stream)][-1] == "run_finished"
        assert client.get(f"/runs/{run_id}/result").json()["output"] == "paid"
    assert (tmp_path / "ledger").read_text() == "begun paid 7 begun paid 8 "


@contextmanager
def serving(folder: Path) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """The shop in a process of its own, and a client that waits until it answers."""
    environ = {**os.environ, "PILOTAGE_DATABASE_URL": f"sqlite:///{folder / 'runs.db'}"}
    command = [sys.executable, str(SHOP)]
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE) as process:  # noqa: S603
        try:
            found = re.search(rb"http://\S+", until_said(process, b"Uvicorn running"))
            assert found is not None
            with httpx.Client(base_url=found[0].decode(), timeout=240) as client:
                yield client, process
        finally:
            process.terminate()
            process.wait(240)


def frames_of(stream: httpx.Response) -> Iterator[Frame]:
    """The frames of a stream as they come."""
    held: list[str] = []
    for line in stream.iter_lines():
        if line:
            held.append(line)
        elif held:
            yield Frame.read("\n".join(held))
            held.clear()


def until_said(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    """Wait for a line of a server's log."""
    assert process.stderr is not None
    while words not in (line := process.stderr.readline()):
        assert line, f"the server ended without {words!r}"
    return line


def until_written(path: Path) -> None:
    """Wait for a sign of another process."""
    while not path.exists():
        os.sched_yield()
