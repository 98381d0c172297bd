"""A store that does not answer: clients are told to come back, whatever they asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketDenialResponse
from tests.adapters.fastapi.harbour import ADA, PEOPLE
from tests.behaviour.newsroom import Reporter, parts
from tests.behaviour.office import Desk, World

from pilotage import Application
from pilotage.adapters.fastapi import agent_routes, pilotage_lifespan
from pilotage.agent import AgentState
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.ports.repositories import RunPage
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore
from pilotage.testing.memory import MemoryStateRepository

READS = ["", "/events", "/result", "/questions", "/evidence", "/verification"]
ACTS: list[tuple[str, dict[str, Any]]] = [
    ("/signals", {"kind": "pause"}),
    ("/answers", {"request_id": "q", "decision": "approve"}),
    ("/decisions", {"request_id": "q", "decision": "approve"}),
    ("/cancel", {}),
    ("/resume", {}),
    ("/fork", {}),
]


class Plug:
    """Somebody may pull it."""

    def __init__(self) -> None:
        self.is_out = False

    def use(self) -> None:
        """Fail as a store does that cannot be reached."""
        if self.is_out:
            raise OSError("nobody answers at db.internal:5432")


class AwayStates(MemoryStateRepository):
    """States behind a plug."""

    def __init__(self, store: MemoryStore, plug: Plug) -> None:
        super().__init__(store)
        self._plug = plug

    async def get_or_none(self, state_id: str) -> AgentState | None:
        self._plug.use()
        return await super().get_or_none(state_id)

    async def list_runs(self, tenant_id: str, **wanted: Any) -> RunPage:
        self._plug.use()
        return await super().list_runs(tenant_id, **wanted)


class AwayJournal(IAgentJournal):
    """A journal behind a plug."""

    def __init__(self, journal: IAgentJournal, plug: Plug) -> None:
        self._journal, self._plug = journal, plug

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self._plug.use()
        return await self._journal.commit(commits)

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        self._plug.use()
        async for row in self._journal.read(run, after):
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        self._plug.use()
        return await self._journal.head(run)


def api_over(plug: Plug, *pods: object) -> FastAPI:
    store = MemoryStore()
    app = Application("away").add(Reporter, Desk, World(), parts(1), *pods)
    app.add(AwayJournal(store.journal, plug), AwayStates(store, plug))
    app.add(store.signals, store.evidence, store.sealer, store.wake_ups)
    initialize(app)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(agent_routes(app, principal=PEOPLE))
    return api


@asynccontextmanager
async def client_of(api: FastAPI) -> AsyncGenerator[httpx.AsyncClient, None]:
    transport = httpx.ASGITransport(app=api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://test", headers=ADA) as client,
    ):
        yield client


def assert_is_away(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unreachable")
    assert answer.headers["retry-after"] == "1"
    assert "db.internal" not in answer.text


async def started(client: httpx.AsyncClient) -> str:
    answer = await client.post("/runs", json={"agent": "reporter", "input": {"parts": 1}})
    run_id: str = answer.json()["id"]
    await client.get(f"/runs/{run_id}/events")
    return run_id


async def test_every_route_says_so_and_when_to_come_back() -> None:
    plug = Plug()
    async with client_of(api_over(plug)) as client:
        run_id = await started(client)
        plug.is_out = True
        assert_is_away(await client.get("/runs"))
        for path in READS:
            assert_is_away(await client.get(f"/runs/{run_id}{path}"))
        for path, body in ACTS:
            assert_is_away(await client.post(f"/runs/{run_id}{path}", json=body))
        plug.is_out = False
        assert (await client.get(f"/runs/{run_id}")).status_code == 200


async def test_a_run_that_cannot_be_written_down_is_not_started() -> None:
    plug = Plug()
    async with client_of(api_over(plug)) as client:
        plug.is_out = True
        assert_is_away(await client.post("/runs", json={"agent": "reporter", "input": {"parts": 1}}))
        plug.is_out = False
        assert (await client.get("/runs")).json()["runs"] == []


def test_a_handshake_says_so_too() -> None:
    plug = Plug()
    with TestClient(api_over(plug), headers=ADA) as client:
        plug.is_out = True
        with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/runs/any/events"):
            pytest.fail("it was let in")
        assert denied.value.status_code == 503
        assert json.loads(denied.value.content)["code"] == "store_unreachable"
        plug.is_out = False
