"""Talking to a running agent: what is sent reaches it, it ends when it is told to, and nobody misses a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    Application,
    IAgentModel,
    MessageDeltaEvent,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent import RunFinishedEvent
from pilotage.errors import CallerError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore
from tests.programs.program_05_talking import main


class Talker(IAgentModel):
    """Says two words, and then thinks for ever."""

    def __init__(self) -> None:
        self.is_thinking = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("nobody asks for the whole reply")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        for word in ("Let ", "me "):
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, word)
        self.is_thinking.set()
        await asyncio.Event().wait()


@Agent(spec=AgentExecutionSpec(accepted_signals=[AgentSignalKind.STEERING_INSTRUCTION]))
class Coder:
    """Write code."""


async def test_the_program_steers_cancels_and_reads_on_where_it_was() -> None:
    store, model = MemoryStore(), Talker()
    app = Application("code").add(Coder, model, *store.ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        run = await runs.start(Coder, "write tests")
        events = run.events()
        async for event in events:
            if isinstance(event, MessageDeltaEvent):
                break
        cursor = events.cursor
        await model.is_thinking.wait()
        await main(runs, run, cursor)
        state = await runs.get(run.id)
        rest = [event async for event in runs.events(run.id, after=cursor)]
        # Sent again, the message has the end of the first one; another message is refused.
        await main(runs, run, cursor)
        with pytest.raises(CallerError, match="takes no signals any more"):
            await runs.signal(run.id, AgentSignalKind.STEERING_INSTRUCTION, {"text": "and the docs"})
    assert state.status is AgentStatus.CANCELLED
    assert state.metadata["cancellation_reason"] == "wrong branch"
    assert "".join(event.delta for event in rest if isinstance(event, MessageDeltaEvent)) == "me "
    last = rest[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.error is not None
    assert last.error["code"] == "cancelled"
