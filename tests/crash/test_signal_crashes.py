"""Signals, crashed at every write: each is taken in once, by its handler, by the model or by the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Application,
    Evidence,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Progress,
    RecoveryStrategy,
    Token,
)
from pilotage.agent import AgentSignal, RecoveryDecision, on_signal
from pilotage.jsonvalue import JsonObject
from pilotage.runtime import AgentRuns, Transcript, next_signal
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    StopAfter,
    StopBefore,
    crash_matrix,
)
from tests.behaviour.bureau import DURABLE, Bureau
from tests.behaviour.office import World
from tests.behaviour.postbox import EVENT, MESSAGE, WAKE_UP, Parrot, Postbox

SPEC = AgentExecutionSpec(
    recovery=RecoveryStrategy.ACTION_BOUNDARY, accepted_signals=[EVENT, MESSAGE, WAKE_UP]
)
Items = AsyncGenerator[AgentYield[list[str]], None]


@Agent(spec=SPEC)
class Handling:
    """Is sent three things while it works, and has a handler for two of them."""

    def __init__(self, model: IAgentModel, post: Postbox) -> None:
        self.model, self.post = model, post

    async def execute(self) -> Items:
        yield Progress("begun")
        for kind in (EVENT, MESSAGE, WAKE_UP):
            await self.post.send(kind.value, f"a {kind.value}")
        stamped = await self.post.stamp("between")
        first = await self.model.complete(ModelRequest([ModelMessage.user("Well?")]))
        await self.post.send(EVENT.value, "the last")
        yield Final([stamped, first.content])

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> Items:
        said = str(signal.payload["text"])
        yield Progress(f"heard {said}")
        reply = await self.model.complete(ModelRequest([ModelMessage.user(said)]))
        yield Token(reply.content)
        yield Evidence(await self.post.stamp(said))

    @on_signal(WAKE_UP)
    async def woken(self, signal: AgentSignal) -> Items:
        yield Evidence(await self.post.stamp(str(signal.payload["text"])))


@Agent(spec=SPEC)
class Waiting:
    """Waits for two things that it sends itself, one of which its model is shown, between unrepeatable actions."""

    def __init__(self, model: IAgentModel, post: Postbox) -> None:
        self.model, self.post = model, post

    async def execute(self) -> Items:
        await self.post.send(WAKE_UP.value, "morning")
        await self.model.complete(ModelRequest([ModelMessage.user("Well?")]))
        await self.post.send(EVENT.value, "fire")
        first = await next_signal(EVENT)
        done = [await self.post.stamp(str(first.payload["text"]))]
        second = await next_signal(WAKE_UP)
        done.append(await self.post.stamp(str(second.payload["text"])))
        yield Final(done)


@Agent(spec=SPEC)
class Hearing:
    """Shows its model what comes."""

    def __init__(self, model: IAgentModel, post: Postbox) -> None:
        self.model, self.post = model, post

    async def execute(self) -> Items:
        heard: list[str] = []
        for kind in (EVENT, MESSAGE, WAKE_UP):
            await self.post.send(kind.value, f"a {kind.value}")
            reply = await self.model.complete(ModelRequest([ModelMessage.user("Well?")]))
            heard.append(reply.content)
        heard.append(await self.post.stamp("done"))
        yield Final(heard)


@pytest.mark.parametrize("agent", [Handling, Waiting, Hearing])
async def test_no_crash_loses_a_signal_or_applies_it_twice(
    agent: type[object], second_stops: tuple[int, ...]
) -> None:
    report = await crash_matrix(agent, add=[World(), Postbox, Parrot], second_stops=second_stops)
    assert report.reference.status is AgentStatus.COMPLETED
    assert report.points > 45
    report.assert_same_result()
    report.assert_no_repeated_effects()


class Place:
    """A store and a world that outlive every process."""

    def __init__(self) -> None:
        self.store, self.world = MemoryStore(), World()
        self.commits = 0

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns, None]:
        """One process, without leases: when it dies, another may take its runs at once."""
        journal, store = FaultyJournal(self.store.journal, fault), self.store
        app = Application("crashes").add(Handling, Postbox, Parrot, self.world, journal)
        app.add(store.states, store.signals, store.evidence, store.sealer)
        initialize(app)
        try:
            async with app:
                yield app.get(AgentRuns)
        except ProcessStopped:
            pass
        self.commits = journal.commits

    async def told(self, fault: Fault | None = None) -> tuple[list[tuple[str, str]], list[str]]:
        """What a run tells in the end, whatever happens to its first process: events in order, texts that count."""
        async with self.process(fault) as runs:
            await (await runs.start(Handling)).result()
        async with self.process() as runs:
            (state,) = (await runs.list()).runs
            while not state.is_terminal:
                for question in await runs.questions(state.id):
                    stamped = f"stamp {cast(JsonObject, question.arguments['view'])['what']}"
                    if stamped in self.world.done:
                        result = stamped.replace("stamp", "stamped")
                        await runs.answer(
                            state.id, question.id, RecoveryDecision.DONE, result=result, resume=False
                        )
                    else:
                        await runs.answer(state.id, question.id, RecoveryDecision.RETRY, resume=False)
                state = (await (await runs.resume(state.id)).result()).state
            transcript, events = Transcript(), runs.events(state.id)
            async for event in events:
                transcript.add(event, events.cursor)
        said = [(event.kind.value, words_of(event)) for event in transcript.events]
        texts = [words for kind, words in said if kind == "message_delta"]
        return [each for each in said if each[0] in ("step_started", "artifact")], texts


def words_of(event: AgentEvent) -> str:
    return str(
        next(filter(None, (getattr(event, name, "") for name in ("step_name", "content", "delta"))), "")
    )


async def test_what_handlers_say_is_told_once_whatever_happens() -> None:
    undisturbed = Place()
    expected = await undisturbed.told()
    assert ("artifact", "stamped the last") in expected[0]
    assert expected[1] == ["user: a external_event", "user: the last"]
    undisturbed = Place()
    async with undisturbed.process() as runs:
        await (await runs.start(Handling)).result()
    for number in range(2, undisturbed.commits + 1):
        for fault in (StopBefore(number), StopAfter(number)):
            assert await Place().told(fault) == expected, str(fault)


@Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE, accepted_signals=[MESSAGE]))
class Talker:
    """Answers, and goes on with a message that comes meanwhile."""


class SlowEar(IAgentModel):
    """Counts the messages it is shown; a message is sent during its first call, and what is recorded is committed."""

    def __init__(self, post: Callable[[], Awaitable[object]]) -> None:
        self._post: Callable[[], Awaitable[object]] | None = post

    async def complete(self, request: ModelRequest) -> ModelResponse:
        post, self._post = self._post, None
        if post is not None:
            await post()
        for _ in range(20):
            await asyncio.sleep(0)
        return ModelResponse(f"{len(request.messages)} messages")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))


@pytest.mark.parametrize("kind", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_message_that_was_taken_in_behind_an_answer_is_answered_after_any_crash(
    number: int, kind: type[StopBefore | StopAfter]
) -> None:
    """The row of the intake may be the last one: the process died in the model call that it led to."""
    bureau = Bureau()

    async def drive(fault: Fault | None = None) -> object:
        async def post() -> None:
            (run,) = (await runs.list()).runs
            await runs.signal(run.id, MESSAGE, {"text": "And then?"}, id="message-1")

        async with bureau.process(Talker, model=SlowEar(post), fault=fault) as runs:
            with suppress(ProcessStopped):
                handle = await runs.start(Talker, "Hello.", id="talk")
                if fault is None and (await runs.get(handle.id)).status is not AgentStatus.COMPLETED:
                    handle = await runs.resume(handle.id)
                return (await handle.result()).output
        return None

    await drive(kind(number))
    # Two turns, or one in which the message came before the first call that was recorded.
    assert await drive() in ("4 messages", "3 messages")
