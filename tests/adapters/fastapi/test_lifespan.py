"""An application inside FastAPI: it starts and stops with it, and endpoints get its pods and stream its agents."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Application,
    Final,
    Pod,
    RecoveryStrategy,
    Token,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.fastapi import Inject, pilotage_lifespan
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ApplicationStateError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore


class Counter:
    """Counts calls."""

    def __init__(self) -> None:
        self.calls = 0


@Agent
class Teller:
    """Tells short stories, word by word."""

    def __init__(self) -> None:
        self.is_closed = False

    async def execute(self, about: str) -> AsyncGenerator[AgentYield[str], None]:
        """The story."""
        try:
            for word in ("Once ", "there ", "was ", "a ", f"{about}."):
                yield Token(word)
            yield Final("told")
        finally:
            self.is_closed = True


async def test_the_application_lives_as_long_as_the_server() -> None:
    app = Application("shop").add(Counter())
    api = FastAPI(lifespan=pilotage_lifespan(app))

    @api.get("/count")
    async def count(counter: Annotated[Counter, Inject()]) -> int:
        counter.calls += 1
        return counter.calls

    async with api.router.lifespan_context(api), _client(api) as client:
        assert [(await client.get("/count")).json() for _ in range(2)] == [1, 2]
        assert app.get(Counter).calls == 2


async def test_an_endpoint_of_ones_own_streams_an_agent() -> None:
    app = Application("stories").add(Teller)
    initialize(app)
    api = FastAPI(lifespan=pilotage_lifespan(app))

    @api.get("/story")
    async def story(teller: Annotated[Teller, Inject()]) -> StreamingResponse:
        async def words() -> AsyncIterator[str]:
            async with aclosing(teller.execute("ship")) as items:
                async for item in items:
                    if isinstance(item.payload, Token):
                        yield item.payload.text

        return StreamingResponse(words(), media_type="text/plain")

    async with api.router.lifespan_context(api), _client(api) as client:
        assert (await client.get("/story")).text == "Once there was a ship."
        assert app.get(Teller).is_closed


async def test_an_application_that_somebody_else_started_is_left_to_them() -> None:
    app = Application("shop").add(Counter())
    api = FastAPI(lifespan=pilotage_lifespan(app))
    async with app:
        async with api.router.lifespan_context(api):
            assert app.is_started
        assert app.is_started
    assert not app.is_started


async def test_an_endpoint_without_the_lifespan_says_what_is_missing() -> None:
    api = FastAPI()

    @api.get("/count")
    async def count(counter: Annotated[Counter, Inject()]) -> int:
        return counter.calls

    async with _client(api) as client:
        with pytest.raises(ApplicationStateError, match=r"FastAPI\(lifespan=pilotage_lifespan\(app\)\)"):
            await client.get("/count")


async def test_pods_are_chosen_by_name_and_asked_for_by_their_port() -> None:
    class Greeter(ABC):
        @abstractmethod
        def hello(self) -> str: ...

    @Pod(name="warm")
    class Warm(Greeter):
        def hello(self) -> str:
            return "hello!"

    @Pod(name="cool")
    class Cool(Greeter):
        def hello(self) -> str:
            return "hello."

    app = Application("shop").add(Warm, Cool)
    api = FastAPI(lifespan=pilotage_lifespan(app))

    @api.get("/hello")
    async def hello(greeter: Annotated[Greeter, Inject(name="cool")]) -> str:
        return greeter.hello()

    async with api.router.lifespan_context(api), _client(api) as client:
        assert (await client.get("/hello")).json() == "hello."


async def test_runs_stop_behind_their_current_action_when_the_server_does() -> None:
    begun, may_end, done = asyncio.Event(), asyncio.Event(), list[str]()

    @Pod
    class Desk:
        @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.NOT_REQUIRED)
        async def stamp(self, paper: str) -> str:
            """Stamp a paper."""
            begun.set()
            await may_end.wait()
            done.append(paper)
            return "stamped"

    @Agent(spec=AgentExecutionSpec(name="stamper", recovery=RecoveryStrategy.ACTION_BOUNDARY))
    class Stamper:
        def __init__(self, desk: Desk) -> None:
            self.desk = desk

        async def execute(self) -> str:
            await self.desk.stamp("first")
            return await self.desk.stamp("second")

    store = MemoryStore()
    app = Application("office").add(Desk, Stamper, *store.ports)
    initialize(app)
    api = FastAPI(lifespan=pilotage_lifespan(app))
    async with api.router.lifespan_context(api):
        run = await app.get(AgentRuns).start("stamper", {})
        await begun.wait()
        asyncio.get_running_loop().call_soon(may_end.set)
    assert done == ["first"]
    assert (await store.states.get(run.id)).status is AgentStatus.ACTIVE


def _client(api: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://test")
