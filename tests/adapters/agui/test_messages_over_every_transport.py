"""A message that reaches its run as that one ends is answered, over every transport and in every store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from tests.adapters.agui.bank import Frame, Store, texts
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import Given, endpoints, served
from tests.adapters.agui.threads import ADA, HELLO, NEXT, RUN, Deaf, Host, Threads, ended, watched
from tests.adapters.agui.transports import TRANSPORTS, Transport

from pilotage.adapters.agui import driver_for
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

FIRST, SECOND = (json.loads(each.model_dump_json(by_alias=True)) for each in (HELLO, NEXT))
OVER = pytest.mark.parametrize("over", TRANSPORTS, ids=lambda each: each.__name__)


@pytest.fixture(params=["memory", "sqlite"])
def any_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        with SqlAlchemyStore.open(request.getfixturevalue("sqlite_database")) as store:
            yield store


async def read(transport: Transport, given: Given) -> list[Frame]:
    frames = [frame for _, frame in await transport.read(given)]
    assert fault_in(frames) is None
    assert frames[-1]["type"] == "RUN_FINISHED", frames[-1]
    return frames


@OVER
async def test_a_message_whose_run_ends_before_it_is_stored_starts_the_next_one(
    over: type[Transport], any_store: Store
) -> None:
    threads, model = Threads(Host, any_store), ScriptedModel([calls("hold"), says("One."), says("Two.")])
    signals = watched(threads)

    async def end() -> None:
        threads.gate.open.set()
        await ended(threads)

    async with threads.process(model) as app:
        factory = driver_for(app, Host, principal=ADA)
        async with served(endpoints(factory)) as address:
            first = asyncio.ensure_future(read(over(factory, address), FIRST))
            await threads.gate.reached.get()
            signals.moments = [end]
            second = await read(over(factory, address), SECOND)
            assert signals.moments == []
    assert (texts(await first), texts(second)) == ("One.", "Two.")


@OVER
async def test_a_message_that_its_run_ends_without_is_answered_by_the_next_one(
    over: type[Transport], any_store: Store
) -> None:
    threads = Threads(Deaf, any_store)
    signals = watched(threads)
    async with threads.process(ScriptedModel([])) as app:
        factory = driver_for(app, Deaf, principal=ADA)
        async with served(endpoints(factory)) as address:
            first = asyncio.ensure_future(read(over(factory, address), FIRST))
            await threads.gate.reached.get()
            second = asyncio.ensure_future(read(over(factory, address), SECOND))
            await signals.stored.get()
            threads.gate.open.set()
            assert [(await each)[-1]["result"] for each in (first, second)] == ["re: Hello", "re: And then?"]


async def test_a_signal_over_http_to_a_run_that_ends_is_refused_with_the_way_out(any_store: Store) -> None:
    """Who posts a signal names the run, so no other run gets it."""
    threads, model = Threads(Host, any_store), ScriptedModel([calls("hold"), says("One."), says("Two.")])
    signals = watched(threads)

    async def end() -> None:
        threads.gate.open.set()
        await ended(threads)

    async with threads.process(model) as app:
        api = FastAPI()
        api.include_router(agent_routes(app, principal=BearerTokens({"secret-token": ADA})))
        bearer = {"authorization": "Bearer secret-token"}
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://bank", headers=bearer) as http:
            first = asyncio.ensure_future(threads.ask(app, HELLO))
            await threads.gate.reached.get()
            signals.moments = [end]
            sent = {"kind": "user_message", "payload": {"text": "And then?"}}
            during = await http.post(f"/runs/{RUN}/signals", json=sent)
            after = await http.post(f"/runs/{RUN}/signals", json=sent)
            await first
            begun = {"agent": "host", "input": "And then?", "conversation_id": "thread-1"}
            next_run = (await http.post("/runs", json=begun)).json()["id"]
            async with http.stream("GET", f"/runs/{next_run}/events") as events:
                await events.aread()
            assert (await http.get(f"/runs/{next_run}/result")).json()["output"] == "Two."
    assert (during.status_code, during.json()) == (after.status_code, after.json())
    assert during.status_code == 409
    assert "Start another run, in the same conversation" in during.json()["detail"]
