"""AG-UI over HTTP and WebSockets: who is let in, how much, and what they get."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets
from fastapi import APIRouter, FastAPI
from tests.adapters.agui.bank import Bank, Clerk, Frame, Teller, interrupts_of, paying, refusal, texts
from tests.adapters.agui.door import Badges, Doorman, Gate, KeptDoorman
from tests.adapters.agui.samples import said, yes
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import client, endpoints, frames_in, served, teller

from pilotage import Application
from pilotage.adapters.agui import (
    AgUiConfig,
    AgUiEndpointConflictError,
    AgUiLimits,
    add_agui_endpoint,
    add_agui_websocket_endpoint,
    driver_for,
)
from pilotage.adapters.asgi import OpenStreams
from pilotage.agent import AgentStatus
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

HTTP = pytest.mark.parametrize(
    ("path", "media_type"),
    [("/agui", "text/event-stream; charset=utf-8"), ("/agui/stream", "application/x-ndjson")],
    ids=["SSE", "HTTP stream"],
)


@HTTP
async def test_an_input_that_is_posted_is_answered_with_its_stream(path: str, media_type: str) -> None:
    async with (
        Bank().open(ScriptedModel([says("Good day, Ada.")])) as app,
        served(endpoints(teller(app))) as address,
        client(address) as http,
    ):
        answer = await http.post(path, json=said())
    frames = frames_in(answer.text)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert fault_in(frames) is None
    assert texts(frames) == "Good day, Ada."


@HTTP
async def test_a_question_is_asked_and_answered(path: str, media_type: str) -> None:
    bank = Bank()
    async with (
        bank.open(paying()) as app,
        served(endpoints(teller(app))) as address,
        client(address) as http,
    ):
        (interrupt,) = interrupts_of(frames_in((await http.post(path, json=said("Pay Bo"))).text))
        frames = frames_in((await http.post(path, json=yes(interrupt))).text)
    assert (frames[-1]["outcome"]["type"], bank.payments.paid) == ("success", ["5 to Bo"])


async def test_a_socket_takes_further_inputs_one_after_the_other() -> None:
    bank, read = Bank(), list[Frame]()
    async with (
        bank.open(paying()) as app,
        served(endpoints(teller(app))) as address,
        websockets.connect(f"ws://{address}/agui/ws") as socket,
    ):
        await socket.send("no JSON")
        await socket.send(json.dumps(said("Pay Bo")))
        while not read or read[-1]["type"] != "RUN_FINISHED":
            read += frames_in(str(await socket.recv()))
        (interrupt,) = interrupts_of(read)
        await socket.send(json.dumps(yes(interrupt)).encode())
        while read[-1].get("outcome", {}).get("type") != "success":
            message = str(await socket.recv())
            assert message.startswith("id: ")
            read += frames_in(message)
    assert (read[0]["type"], read[0]["code"]) == ("RUN_ERROR", "agui_run_resolution_error")
    assert (texts(read), bank.payments.paid) == ("Done.", ["5 to Bo"])


@HTTP
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no JSON", 422, "agui_run_resolution_error"),
        (b"\xff\xfe", 422, "agui_run_resolution_error"),
        (
            b'{"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": " "}]}',
            422,
            "agui_run_resolution_error",
        ),
        (b'{"threadId": "t", "runId": "a\\u0000b", "messages": []}', 422, "agui_run_resolution_error"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, 422, "agui_run_resolution_error"),
        (b"[" * 4_000, 422, "agui_run_resolution_error"),
        (b" " * 5_001, 413, "body_too_large"),
        (json.dumps(said(state={"a": "x" * 1_001})).encode(), 413, "agui_input_too_large"),
        (
            json.dumps(said(tools=[{"name": f"t{n}", "description": ""} for n in range(3)])).encode(),
            413,
            "agui_input_too_large",
        ),
        (json.dumps(said(tools=[{"name": "t", "description": "", "parameters": 5}])).encode(), 422, None),
        (json.dumps(said(forwardedProps={"lastEventId": "x"})).encode(), 422, None),
        (json.dumps(said(forwardedProps={"lastEventId": 7})).encode(), 422, None),
        (json.dumps(said(forwardedProps={"cancelRun": ["x"]})).encode(), 422, None),
    ],
)
async def test_what_cannot_be_served_is_a_problem_before_a_stream_begins(
    path: str, media_type: str, body: bytes, status: int, code: str | None
) -> None:
    config = AgUiConfig(limits=AgUiLimits(max_body_bytes=5_000, max_given_bytes=1_000, max_tools=2))
    async with (
        Bank().open(ScriptedModel([])) as app,
        served(endpoints(teller(app), config)) as address,
        client(address) as http,
    ):
        answer = await http.post(path, content=body)
        runs = (await app.get(AgentRuns).list()).runs
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert problem["code"] == (code or "agui_run_resolution_error")
    assert runs == ()


@HTTP
async def test_the_resolver_says_who_asks_and_runs_belong_to_them(path: str, media_type: str) -> None:
    bank = Bank()
    async with (
        bank.open(paying()) as app,
        served(endpoints(teller(app), principal=Badges())) as address,
        client(address) as http,
    ):
        refused = await http.post(path, content=b"never read")
        broken = await http.post(path, content=b"never read", headers={"x-badge": "broken"})
        ada, eve = {"x-badge": "ada"}, {"x-badge": "eve"}
        (interrupt,) = interrupts_of(
            frames_in((await http.post(path, json=said("Pay Bo"), headers=ada)).text)
        )
        foreign = refusal(frames_in((await http.post(path, json=yes(interrupt), headers=eve)).text))
        assert bank.payments.paid == []
        await http.post(path, json=yes(interrupt), headers=ada)
        evidence = await app.get(AgentRuns).evidence(interrupt["id"].partition(":")[0])
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert (refused.json()["detail"], broken.status_code) == ("show a badge.", 401)
    assert "hunter2" not in broken.text
    assert foreign["name"] == "run_not_found"
    assert (bank.payments.paid, "ada" in str(evidence)) == (["5 to Bo"], True)


async def test_the_applications_own_resolver_is_asked_where_none_is_given() -> None:
    bank = Bank()
    app = Application("bank").add(Teller, bank.payments, ScriptedModel([]), Badges(), *bank.store.ports)
    async with (
        app.load_plugins(),
        served(endpoints(teller(app))) as address,
        client(address) as http,
    ):
        assert (await http.post("/agui", json=said())).status_code == 401
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(f"ws://{address}/agui/ws")
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["code"] == "not_authenticated"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "evil.example"}, 401),
        ({"host": "evil.example", "origin": "http://evil.example"}, 401),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://app.example"}, 200),
    ],
)
async def test_pages_of_other_origins_and_names_of_others_are_kept_out(
    headers: dict[str, str], status: int
) -> None:
    config = AgUiConfig(allowed_origins=("https://app.example",))
    async with (
        Bank().open(ScriptedModel([says("Hi.")])) as app,
        served(endpoints(teller(app), config)) as address,
        client(address) as http,
    ):
        answer = await http.post("/agui", json=said(), headers=headers)
        try:
            async with websockets.connect(
                f"ws://{address}/agui/ws", additional_headers=_without_host(headers)
            ):
                on_socket = 200
        except websockets.InvalidStatus as refused:
            on_socket = refused.response.status_code
    assert answer.status_code == status
    assert on_socket == status or "host" in headers


def _without_host(headers: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name != "host"}


async def test_without_a_resolver_other_machines_are_not_served() -> None:
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:
        api, sent = endpoints(teller(app)), list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(said()).encode(), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/agui",
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
            "client": ("192.0.2.7", 4711),
        }
        await api(scope, receive, send)
    assert sent[0]["status"] == 401
    assert b"no principal resolver is configured" in sent[1]["body"]


async def test_no_more_streams_are_served_than_allowed_and_those_who_leave_make_room() -> None:
    config = AgUiConfig(limits=AgUiLimits(max_streams=1))
    gate = asyncio.Event()

    async def slow(*_: object) -> Any:
        async def frames() -> Any:
            yield 'data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}\n\n'
            await gate.wait()

        return frames()

    async with served(endpoints(slow, config)) as address, client(address) as http:
        async with http.stream("POST", "/agui", json=said()) as first:
            await anext(first.aiter_lines())
            refused = await http.post("/agui", json=said())
            async with websockets.connect(f"ws://{address}/agui/ws"):
                with pytest.raises(websockets.InvalidStatus):
                    await websockets.connect(f"ws://{address}/agui/ws")
        gate.set()
        again = await http.post("/agui", json=said())
    assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
    assert again.status_code == 200


@HTTP
async def test_when_the_client_goes_a_kept_run_stays(path: str, media_type: str) -> None:
    async with (
        Bank().open(ScriptedModel([says("Good day, Ada.")])) as app,
        served(endpoints(teller(app))) as address,
        client(address) as http,
    ):
        async with http.stream("POST", path, json=said()) as answer:
            await anext(answer.aiter_lines())
        again = await http.post(path, json=said())
        (run,) = (await app.get(AgentRuns).list()).runs
    assert texts(frames_in(again.text)) == "Good day, Ada."
    assert run.status is AgentStatus.COMPLETED


async def test_when_the_client_goes_a_run_that_nobody_keeps_ends() -> None:
    gate = Gate()
    app = Application("bank").add(Doorman, gate, ScriptedModel([calls("hold"), calls("hold")]))
    async with (
        app.load_plugins(include=["agent", "runtime", "agui"]),
        served(endpoints(driver_for(app, Doorman))) as address,
        client(address) as http,
    ):
        async with http.stream("POST", "/agui", json=said()):
            await gate.reached.get()
        assert await gate.left.get() == 1
        async with websockets.connect(f"ws://{address}/agui/ws") as socket:
            await socket.send(json.dumps(said()))
            await gate.reached.get()
        assert await gate.left.get() == 2


def test_two_agents_cannot_have_one_path() -> None:
    app, api = Application("bank").add(Teller, Clerk), FastAPI()
    add_agui_endpoint(api, run_driver_factory=driver_for(app, Teller), config=AgUiConfig())
    with pytest.raises(AgUiEndpointConflictError, match="'/agui' is served already"):
        add_agui_endpoint(api, run_driver_factory=driver_for(app, Clerk), config=AgUiConfig())
    add_agui_websocket_endpoint(api, run_driver_factory=driver_for(app, Clerk), config=AgUiConfig())
    with pytest.raises(AgUiEndpointConflictError, match="'/agui/ws' is served already"):
        add_agui_websocket_endpoint(api, run_driver_factory=driver_for(app, Teller), config=AgUiConfig())


async def test_a_router_takes_the_endpoints_too() -> None:
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:
        router, api = APIRouter(), FastAPI()
        add_agui_endpoint(router, run_driver_factory=teller(app))
        api.include_router(router, prefix="/v1")
        async with served(api) as address, client(address) as http:
            assert texts(frames_in((await http.post("/v1/agui", json=said())).text)) == "Hi."


@HTTP
async def test_streams_end_when_the_server_stops_and_their_runs_go_on(path: str, media_type: str) -> None:
    gate, model = Gate(), ScriptedModel([calls("hold")])
    app = Application("door").add(KeptDoorman, gate, model, *MemoryStore().ports)
    async with (
        app.load_plugins(),
        served(endpoints(driver_for(app, KeptDoorman))) as address,
        client(address) as http,
    ):
        async with http.stream("POST", path, json=said()) as answer:
            await gate.reached.get()
            OpenStreams.of(app).close()
            told = frames_in((await answer.aread()).decode())
        refused = await http.post(path, json=said(runId="client-2"))
        assert gate.left.empty()
    assert told[0]["type"] == "RUN_STARTED"
    assert {"RUN_FINISHED", "RUN_ERROR"}.isdisjoint(frame["type"] for frame in told)
    assert (refused.status_code, refused.json()["code"]) == (503, "server_stopping")


async def test_a_socket_is_told_to_come_back_when_the_server_stops() -> None:
    async with (
        Bank().open(ScriptedModel([says("Hi.")])) as app,
        served(endpoints(teller(app))) as address,
        websockets.connect(f"ws://{address}/agui/ws") as socket,
    ):
        OpenStreams.of(app).close()
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1012
