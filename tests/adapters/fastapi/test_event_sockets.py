"""Events over a WebSocket, with a real server: cut anywhere and continued, refused with a reason, closed with a code."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.adapters.fastapi.harbour import ADA, EVE, Frame, attributed
from tests.adapters.fastapi.quay import Moored, Wire, messages, moored, read
from tests.behaviour.newsroom import Gate, Newsroom, Slow, let_run, parts
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from pilotage.adapters.fastapi import HttpSettings
from pilotage.agent.ports.persistence import RunKey


async def start(here: Moored, count: int = 2) -> str:
    answer = await here.at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": count}})
    run_id: str = answer.json()["id"]
    return run_id


def told(frames: list[Frame]) -> tuple[list[tuple[str | None, str]], dict[str, str]]:
    """What a client has in the end: each event other than pieces of text, with whose it is, and each text."""
    texts: dict[str, str] = {}
    others: list[tuple[str | None, str]] = []
    for frame in attributed(frames):
        if frame.event == "message_delta":
            key = frame.data["message_id"]
            texts[key] = texts.get(key, "") + frame.data["delta"]
        else:
            others.append((frame.event, json.dumps(frame.data, sort_keys=True)))
    return others, texts


async def test_a_socket_tells_what_a_stream_tells() -> None:
    async with moored(Newsroom(), parts(2)) as here:
        run_id = await start(here)
        async with here.socket(run_id) as connection:
            over_socket = await messages(connection)
            assert (connection.close_code, connection.close_reason) == (1000, "this is all")
        async with Wire.to(here.port, f"/api/runs/{run_id}/events") as wire:
            over_sse = [frame async for frame in wire.frames()]
        assert told(over_socket) == told(over_sse)
        assert (over_socket[0].event, over_socket[-1].event) == ("run_started", "run_finished")
        assert len({frame.id for frame in over_socket}) == len(over_socket)


async def test_a_socket_cut_behind_every_event_loses_and_repeats_nothing() -> None:
    gate = Gate()
    async with moored(Newsroom(), parts(4), Slow(gate)) as here:
        run_id = await start(here, 4)
        await gate.reached.wait()
        whole_read = asyncio.create_task(_whole(here, run_id))
        await let_run()
        gate.open.set()
        had: list[Frame] = []
        connections = 0
        while not had or had[-1].event != "run_finished":
            async with here.socket(run_id, had[-1].id if had else None) as connection:
                had.append(read(await connection.recv()))
                connection.transport.abort()
            connections += 1
        assert connections == len(had) > 30
        assert told(had) == told(await whole_read)


async def test_a_stream_cut_behind_every_event_loses_and_repeats_nothing() -> None:
    gate = Gate()
    async with moored(Newsroom(), parts(4), Slow(gate)) as here:
        run_id = await start(here, 4)
        await gate.reached.wait()
        whole_read = asyncio.create_task(_whole(here, run_id))
        await let_run()
        gate.open.set()
        had: list[Frame] = []
        while not had or had[-1].event != "run_finished":
            after = had[-1].id if had else None
            async with Wire.to(here.port, f"/api/runs/{run_id}/events", after=after) as wire:
                had.append(await anext(wire.frames()))
        assert len(had) > 30
        assert told(had) == told(await whole_read)


async def test_after_a_restart_a_socket_goes_on_behind_any_event() -> None:
    room = Newsroom()
    async with moored(room, parts(2)) as here:
        run_id = await start(here)
        async with here.socket(run_id) as connection:
            whole = await messages(connection)
    async with moored(room, parts(2)) as here:
        for cut in range(1, len(whole), 3):
            async with here.socket(run_id, whole[cut - 1].id) as connection:
                assert told(whole[:cut] + await messages(connection)) == told(whole)


async def test_a_run_of_another_tenant_is_not_found_before_the_connection_is_made() -> None:
    async with moored(Newsroom(), parts(1)) as here:
        run_id = await start(here, 1)
        for headers, wanted in ((EVE, run_id), (ADA, "nothing")):
            with pytest.raises(InvalidStatus) as refused:
                async with here.socket(wanted, headers=headers):
                    pytest.fail("it was let in")
            assert refused.value.response.status_code == 404
            assert json.loads(refused.value.response.body)["code"] == "run_not_found"


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {}, 401, "not_authenticated"),
        ("", {**ADA, "origin": "https://elsewhere.example"}, 403, "origin_refused"),
        ("", {**ADA, "origin": "null"}, 403, "origin_refused"),
        ("?after=yesterday", ADA, 422, "request_refused"),
    ],
)
async def test_a_handshake_is_refused_with_a_problem(
    query: str, headers: dict[str, str], status: int, code: str
) -> None:
    async with moored(Newsroom(), parts(1)) as here:
        run_id = await start(here, 1)
        address = f"ws://127.0.0.1:{here.port}/api/runs/{run_id}/events{query}"
        with pytest.raises(InvalidStatus) as refused:
            async with connect(address, additional_headers=headers):
                pytest.fail("it was let in")
        problem = json.loads(refused.value.response.body)
        assert (refused.value.response.status_code, problem["code"]) == (status, code)


async def test_pages_of_this_host_and_of_the_list_may_connect() -> None:
    settings = HttpSettings(allowed_origins=("https://shop.example",))
    async with moored(Newsroom(), parts(1), settings=settings) as here:
        run_id = await start(here, 1)
        for origin in (f"http://127.0.0.1:{here.port}", "https://shop.example"):
            async with here.socket(run_id, headers={**ADA, "origin": origin}) as connection:
                assert (await messages(connection))[-1].event == "run_finished"


async def test_a_browser_says_who_it_is_by_a_protocol_it_offers() -> None:
    async with moored(Newsroom(), parts(1)) as here:
        run_id = await start(here, 1)
        address = f"ws://127.0.0.1:{here.port}/api/runs/{run_id}/events"
        token = ADA["authorization"].removeprefix("Bearer ")
        offered = [Subprotocol("pilotage"), Subprotocol(f"bearer.{token}")]
        async with connect(address, subprotocols=offered) as connection:
            assert connection.subprotocol == "pilotage"
            assert (await messages(connection))[-1].event == "run_finished"


async def test_a_quiet_socket_gives_signs_of_life() -> None:
    gate, room = Gate(), Newsroom()
    settings = HttpSettings(heartbeat_seconds=5)
    async with moored(room, parts(1), Slow(gate), settings=settings) as here:
        run_id = await start(here, 1)
        await gate.reached.wait()
        async with here.socket(run_id) as connection:
            while read(await connection.recv()).event != "step_finished":
                pass
            await let_run()
            for _ in range(2):
                room.clock.advance(5)
                assert json.loads(await connection.recv()) == {"event": "heartbeat"}
        gate.open.set()


async def test_a_failure_is_told_and_is_the_code_of_the_close() -> None:
    room = Newsroom()
    async with moored(room, parts(1)) as here:
        run_id = await start(here, 1)
        async with here.socket(run_id) as connection:
            await messages(connection)
        await room.store.retention.erase(RunKey("default", run_id))
        async with here.socket(run_id) as connection:
            (frame,) = await messages(connection)
            assert (frame.id, frame.event, frame.data["code"]) == (None, "problem", "run_erased")
            assert (connection.close_code, connection.close_reason) == (4410, "run_erased")


async def test_whoever_has_everything_is_told_so_at_once() -> None:
    async with moored(Newsroom(), parts(1)) as here:
        run_id = await start(here, 1)
        async with here.socket(run_id) as connection:
            whole = await messages(connection)
        async with here.socket(run_id, whole[-1].id) as connection:
            assert await messages(connection) == []
            assert connection.close_code == 1000


async def test_one_principal_has_so_many_streams_and_others_have_theirs() -> None:
    gate = Gate()
    settings = HttpSettings(max_streams=3, max_streams_per_principal=1)
    async with moored(Newsroom(), parts(1), Slow(gate), settings=settings) as here:
        run_id = await start(here, 1)
        body = {"agent": "reporter", "input": {"parts": 1}}
        hers = (await here.at.client.post("/api/runs", json=body, headers=EVE)).json()["id"]
        await gate.reached.wait()
        async with here.socket(run_id) as connection:
            await connection.recv()
            with pytest.raises(InvalidStatus) as refused:
                async with here.socket(run_id):
                    pytest.fail("it was let in")
            assert refused.value.response.status_code == 429
            assert refused.value.response.headers["retry-after"] == "1"
            async with here.socket(hers, headers=EVE) as other:
                assert read(await other.recv()).event == "run_started"
        gate.open.set()


async def test_what_a_client_sends_is_not_looked_at() -> None:
    gate = Gate()
    async with moored(Newsroom(), parts(1), Slow(gate)) as here:
        run_id = await start(here, 1)
        await gate.reached.wait()
        async with here.socket(run_id) as connection:
            await connection.send('{"after": "9.9.9"}')
            await connection.send(b"\x00")
            gate.open.set()
            assert (await messages(connection))[-1].event == "run_finished"


async def test_a_message_that_is_too_long_ends_the_connection_and_nothing_else() -> None:
    gate = Gate()
    settings = HttpSettings(max_body_bytes=10_000)
    async with moored(Newsroom(), parts(1), Slow(gate), settings=settings) as here:
        run_id = await start(here, 1)
        await gate.reached.wait()
        async with here.socket(run_id) as connection:
            await connection.send("x" * 20_000)
            await messages(connection)
            assert connection.close_code == 1009
        gate.open.set()
        async with here.socket(run_id) as connection:
            assert (await messages(connection))[-1].event == "run_finished"


async def _whole(here: Moored, run_id: str) -> list[Frame]:
    async with here.socket(run_id) as connection:
        return await messages(connection)
