"""Probes: the process lives, and can serve; they need no credentials and tell nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.adapters.fastapi.harbour import PEOPLE

from pilotage import Application
from pilotage.adapters.fastapi import ApiController, asgi_application, get
from pilotage.agent.ports.repositories import RunPage
from pilotage.inbound.limits import OpenStreams
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, VirtualClock
from pilotage.testing.memory import MemoryStateRepository


class SulkingStates(MemoryStateRepository):
    """States that count how often they are asked, and may fail."""

    asked = 0
    error: Exception | None = None

    async def list_runs(self, *given: Any, **named: Any) -> RunPage:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return await super().list_runs(*given, **named)


@ApiController(prefix="/healthz", public=True)
class OwnHealth:
    """An application that has its own word."""

    @get("")
    async def health(self) -> str:
        """Fine."""
        return "fine, thank you"


def served(clock: VirtualClock, *pods: object) -> tuple[FastAPI, Application, SulkingStates]:
    store = MemoryStore(clock)
    states = SulkingStates(store)
    ports = [states if isinstance(each, MemoryStateRepository) else each for each in store.ports]
    app = Application("shop").add(clock, *ports, *pods)
    initialize(app)
    return asgi_application(app, principal=PEOPLE), app, states


async def asked(api: FastAPI, path: str) -> tuple[int, Mapping[str, Any]]:
    transport = httpx.ASGITransport(app=api, client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.1") as client:
        answer = await client.get(path)
        return answer.status_code, answer.json()


async def test_a_server_that_works_is_alive_and_ready() -> None:
    api, _, _ = served(VirtualClock())
    async with api.router.lifespan_context(api):
        assert await asked(api, "/healthz") == (200, {"status": "ok"})
        assert await asked(api, "/readyz") == (200, {"status": "ok"})


async def test_before_the_start_it_is_alive_and_not_ready() -> None:
    api, _, _ = served(VirtualClock())
    assert (await asked(api, "/healthz"))[0] == 200
    assert (await asked(api, "/readyz"))[0] == 503


@pytest.mark.parametrize("error", [OSError("db.internal:5432"), ValueError("a password"), TimeoutError()])
async def test_a_store_that_is_away_makes_it_not_ready_until_it_is_back(error: Exception) -> None:
    clock = VirtualClock()
    api, _, states = served(clock)
    async with api.router.lifespan_context(api):
        states.error = error
        status, problem = await asked(api, "/readyz")
        assert (status, problem["code"]) == (503, "store_unreachable")
        assert str(error) == "" or str(error) not in str(problem)
        assert (await asked(api, "/healthz"))[0] == 200
        states.error = None
        clock.advance(1)
        assert (await asked(api, "/readyz"))[0] == 200


async def test_the_store_is_asked_once_a_second_however_many_ask() -> None:
    clock = VirtualClock()
    api, _, states = served(clock)
    async with api.router.lifespan_context(api):
        for _ in range(20):
            await asked(api, "/readyz")
        assert states.asked == 1
        clock.advance(1)
        await asked(api, "/readyz")
    assert states.asked == 2


async def test_a_server_that_stops_takes_no_more() -> None:
    api, app, _ = served(VirtualClock())
    async with api.router.lifespan_context(api):
        OpenStreams.of(app).close()
        status, problem = await asked(api, "/readyz")
    assert (status, problem["code"]) == (503, "server_stopping")


async def test_a_route_of_the_application_itself_comes_first() -> None:
    api, _, _ = served(VirtualClock(), OwnHealth)
    async with api.router.lifespan_context(api):
        assert await asked(api, "/healthz") == (200, "fine, thank you")
        assert (await asked(api, "/readyz"))[0] == 200
