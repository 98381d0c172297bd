"""Events of an ephemeral run: all of them, in order, to one reader, who may slow the run down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

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
from pilotage.runtime.exposure.modes import OPEN_EXPOSURE, Exposure
from pilotage.runtime.exposure.redactor import Redactor

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
END = RunFinishedEvent(BY)


def direct_writer(forwarded: list[AgentEvent] | None = None) -> DirectEventWriter:
    exposure = Exposure(StreamingExposureMode.LOW_LATENCY, Redactor())
    return DirectEventWriter(exposure, None if forwarded is None else forwarded.append)


def says(text: object) -> AgentEvent:
    return MessageDeltaEvent(BY, "m", str(text))


async def turn() -> None:
    await asyncio.sleep(0)


async def filled() -> DirectEventWriter:
    """Return a writer with as many events as may wait."""
    writer = direct_writer()
    await writer.wait_for_room()
    for number in range(QUEUE_LIMIT):
        if writer.is_full:
            break
        writer.write(says(number))
    assert writer.is_full
    return writer


async def test_the_reader_gets_all_events_and_the_end_when_it_is_released() -> None:
    writer = direct_writer()
    writer.write_now(RunStartedEvent(BY))
    writer.write(says("a"))
    writer.prepare(END)
    writer.write(says("b"))
    writer.release()
    writer.close()
    assert [event async for event in writer] == [RunStartedEvent(BY), says("a"), says("b"), END]
    assert [event async for event in writer] == []
    assert writer.start_metadata() == {}


async def test_a_reader_gets_each_event_when_it_is_written() -> None:
    writer = direct_writer()
    for number in range(3):
        waiting = asyncio.ensure_future(anext(writer))
        await turn()
        assert not waiting.done()
        writer.write(says(number))
        assert await waiting == says(number)
    waiting_for_the_end = asyncio.ensure_future(anext(writer, None))
    await turn()
    writer.close()
    assert await waiting_for_the_end is None


async def test_a_run_has_its_first_turn_before_its_reader_waits() -> None:
    writer = direct_writer()

    async def run() -> None:
        writer.write(says(1))
        writer.write(says(2))
        writer.close()

    running = asyncio.ensure_future(run())
    assert [event async for event in writer] == [says(1), says(2)]
    await running


async def test_ready_events_are_taken_at_once_and_none_twice() -> None:
    writer = direct_writer()
    for number in range(3):
        writer.write(says(number))
    assert await anext(writer) == says(0)
    assert list(writer.ready()) == [says(1), says(2)]
    assert list(writer.ready()) == []
    writer.write(says(3))
    assert await anext(writer) == says(3)


async def test_a_run_waits_until_its_reader_has_caught_up() -> None:
    writer = await filled()
    writing = asyncio.ensure_future(writer.wait_for_room())
    await turn()
    read = 0
    while not writing.done():
        assert await anext(writer) == says(read)
        read += 1
        await turn()
    assert not writer.is_full


async def test_a_reader_that_takes_everything_at_once_never_has_more_than_the_limit_before_it() -> None:
    writer = await filled()
    writing = asyncio.ensure_future(writer.wait_for_room())
    await turn()
    in_hand = list(writer.ready())
    await writing
    while not writer.is_full:
        writer.write(says("more"))
    assert len(in_hand) + len(list(writer.ready())) == QUEUE_LIMIT


async def test_a_run_waits_no_longer_for_a_reader_that_left() -> None:
    writer = await filled()
    writing = asyncio.ensure_future(writer.wait_for_room())
    await turn()
    assert not writing.done()
    writer.close()
    await writing
    await writer.wait_for_room()


async def test_events_of_a_child_are_forwarded_to_its_parent() -> None:
    forwarded: list[AgentEvent] = []
    writer = direct_writer(forwarded)
    writer.write_now(RunStartedEvent(BY))
    for number in range(QUEUE_LIMIT):
        writer.write(says(number))
    assert len(forwarded) == QUEUE_LIMIT + 1
    assert not writer.is_full
    assert list(writer.ready()) == []


async def sayings(count: int, said: list[int]) -> AsyncIterator[AgentEvent]:
    for number in range(count):
        said.append(number)
        yield says(number)


@pytest.mark.parametrize("exposure", [OPEN_EXPOSURE, Exposure(StreamingExposureMode.LOW_LATENCY, Redactor())])
async def test_a_program_waits_for_a_reader_that_does_not_read(exposure: Exposure) -> None:
    writer, said = DirectEventWriter(exposure), list[int]()
    writing = asyncio.create_task(writer.write_all(sayings(2 * QUEUE_LIMIT, said)))
    await turn()
    assert writer.is_full
    assert len(said) < QUEUE_LIMIT
    reading = [await anext(writer) for _ in range(2 * QUEUE_LIMIT)]
    await writing
    assert reading == [says(number) for number in range(2 * QUEUE_LIMIT)]


@pytest.mark.parametrize("exposure", [OPEN_EXPOSURE, Exposure(StreamingExposureMode.LOW_LATENCY, Redactor())])
async def test_the_program_of_a_child_writes_to_the_parent(exposure: Exposure) -> None:
    forwarded: list[AgentEvent] = []
    await DirectEventWriter(exposure, forwarded.append).write_all(sayings(3, []))
    assert forwarded == [says(0), says(1), says(2)]
