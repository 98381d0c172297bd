"""What a run holds in memory while it waits for its model, while somebody reads it, and while it is paused."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Self

from benchmarks.agents import Asking, Blocking, Declared, Gated, Kept, KeptSpeaker
from benchmarks.floor import WORDS
from benchmarks.timing import FULL, Effort

from pilotage import (
    Application,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    RunAgentInput,
)
from pilotage.runtime import AgentRuns
from pilotage.runtime.events.feed import QUEUE_LIMIT
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import MemoryStore


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Kilobytes per run and per reader, and what a paused run leaves."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    runs = effort.side_by_side
    return {
        "an active run, kB": await _per_active(_open_unkept, runs),
        "an active durable run, kB": await _per_active(_start_kept, runs),
        "a subscription that is read, kB": await _per_subscription(runs, 1),
        "a subscription that nobody reads, its queue full, kB": await _per_subscription(1, QUEUE_LIMIT - 8),
        "runtime objects that a paused run leaves": await _left_by_paused(runs),
    }


async def _per_active(begin: Callable[[Application, int], Awaitable[object]], runs: int) -> float:
    """What each of many runs holds that wait in a model call, its first."""
    blocking = Blocking()
    app = Application("benchmark").add(Declared, Kept, blocking, *MemoryStore().ports)
    initialize(app)
    async with app:
        await begin(app, 1)
        await blocking.reached.get()
        with _Traced() as traced:
            held = await begin(app, runs)
            for _ in range(runs):
                await blocking.reached.get()
        if isinstance(held, list):
            await _leave(held)
    return traced.bytes / runs / 1e3


async def _open_unkept(app: Application, runs: int) -> list[AsyncIterator[object]]:
    runner = AgentRunner.for_agent_instance(app.get(Declared))
    streams = [runner.run_events(RunAgentInput(f"{runs}-{number}", "0")) for number in range(runs)]
    for stream in streams:
        await anext(stream)
    return list(streams)


async def _leave(streams: list[AsyncIterator[object]]) -> None:
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]


async def _start_kept(app: Application, runs: int) -> None:
    for _ in range(runs):
        await app.get(AgentRuns).start(Kept, "0")


class _Stepwise(IAgentModel):
    """Says some words when it is told to."""

    def __init__(self) -> None:
        self.wanted: asyncio.Queue[int] = asyncio.Queue()
        self.said: asyncio.Queue[None] = asyncio.Queue()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        while (words := await self.wanted.get()) > 0:
            for number in range(words):
                text = WORDS[number % 8]
                yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=text)
            self.said.put_nowait(None)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("done"))


async def _per_subscription(readers: int, words: int) -> float:
    """What each reader holds of a run that says some words behind its back."""
    model = _Stepwise()
    app = Application("benchmark").add(KeptSpeaker, model, *MemoryStore().ports)
    initialize(app)
    async with app:
        handle = await app.get(AgentRuns).start(KeptSpeaker, "?")
        alone = await _grown_by(model, words)
        held = [handle.events() for _ in range(readers)]
        for each in held:
            await anext(each)
        del held
        gc.collect()
        with _Traced() as traced:
            held = [handle.events() for _ in range(readers)]
            for each in held:
                await anext(each)
            await _say(model, words)
        await _finish(model, handle.result)
    return max(0.0, traced.bytes - alone) / readers / 1e3


async def _grown_by(model: _Stepwise, words: int) -> int:
    """What the run itself keeps of so many words."""
    await _say(model, words)
    with _Traced() as traced:
        await _say(model, words)
    return traced.bytes


async def _say(model: _Stepwise, words: int) -> None:
    model.wanted.put_nowait(words)
    await model.said.get()


async def _finish(model: _Stepwise, result: Callable[[], Awaitable[object]]) -> None:
    model.wanted.put_nowait(0)
    await result()


async def _left_by_paused(runs: int) -> float:
    """The objects of the runtime that are there behind runs that wait for a person, and were not before them."""
    app = Application("benchmark").add(Gated, Asking(), *MemoryStore().ports)
    initialize(app)
    async with app:
        pause = partial(_pause, app.get(AgentRuns))
        await pause(1)
        before = _runtime_objects()
        await pause(runs)
        return (_runtime_objects() - before) / runs


async def _pause(runs: AgentRuns, count: int) -> None:
    for _ in range(count):
        await (await runs.start(Gated, "1")).result()


def _runtime_objects() -> int:
    gc.collect()
    return sum(str(type(each).__module__).startswith("pilotage.runtime") for each in gc.get_objects())


class _Traced:
    """How many bytes more there are at the end of the block."""

    bytes = 0

    def __enter__(self) -> Self:
        gc.collect()
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        gc.collect()
        self.bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
