"""What a run tells, whoever listens: all of it, in order, once; the end only when it is durable."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncGenerator, Sized
from weakref import getweakrefcount

import pytest
from tests.behaviour.newsroom import (
    DURABLE,
    Gate,
    Juggler,
    Newsroom,
    Writer,
    ends,
    follow,
    heard,
    let_run,
    parts,
    texts,
    turns,
)

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    Progress,
    Token,
)
from pilotage.agent import (
    AgentEvent,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
)
from pilotage.agent.events import SUPERSEDED
from pilotage.runtime.events.feed import QUEUE_LIMIT, SubscriberQueue
from pilotage.testing import (
    FailWrite,
    Fault,
    LoseReply,
    ScriptedModel,
    StopAfter,
    StopBefore,
    calls,
    says,
    turn,
)
from pilotage.testing.script import ScriptedReply


@Agent(spec=AgentExecutionSpec(name="chatterbox", recovery=DURABLE))
class Chatterbox:
    """Says a given number of words, with a turn for others behind each, and waits at a gate in the middle."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def execute(self, words: int) -> AsyncGenerator[AgentYield[int], None]:
        for number in range(words):
            if number == words // 2:
                await self.gate.pass_through()
            yield Token(f"{number} ")
            if number % 100 == 99:
                yield Progress(f"{number + 1} words")
            await asyncio.sleep(0)
        yield Final(words)


async def test_who_comes_late_gets_everything() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": 40})
        early = asyncio.create_task(follow(run.events()))
        await gate.reached.wait()
        middle = asyncio.create_task(follow(runs.events(run.id)))
        gate.open.set()
        await run.result()
        late = await follow(runs.events(run.id))
        logged = await room.logged(run.id)
    assert (await early).events == (await middle).events == late.events == logged
    assert texts(logged) == {"message run:message": "".join(f"{number} " for number in range(40))}


async def test_every_subscriber_gets_every_event() -> None:
    room = Newsroom()
    async with room.process(turns(3)) as runs:
        run = await runs.start(Writer, "go")
        first, *rest = await asyncio.gather(*(follow(run.events()) for _ in range(10)))
        assert first.events == await room.logged(run.id)
        assert all(other.events == first.events for other in rest)


async def test_a_slow_subscriber_falls_behind_and_catches_up_exactly_while_the_run_goes_on() -> None:
    room, gate = Newsroom(), Gate()
    words = 6 * QUEUE_LIMIT
    async with room.process(parts(), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": words})
        slow = run.events()
        seen = [(await anext(slow), slow.cursor) for _ in range(3)]
        await gate.reached.wait()
        seen += [(await anext(slow), slow.cursor) for _ in range(3)]
        gate.open.set()
        # The run comes to its end though somebody does not read.
        assert (await run.result()).output == words
        rest = await heard(slow)
        assert len(rest) < words, "a reader that has fallen behind gets text in larger pieces"
        assert texts([event for event, _ in seen + rest]) == texts(await room.logged(run.id))
        assert [event for event, _ in seen + rest if not isinstance(event, MessageDeltaEvent)] == [
            event for event in await room.logged(run.id) if not isinstance(event, MessageDeltaEvent)
        ]


async def test_a_subscriber_that_does_not_read_holds_no_more_than_its_queue() -> None:
    room, gate = Newsroom(), Gate()
    gate.open.set()
    async with room.process(parts(), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": 3 * QUEUE_LIMIT})
        idle = run.events()
        await anext(idle)
        await run.result()
        assert [len(queue) for listener in listeners() for queue in queues_of(listener)] == [0]
        assert len(await heard(idle)) < QUEUE_LIMIT


@pytest.mark.slow
async def test_leaving_early_touches_neither_the_run_nor_the_others_and_leaves_nothing_behind() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": 40})
        staying = asyncio.create_task(follow(run.events()))
        dropped, closed = run.events(), run.events()
        await anext(dropped)
        await anext(closed)
        assert len(listeners()) == 3
        tasks = asyncio.all_tasks()
        await closed.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(closed)
        assert len(listeners()) == 2
        del dropped
        assert len(listeners()) == 1
        assert asyncio.all_tasks() == tasks
        gate.open.set()
        assert (await run.result()).output == 40
        assert (await staying).events == await room.logged(run.id)


async def test_a_reader_that_gives_up_waiting_has_missed_nothing() -> None:
    room, gate = Newsroom(), Gate()
    async with room.process(parts(), Chatterbox, gate) as runs:
        run = await runs.start(Chatterbox, {"words": 40})
        await gate.reached.wait()
        reader, read = run.events(), list[AgentEvent]()
        for patience in range(30):
            waiting = asyncio.ensure_future(anext(reader))
            await let_run(patience % 4)
            if waiting.done():
                read.append(waiting.result())
            waiting.cancel()
            await asyncio.wait([waiting])
        gate.open.set()
        read += [event async for event in reader]
        assert texts(read) == texts(await room.logged(run.id))


async def test_a_paused_run_ends_the_stream_and_a_reader_goes_on_behind_the_pause() -> None:
    room = Newsroom()
    model = ScriptedModel([calls("refund", amount="1"), says("Done.")])
    async with room.process(model) as runs:
        run = await runs.start(Writer, "go")
        client = await follow(run.events())
        assert isinstance(client.events[-1], RunPausedEvent)
        again = await follow(runs.events(run.id, after=client.cursor))
        assert again.events == []
        (question,) = await runs.questions(run.id)
        assert client.events[-1].approval_id == question.id
        await runs.approve(question.id)
        resumed = await runs.resume(run.id)
        behind = await follow(resumed.events())
        await follow(runs.events(run.id, after=client.cursor), client)
        assert isinstance(behind.events[0], RunStartedEvent)
        assert client.events[-len(behind.events) :] == behind.events
        assert client.events == await room.logged(run.id)
        assert [
            type(each) for each in client.events if isinstance(each, RunPausedEvent | RunFinishedEvent)
        ] == [
            RunPausedEvent,
            RunFinishedEvent,
        ]


async def test_the_first_event_of_a_later_owner_says_what_it_goes_on_from() -> None:
    room = Newsroom()
    model = ScriptedModel([calls("refund", amount="1"), says("Done.")])
    async with room.process(model) as runs:
        run = await runs.start(Writer, "go")
        told = await heard(run.events())
        assert told[0][0].metadata == {}
        resumed = await runs.resume(run.id)
        first = await anext(resumed.events())
        assert isinstance(first, RunStartedEvent)
        assert first.metadata == {"epoch": 2, "resumed_after": told[-1][1]}
        await resumed.result()


@pytest.mark.parametrize("fault", [StopBefore, StopAfter, LoseReply, FailWrite])
@pytest.mark.parametrize(
    "script", [[says("Done.")], [calls("refund", amount="1")]], ids=["an end", "a pause"]
)
async def test_an_end_or_a_pause_is_told_only_when_it_is_durable(
    fault: type[Fault], script: list[ScriptedReply]
) -> None:
    room = Newsroom()
    async with room.process(ScriptedModel(script)) as runs:
        await (await runs.start(Writer, "go")).result()
    last, room = room.commits, Newsroom()
    async with room.process(ScriptedModel(script), fault=fault(last)) as runs:
        run = await runs.start(Writer, "go")
        live = asyncio.create_task(follow(run.events()))
        # Whoever begins to read while the commit is under way is not told earlier than the others.
        latecomers = [asyncio.create_task(follow(runs.events(run.id)))]
        while not live.done():
            await asyncio.sleep(0)
            latecomers.append(asyncio.create_task(follow(runs.events(run.id))))
        readers = [await live, *[await each for each in latecomers]]
        await asyncio.wait([asyncio.ensure_future(run.result())])
        is_durable = (await room.store.states.get(run.id)).status is not AgentStatus.ACTIVE
    seen = [isinstance(event, RunFinishedEvent | RunPausedEvent) for each in readers for event in each.events]
    assert is_durable == (fault is not StopBefore)
    assert any(seen) == (fault in (LoseReply, FailWrite))


async def test_replay_says_nothing_twice() -> None:
    room = Newsroom()
    gated = ScriptedModel(
        [turn(says("Let me see.", reasoning="Hm."), calls("refund", amount="1")), says("Done.")]
    )
    async with room.process(gated) as runs:
        run = await runs.start(Writer, "go")
        client = await follow(run.events())
        for _ in range(3):
            resumed = await runs.resume(run.id)
            more = await heard(resumed.events())
            assert [type(event) for event, _ in more] == [RunStartedEvent, RunPausedEvent]
            await follow(runs.events(run.id, after=client.cursor), client)
        assert client.events == await room.logged(run.id)
    assert list(texts(client.events).values()) == ["Hm.", "Let me see.", '{"amount":"1"}']


async def test_the_text_of_a_repeated_model_call_is_superseded_once() -> None:
    room = Newsroom()
    await begun_and_left(room, StopBefore(5))
    for _ in range(2):
        await carried_on(room, StopBefore(3))
    run_id = await carried_on(room)
    async with room.process(parts(1)) as runs:
        told = [event for event, _ in await heard(runs.events(run_id))]
    spoken = [event for event in told if isinstance(event, MessageDeltaEvent)]
    marked = [
        event.message_id for event in spoken if event.metadata == {SUPERSEDED: True} and not event.delta
    ]
    assert marked, "some text was committed, and its call was made again"
    assert len(marked) == len(set(marked)) == len({event.message_id for event in spoken}) - 1
    assert len(texts(told)) == 1
    assert len(ends(told)) == 1


def listeners() -> list[SubscriberQueue]:
    """Everything that listens to some run, and is told."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, SubscriberQueue) and getweakrefcount(each)]


def queues_of(listener: SubscriberQueue) -> list[Sized]:
    return [held for held in gc.get_referents(listener) if isinstance(held, deque)]


async def begun_and_left(room: Newsroom, fault: Fault) -> None:
    """A run whose process dies."""
    async with room.process(parts(1), fault=fault) as runs:
        run = await runs.start(Juggler, {"parts": 1})
        await asyncio.wait([asyncio.ensure_future(run.result())])


async def carried_on(room: Newsroom, fault: Fault | None = None) -> str:
    """Another process takes the run, and perhaps dies as well."""
    (state,) = await room.store.states.list_resume_candidates()
    async with room.process(parts(1), fault=fault) as runs:
        resumed = await runs.resume(state.id)
        await asyncio.wait([asyncio.ensure_future(resumed.result())])
    return state.id
