"""An application inside FastAPI: it starts and stops with it, and endpoints get its pods and stream its agents."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

import httpx
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from pilotage import Agent, AgentYield, Application, Final, Token
from pilotage.adapters.fastapi import Inject, pilotage_lifespan
from pilotage.runtime.plugin import initialize


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


def _client(api: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://test")
