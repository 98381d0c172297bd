"""What a run tells that nobody keeps: all of it, in order, to one reader, who may slow it down."""

from __future__ import annotations

import asyncio

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunStartedEvent,
)
from pilotage.agent.spec import StreamingExposureMode
from pilotage.runtime.events.feed import QUEUE_LIMIT
from pilotage.runtime.events.writer import DirectEventWriter
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import Redactor

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
END = RunFinishedEvent(BY)


def piped(forwarded: list[AgentEvent] | None = None) -> DirectEventWriter:
    exposure = Exposure(StreamingExposureMode.LOW_LATENCY, Redactor())
    return DirectEventWriter(exposure, None if forwarded is None else forwarded.append)


def says(text: object) -> AgentEvent:
    return MessageDeltaEvent(BY, "m", str(text))


async def turn() -> None:
    await asyncio.sleep(0)


async def filled() -> DirectEventWriter:
    """One that is told as much as may wait."""
    telling = piped()
    await telling.room()
    for number in range(QUEUE_LIMIT):
        if telling.is_full:
            break
        telling.say(says(number))
    assert telling.is_full
    return telling


async def test_the_one_reader_gets_everything_and_the_end_when_it_is_released() -> None:
    telling = piped()
    telling.report(RunStartedEvent(BY))
    telling.say(says("a"))
    telling.prepare(END)
    telling.say(says("b"))
    telling.release()
    telling.close()
    assert [event async for event in telling] == [RunStartedEvent(BY), says("a"), says("b"), END]
    assert [event async for event in telling] == []
    assert telling.start_facts() == {}


async def test_a_reader_gets_each_event_when_it_is_told() -> None:
    telling = piped()
    for number in range(3):
        waiting = asyncio.ensure_future(anext(telling))
        await turn()
        assert not waiting.done()
        telling.say(says(number))
        assert await waiting == says(number)
    waiting_for_the_end = asyncio.ensure_future(anext(telling, None))
    await turn()
    telling.close()
    assert await waiting_for_the_end is None


async def test_a_run_has_its_first_turn_before_its_reader_waits() -> None:
    telling = piped()

    async def run() -> None:
        telling.say(says(1))
        telling.say(says(2))
        telling.close()

    running = asyncio.ensure_future(run())
    assert [event async for event in telling] == [says(1), says(2)]
    await running


async def test_what_is_there_already_is_taken_at_once_and_nothing_twice() -> None:
    telling = piped()
    for number in range(3):
        telling.say(says(number))
    assert await anext(telling) == says(0)
    assert list(telling.ready()) == [says(1), says(2)]
    assert list(telling.ready()) == []
    telling.say(says(3))
    assert await anext(telling) == says(3)


async def test_a_run_waits_until_its_reader_has_read_what_there_was() -> None:
    telling = await filled()
    writing = asyncio.ensure_future(telling.room())
    await turn()
    read = 0
    while not writing.done():
        assert await anext(telling) == says(read)
        read += 1
        await turn()
    assert not telling.is_full


async def test_a_reader_that_takes_everything_at_once_never_has_more_than_the_limit_before_it() -> None:
    telling = await filled()
    writing = asyncio.ensure_future(telling.room())
    await turn()
    in_hand = list(telling.ready())
    await writing
    while not telling.is_full:
        telling.say(says("more"))
    assert len(in_hand) + len(list(telling.ready())) == QUEUE_LIMIT


async def test_a_run_waits_no_longer_for_a_reader_that_left() -> None:
    telling = await filled()
    writing = asyncio.ensure_future(telling.room())
    await turn()
    assert not writing.done()
    telling.close()
    await writing
    await telling.room()


async def test_what_a_child_tells_its_parent_tells() -> None:
    forwarded: list[AgentEvent] = []
    telling = piped(forwarded)
    telling.report(RunStartedEvent(BY))
    for number in range(QUEUE_LIMIT):
        telling.say(says(number))
    assert len(forwarded) == QUEUE_LIMIT + 1
    assert not telling.is_full
    assert list(telling.ready()) == []
