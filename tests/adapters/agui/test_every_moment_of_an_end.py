"""A message of a second tab is answered, in whatever moment of its way to the store the run under way stops."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agui.bank import Frame, Store, interrupts_of, texts
from tests.adapters.agui.door import Gate, KeptDoorman
from tests.adapters.agui.samples import resume, types
from tests.adapters.agui.threads import ADA, HELLO, NEXT, RUN, Host, Threads
from tests.behaviour.newsroom import let_run

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    Application,
    RecoveryStrategy,
)
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentStatus
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

PORTS = ("states", "signals", "journal", "leases", "conversations")
Moment = Callable[[], Awaitable[None]]


class Moments:
    """The calls of the store that one task makes: before or after one of them something happens."""

    def __init__(self, store: Store, at: int, happens: Moment) -> None:
        self.count, self._at, self._happens = 0, at, happens
        self.task: asyncio.Task[list[Frame]] | None = None
        for name in PORTS:
            setattr(store, name, self._watched(getattr(store, name)))

    def _watched(self, port: Any) -> Any:
        """The same port, whose calls are moments."""
        calls_of_port = {
            name: self._call(each) if inspect.iscoroutinefunction(each) else self._reading(each)
            for name, each in inspect.getmembers(type(port), inspect.isfunction)
            if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        }
        watched = object.__new__(type(f"Watched{type(port).__name__}", (type(port),), calls_of_port))
        vars(watched).update(vars(port))
        return watched

    async def _passes(self) -> None:
        if asyncio.current_task() is self.task:
            self.count += 1
            if self.count == self._at:
                await self._happens()

    def _call(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(method)
        async def call(*given: Any, **named: Any) -> Any:
            await self._passes()
            result = await method(*given, **named)
            await self._passes()
            return result

        return call

    def _reading(self, method: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
        @wraps(method)
        async def read(*given: Any, **named: Any) -> AsyncGenerator[Any, None]:
            await self._passes()
            async for each in method(*given, **named):
                yield each
            await self._passes()

        return read


@Agent(
    spec=AgentExecutionSpec(
        name="clumsy",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
    )
)
class Clumsy:
    """Answers, or drops what it was asked to hold; takes no messages in."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def execute(self, words: str) -> str:
        await self.gate.hold()
        if words == "Hello":
            raise ZeroDivisionError(words)
        return f"re: {words}"


@Agent(
    spec=AgentExecutionSpec(
        name="hurried",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
        limits=AgentExecutionLimits(max_steps=1),
    )
)
class Hurried:
    """Holds the door, and has one step."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate


class Story:
    """A run under way, the message of a second tab, and an end of the run in one moment of that message."""

    def __init__(self, agent: type[object], model: ScriptedModel, store: Store, at: int) -> None:
        self.threads, self.model = Threads(agent, store), model
        self.moments = Moments(store, at, self.stops)
        self.app: Application | None = None

    async def stops(self) -> None:
        """The run under way ends, or waits for a person."""
        self.threads.gate.open.set()
        await self._until_it_rests()

    async def _until_it_rests(self) -> None:
        states = self.threads.bank.store.states
        while (await states.get(RUN)).status in UNDER_WAY:
            await let_run(1)

    async def read(self, app: Application) -> list[Frame]:
        """What the second tab reads for its message."""
        self.app = app
        first = asyncio.ensure_future(self.threads.ask(app, HELLO))
        await self.threads.gate.reached.get()
        self.moments.task = asyncio.ensure_future(self.threads.ask(app, NEXT))
        opened = asyncio.ensure_future(self._opens())
        second = await self.moments.task
        await asyncio.gather(opened, first)
        return second

    async def _opens(self) -> None:
        """Let the run go on where it has stopped in no moment of the message."""
        await let_run(2_000)
        self.threads.gate.open.set()

    def read_last(self) -> list[str]:
        """What the model was asked last."""
        return [each.text for each in self.model.requests[-1].messages]

    def answers(self, frames: list[Frame], calls_before: int = 1) -> bool:
        """Whether a stream ends with the last reply of the model, which has read the message once."""
        said = SAID[len(self.model.requests) - calls_before - 1]
        is_read_once = self.read_last().count("And then?") == 1
        return types(frames)[-1] == "RUN_FINISHED" and is_read_once and texts(frames).endswith(said)


class Cancelled(Story):
    """Another tab cancels the run."""

    async def stops(self) -> None:
        assert self.app is not None
        await self.app.get(AgentRuns).cancel(RUN, principal=ADA)
        await super().stops()


UNDER_WAY = (AgentStatus.CREATED, AgentStatus.ACTIVE, AgentStatus.CANCELLING)
SAID = ("One.", "Two.")
KINDS = {"it is completed": Story, "it is cancelled": Cancelled}


async def every_moment(story: Callable[[int], Story]) -> AsyncGenerator[tuple[Story, Application], None]:
    """The same story with another moment each time, until there are no more."""
    at, is_over = 0, False
    while not is_over:
        at += 1
        told = story(at)
        async with told.threads.process(told.model) as app:
            yield told, app
        is_over = told.moments.count < at
    assert at > 10


@pytest.fixture(params=["memory", "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[int], Store]]:
    """Makes a store for each moment."""
    with ExitStack() as opened:

        def store(at: int) -> Store:
            if request.param == "memory":
                return MemoryStore()
            url = f"sqlite:///{tmp_path / f'{at}.db'}"
            settings = DatabaseSettings(url, may_lose_commits_on_power_failure=True)
            return opened.enter_context(SqlAlchemyStore.open(settings))

        yield store


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_is_read_once_and_answered(kind: str, new_store: Callable[[int], Store]) -> None:
    """The run takes it in, or it starts the next one."""

    def story(at: int) -> Story:
        return KINDS[kind](Host, ScriptedModel([calls("hold"), *map(says, SAID)]), new_store(at), at)

    async with aclosing(every_moment(story)) as stories:
        async for told, app in stories:
            assert told.answers(await told.read(app))
            # Turns are those of completed runs.
            assert kind == "it is cancelled" or "Hello" in told.read_last()


async def test_a_message_is_answered_where_the_run_stops_at_a_limit() -> None:
    def story(at: int) -> Story:
        return Story(Hurried, ScriptedModel([calls("hold"), says("One.")]), MemoryStore(), at)

    async with aclosing(every_moment(story)) as stories:
        async for told, app in stories:
            assert told.answers(await told.read(app))


async def test_a_message_is_answered_where_the_run_begins_to_ask() -> None:
    def story(at: int) -> Story:
        model = ScriptedModel([calls("hold"), calls("ask_first"), says("One.")])
        return Story(Host, model, MemoryStore(), at)

    async with aclosing(every_moment(story)) as stories:
        async for told, app in stories:
            (interrupt,) = interrupts_of(await told.read(app))
            assert told.answers(await told.threads.ask(app, resume(interrupt["id"], True)), 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_that_its_run_does_not_take_in_starts_the_next_one(kind: str) -> None:
    """The run under way fails where it is not cancelled."""

    def story(at: int) -> Story:
        return KINDS[kind](Clumsy, ScriptedModel([]), MemoryStore(), at)

    async with aclosing(every_moment(story)) as stories:
        async for told, app in stories:
            assert (await told.read(app))[-1]["result"] == "re: And then?"


async def test_a_message_that_is_not_accepted_is_refused_in_words_or_answered() -> None:
    ends = set()

    def story(at: int) -> Story:
        return Story(KeptDoorman, ScriptedModel([calls("hold"), *map(says, SAID)]), MemoryStore(), at)

    async with aclosing(every_moment(story)) as stories:
        async for told, app in stories:
            end = (frames := await told.read(app))[-1]
            ends.add(end.get("code", "answered"))
            assert texts(frames) == end["message"] if "code" in end else told.answers(frames)
    assert ends == {"answered", "agui_thread_busy"}
