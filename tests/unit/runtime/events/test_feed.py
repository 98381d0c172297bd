"""Subscribers have a bounded queue each and never slow the run down."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

import pytest

from pilotage.agent.events import AgentEvent, AgentEventAttribution, MessageDeltaEvent
from pilotage.runtime.events.feed import QUEUE_LIMIT, Feed, PositionedEvent, SubscriberQueue

BY = AgentEventAttribution("clerk", "run-1", "talk-1")


def event(number: int) -> AgentEvent:
    return MessageDeltaEvent(BY, "m-1", str(number))


def positioned(number: int) -> PositionedEvent:
    return (1, number, 0, event(number))


def taken(queue: SubscriberQueue) -> list[int]:
    """Return the numbers of all queued events."""
    found: list[int] = []
    while (each := queue.take()) is not None:
        found.append(each[1])
    return found


def subscribed(feed: Feed) -> SubscriberQueue:
    queue = SubscriberQueue()
    feed.subscribe(queue)
    return queue


async def turn() -> None:
    await asyncio.sleep(0)


def test_every_subscriber_gets_every_event_in_order() -> None:
    feed = Feed()
    queues = [subscribed(feed) for _ in range(3)]
    for number in range(1, 6):
        feed.publish(positioned(number))
    assert [taken(queue) for queue in queues] == [[1, 2, 3, 4, 5]] * 3


def test_a_late_subscriber_gets_the_events_from_then_on() -> None:
    feed = Feed()
    feed.publish(positioned(1))
    late = subscribed(feed)
    feed.publish(positioned(2))
    assert taken(late) == [2]


def test_a_feed_does_not_hold_a_dropped_queue() -> None:
    feed = Feed()
    staying, leaving = subscribed(feed), subscribed(feed)
    feed.publish(positioned(1))
    left = ref(leaving)
    del leaving
    gc.collect()
    assert left() is None
    feed.publish(positioned(2))
    feed.close()
    assert taken(staying) == [1, 2]


def test_a_queue_that_overflows_is_emptied_and_gets_nothing_until_it_is_restarted() -> None:
    feed = Feed()
    slow, quick = subscribed(feed), subscribed(feed)
    seen: list[int] = []
    for number in range(1, QUEUE_LIMIT + 3):
        feed.publish(positioned(number))
        seen += taken(quick)
    assert seen == list(range(1, QUEUE_LIMIT + 3))
    assert slow.has_overflowed
    assert not quick.has_overflowed
    assert taken(slow) == []
    slow.restart()
    feed.publish(positioned(7))
    assert taken(slow) == [7]


def test_a_full_queue_has_not_overflowed() -> None:
    feed = Feed()
    queue = subscribed(feed)
    for number in range(QUEUE_LIMIT):
        feed.publish(positioned(number))
    assert not queue.has_overflowed
    assert taken(queue) == list(range(QUEUE_LIMIT))


async def test_an_event_wakes_the_subscriber() -> None:
    feed = Feed()
    queue = subscribed(feed)
    waiting = asyncio.ensure_future(queue.wait())
    await turn()
    assert not waiting.done()
    feed.publish(positioned(1))
    feed.publish(positioned(2))
    await waiting
    assert taken(queue) == [1, 2]


async def test_an_overflow_wakes_the_subscriber() -> None:
    queue = SubscriberQueue()
    for number in range(QUEUE_LIMIT):
        queue.put(positioned(number))
    waiting = asyncio.ensure_future(queue.wait())
    await turn()
    queue.put(positioned(QUEUE_LIMIT))
    await waiting
    assert queue.has_overflowed


async def test_the_end_wakes_the_subscriber() -> None:
    feed = Feed()
    queue = subscribed(feed)
    waiting = asyncio.ensure_future(queue.wait())
    await turn()
    feed.close()
    await waiting
    assert feed.is_over
    assert queue.take() is None


async def test_a_subscriber_that_stopped_waiting_can_wait_again() -> None:
    feed = Feed()
    queue = subscribed(feed)
    first = asyncio.ensure_future(queue.wait())
    await turn()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(queue.wait())
    await turn()
    feed.publish(positioned(1))
    await second
    assert taken(queue) == [1]
