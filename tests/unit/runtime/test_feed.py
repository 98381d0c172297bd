"""Subscribers read at their own pace, from their own cursor, and never touch the run."""

from __future__ import annotations

import asyncio

from pilotage.agent.events import AgentEvent, AgentEventAttribution, MessageDeltaEvent
from pilotage.runtime.feed import Feed

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
EVENTS: list[AgentEvent] = [MessageDeltaEvent(BY, "m-1", str(n)) for n in range(5)]


async def read(feed: Feed, after: int = 0) -> list[AgentEvent]:
    """Everything from a cursor on."""
    return [event async for event in feed.events(after)]


async def test_who_comes_late_gets_everything() -> None:
    feed = Feed()
    for event in EVENTS:
        feed.publish(event)
    feed.close()
    assert await read(feed) == EVENTS


async def test_a_cursor_skips_what_was_read() -> None:
    feed = Feed()
    for event in EVENTS:
        feed.publish(event)
    feed.close()
    assert [await read(feed, after) for after in range(6)] == [EVENTS[after:] for after in range(6)]


async def test_who_waits_gets_each_event_when_it_is_told() -> None:
    feed = Feed()
    events = feed.events()
    for event in EVENTS:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        assert not waiting.done()
        feed.publish(event)
        assert await waiting == event
    waiting_for_the_end = asyncio.ensure_future(anext(events, None))
    await asyncio.sleep(0)
    feed.close()
    assert await waiting_for_the_end is None


async def test_every_subscriber_gets_every_event() -> None:
    feed = Feed()
    readers = [asyncio.create_task(read(feed)) for _ in range(3)]
    for event in EVENTS:
        await asyncio.sleep(0)
        feed.publish(event)
    feed.close()
    assert await asyncio.gather(*readers) == [EVENTS] * 3


async def test_who_leaves_early_leaves_the_others_alone() -> None:
    feed = Feed()
    leaving = feed.events()
    staying = asyncio.create_task(read(feed))
    feed.publish(EVENTS[0])
    assert await anext(leaving) == EVENTS[0]
    await leaving.aclose()
    for event in EVENTS[1:]:
        feed.publish(event)
    feed.close()
    assert await staying == EVENTS
