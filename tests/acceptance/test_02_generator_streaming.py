"""Use case 2: `execute()` is a generator, sync or async, and its items reach the caller as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator

from pilotage import Agent, AgentYield, Application, Final, Progress, Token


@Agent
class Async:
    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def execute(self, name: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress("thinking")
        await self.may_go_on.wait()
        yield Token(f"Good day, {name}.")
        yield Final(f"Good day, {name}.")


@Agent
class Sync:
    def execute(self, name: str) -> Generator[AgentYield[str], None, None]:
        yield Progress("thinking")
        yield Final(f"Good day, {name}.")


async def test_an_item_of_an_async_generator_is_there_before_the_next_is_made() -> None:
    async with Application("hotel").add(Async).load_plugins() as app:
        agent = app.get(Async)
        items = agent.execute("Ada")
        assert await anext(items) == Progress("thinking")
        agent.may_go_on.set()
        token, final = [item async for item in items]
        assert token == Token("Good day, Ada.")
        assert isinstance(final, Final)
        assert final.output == "Good day, Ada."


async def test_the_items_of_a_sync_generator_are_the_same_items() -> None:
    async with Application("hotel").add(Sync).load_plugins() as app:
        progress, final = app.get(Sync).execute("Ada")
        assert progress == Progress("thinking")
        assert isinstance(final, Final)
        assert final.output == "Good day, Ada."
