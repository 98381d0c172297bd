"""Listeners have a queue each and never touch the run; a pipe makes the run wait for its one reader."""

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


def told(number: int) -> PositionedEvent:
    return (1, number, 0, event(number))


def taken(listener: SubscriberQueue) -> list[int]:
    """The numbers of everything that waits for a listener."""
    found: list[int] = []
    while (each := listener.take()) is not None:
        found.append(each[1])
    return found


def listening(feed: Feed) -> SubscriberQueue:
    listener = SubscriberQueue()
    feed.subscribe(listener)
    return listener


async def turn() -> None:
    await asyncio.sleep(0)


def test_every_listener_gets_every_event_in_order() -> None:
    feed = Feed()
    listeners = [listening(feed) for _ in range(3)]
    for number in range(1, 6):
        feed.publish(told(number))
    assert [taken(listener) for listener in listeners] == [[1, 2, 3, 4, 5]] * 3


def test_who_comes_late_gets_what_is_told_from_then_on() -> None:
    feed = Feed()
    feed.publish(told(1))
    late = listening(feed)
    feed.publish(told(2))
    assert taken(late) == [2]


def test_a_feed_holds_nothing_of_a_listener_that_was_dropped() -> None:
    feed = Feed()
    staying, leaving = listening(feed), listening(feed)
    feed.publish(told(1))
    left = ref(leaving)
    del leaving
    gc.collect()
    assert left() is None
    feed.publish(told(2))
    feed.close()
    assert taken(staying) == [1, 2]


def test_a_listener_that_falls_behind_is_emptied_and_told_nothing_until_it_has_caught_up() -> None:
    feed = Feed()
    slow, quick = listening(feed), listening(feed)
    seen: list[int] = []
    for number in range(1, QUEUE_LIMIT + 3):
        feed.publish(told(number))
        seen += taken(quick)
    assert seen == list(range(1, QUEUE_LIMIT + 3))
    assert slow.has_overflowed
    assert not quick.has_overflowed
    assert taken(slow) == []
    slow.has_overflowed = False
    feed.publish(told(7))
    assert taken(slow) == [7]


def test_a_full_queue_is_not_behind_yet() -> None:
    feed = Feed()
    listener = listening(feed)
    for number in range(QUEUE_LIMIT):
        feed.publish(told(number))
    assert not listener.has_overflowed
    assert taken(listener) == list(range(QUEUE_LIMIT))


async def test_who_waits_is_woken_by_an_event() -> None:
    feed = Feed()
    listener = listening(feed)
    waiting = asyncio.ensure_future(listener.wait())
    await turn()
    assert not waiting.done()
    feed.publish(told(1))
    feed.publish(told(2))
    await waiting
    assert taken(listener) == [1, 2]


async def test_who_waits_is_woken_when_it_falls_behind() -> None:
    listener = SubscriberQueue()
    for number in range(QUEUE_LIMIT):
        listener.put(told(number))
    waiting = asyncio.ensure_future(listener.wait())
    await turn()
    listener.put(told(QUEUE_LIMIT))
    await waiting
    assert listener.has_overflowed


async def test_who_waits_is_woken_by_the_end() -> None:
    feed = Feed()
    listener = listening(feed)
    waiting = asyncio.ensure_future(listener.wait())
    await turn()
    feed.close()
    await waiting
    assert feed.is_over
    assert listener.take() is None


async def test_who_stops_waiting_can_wait_again() -> None:
    feed = Feed()
    listener = listening(feed)
    first = asyncio.ensure_future(listener.wait())
    await turn()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(listener.wait())
    await turn()
    feed.publish(told(1))
    await second
    assert taken(listener) == [1]
