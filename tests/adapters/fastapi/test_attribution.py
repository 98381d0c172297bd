"""The attribution of an event is sent where it changes: a client that keeps the last one knows it after any reconnect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest
from starlette.testclient import TestClient
from tests.adapters.fastapi.harbour import ADA, PEOPLE, Frame, attributed, frames_in
from tests.adapters.fastapi.quay import Wire, moored
from tests.behaviour.newsroom import Gate, Newsroom, Slow, parts

from pilotage import Agent, AgentRuns, Application, RunContext
from pilotage.adapters.fastapi import asgi_application
from pilotage.adapters.fastapi.frames import EncodedEvents, RunFrames
from pilotage.agent import AgentTeammate, IAgentHooks
from pilotage.agent.model_reply import ModelToolCall
from pilotage.jsonvalue import JsonValue
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

STORY = "Once there was a ship that nobody had ever seen, and it went to sea on a fine day in May."
MOST_BYTES = 150
"""What one streamed token may take, beside itself."""


@Agent(durable=True)
class Teller:
    """Tell a story."""


@Agent(durable=True, teammates=[AgentTeammate("teller", Teller)])
class Host:
    """Let stories be told."""


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A client of a host whose teller has told a story."""
    model = ScriptedModel([calls("ask_teller", task="a story"), says(STORY), says("That was it.")])
    app = Application("stories").add(Teller, Host, model, *MemoryStore().ports)
    app.load_plugins(exclude=["pilotage.adapters.sqlalchemy"])
    with TestClient(asgi_application(app, principal=PEOPLE), headers=ADA) as client:
        yield client


def started(client: TestClient) -> str:
    """The address of a run's events."""
    run = client.post("/runs", json={"agent": "Host", "input": "begin"}).json()
    assert "id" in run, str(run)
    return f"/runs/{run['id']}/events"


def owners(frames: list[Frame]) -> list[tuple[str | None, str]]:
    """Each event with its agent; pieces of one text count as one."""
    found = [(frame.event, frame.data["attribution"]["agent_id"]) for frame in attributed(frames)]
    return [each for each, _ in groupby(found)]


def test_the_attribution_is_sent_where_it_changes(client: TestClient) -> None:
    frames = frames_in(client.get(started(client)).text)
    named = [frame for frame in frames if "attribution" in frame.data]
    agents = [frame.data["attribution"]["agent_id"] for frame in named]
    assert agents == ["Host", "Teller", "Host"]
    assert named[0] is frames[0]
    assert {agent for _, agent in owners(frames)} == {"Host", "Teller"}
    assert all("metadata" not in frame.data or frame.data["metadata"] for frame in frames)


def test_a_client_that_reconnects_anywhere_gets_the_attribution_of_the_next_event(client: TestClient) -> None:
    address = started(client)
    whole = frames_in(client.get(address).text)
    for cut, last in enumerate(whole[:-1], start=1):
        rest = frames_in(client.get(address, headers={"last-event-id": str(last.id)}).text)
        assert "attribution" in rest[0].data
        assert owners(rest) == owners(list(attributed(whole))[cut:]), cut
        with client.websocket_connect(f"{address}?after={last.id}") as socket:
            assert socket.receive_json()["data"]["attribution"] == rest[0].data["attribution"]


class Pondered(IAgentHooks):
    """Lets the host wait at a gate when its teller has ended."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        await self.gate.pass_through()


async def test_the_end_of_a_child_does_not_end_the_stream() -> None:
    pondered = Pondered()
    model = ScriptedModel([calls("ask_teller", task="a story"), says(STORY), says("That was it.")])
    app = Application("stories").add(Teller, Host, model, pondered, *MemoryStore().ports)
    async with app.load_plugins(exclude=["pilotage.adapters.sqlalchemy"]):
        runs = app.get(AgentRuns)
        handle = await runs.start(Host, "begin")
        stream, read = RunFrames(runs, handle.id, None, None, EncodedEvents()), list[str]()
        while not any('"run_finished"' in each for each in read):
            read += [frame.data for frame in await anext(stream)]
        pondered.gate.open.set()
        async for frames in stream:
            read += [frame.data for frame in frames]
    assert sum('"run_finished"' in each for each in read) == 2
    assert "That was it." in read[-1]


async def test_a_token_takes_few_bytes() -> None:
    gate = Gate()
    async with moored(Newsroom(), parts(2), Slow(gate)) as here:
        answer = await here.at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": 2}})
        async with Wire.to(here.port, f"/api/runs/{answer.json()['id']}/events") as wire:
            await gate.reached.wait()
            gate.open.set()
            sizes = [
                len(frame.text) - len(frame.data["delta"])
                async for frame in wire.frames()
                if frame.event == "message_delta" and "attribution" not in frame.data
            ]
    assert sizes
    assert max(sizes) <= MOST_BYTES
