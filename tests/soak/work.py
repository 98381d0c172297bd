"""The work of one round: every way in which runs begin, stop, go on and end, and in which readers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

from benchmarks.agents import Asking, Declared, Gated, Kept

from pilotage import (
    AgentStatus,
    Application,
    ModelRequest,
    ModelStreamEvent,
    ModelStreamEventKind,
    RunAgentInput,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import ApprovalDecision
from pilotage.runtime import AgentRuns, WorkerSettings
from pilotage.runtime.runner import AgentRunner

TURNS = "3"
STUCK = "-1"
"""The instruction for which the model says one word, and then nothing more."""


class Slow(Asking):
    """Answers at once, except to one instruction; `reached` says how often it was given that one."""

    def __init__(self) -> None:
        self.reached: asyncio.Queue[None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if request.messages[1].text == STUCK:
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="well")
            self.reached.put_nowait(None)
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


class Work:
    """The stories of one application; each leaves nothing behind but what the database has of it."""

    def __init__(self, app: Application, model: Slow) -> None:
        self._runs = app.get(AgentRuns)
        self._ephemeral = AgentRunner.for_agent_instance(app.get(Declared))
        self._model = model
        self._names = map(str, count(1))

    @property
    def stories(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """All of them, in the order of a round."""
        return (
            self.stream_an_ephemeral_run,
            self.leave_an_ephemeral_run,
            self.read_a_durable_run,
            self.leave_a_durable_run,
            self.stop_for_a_person,
            self.cancel_a_waiting_run,
            self.cancel_a_stopped_run,
        )

    async def round(self) -> None:
        """Carry out each story once, two at a time."""
        first, *others = self.stories
        await first()
        for one, other in zip(others[::2], others[1::2], strict=True):
            await asyncio.gather(one(), other())

    async def stream_an_ephemeral_run(self) -> None:
        async for _ in self._ephemeral.run_events(RunAgentInput(next(self._names), TURNS)):
            pass

    async def leave_an_ephemeral_run(self) -> None:
        """Read until the model is stuck, and leave: that cancels the run."""
        stream = self._ephemeral.run_events(RunAgentInput(next(self._names), STUCK))
        await anext(stream)
        await self._model.reached.get()
        await stream.aclose()

    async def read_a_durable_run(self) -> None:
        """Read a run while it is driven, and then again from the database."""
        handle = await self._runs.start(Kept, TURNS)
        read = [event async for event in handle.events()]
        again = [event async for event in self._runs.events(handle.id)]
        assert len(read) == len(again)
        assert (await handle.result()).status is AgentStatus.COMPLETED

    async def leave_a_durable_run(self) -> None:
        """Read one event and leave: the run goes on."""
        handle = await self._runs.start(Kept, TURNS)
        events = handle.events()
        await anext(events)
        await events.aclose()
        assert (await handle.result()).status is AgentStatus.COMPLETED

    async def stop_for_a_person(self) -> None:
        """Stop for a question, and resume after its answer."""
        handle = await self._runs.start(Gated, "1")
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
        (question,) = await self._runs.questions(handle.id)
        await self._runs.answer(handle.id, question.id, ApprovalDecision.APPROVE, resume=False)
        assert (await (await self._runs.resume(handle.id)).result()).status is AgentStatus.COMPLETED

    async def cancel_a_waiting_run(self) -> None:
        """Cancel a run in the middle of a model call."""
        handle = await self._runs.start(Kept, STUCK)
        await self._model.reached.get()
        assert await self._runs.cancel(handle.id)
        assert (await handle.result()).status is AgentStatus.CANCELLED

    async def cancel_a_stopped_run(self) -> None:
        """Cancel a run that waits for a person."""
        handle = await self._runs.start(Gated, "1")
        await handle.result()
        assert await self._runs.cancel(handle.id)
        assert (await self._runs.get(handle.id)).status is AgentStatus.CANCELLED


@asynccontextmanager
async def work_over(settings: DatabaseSettings, kind: type[Work] = Work) -> AsyncIterator[Work]:
    """Start an application over a database, with a worker beside the callers."""
    model = Slow()
    with SqlAlchemyStore.open(settings) as store:
        app = Application("soak").add(Declared, Kept, Gated, model, WorkerSettings(), *store.ports)
        async with app.load_plugins(include=["runtime"]) as started:
            yield kind(started, model)
