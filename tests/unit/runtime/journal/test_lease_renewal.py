"""One task keeps all leases alive, each in its time, and is gone when nobody needs it."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.runtime.journal.lease import LeaseRenewer
from pilotage.testing import VirtualClock

EVERY = 10.0


class Candle:
    """Counts how often it was renewed; one that is slow is never done with it."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.times = 0
        self._is_slow = is_slow

    async def renew_ahead(self) -> None:
        self.times += 1
        if self._is_slow:
            await asyncio.Event().wait()


class Room:
    """A renewer, and time that passes for it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.renewer = LeaseRenewer(self.clock, EVERY)

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(10):
            await asyncio.sleep(0)

    def lit(self, *, is_slow: bool = False) -> Candle:
        candle = Candle(is_slow=is_slow)
        self.renewer.add(candle)
        return candle


def tasks() -> int:
    """How many tasks there are besides that of the test."""
    return len(asyncio.all_tasks()) - 1


async def test_each_is_renewed_in_its_own_time_until_it_is_dropped() -> None:
    room = Room()
    first = room.lit()
    await room.wait(4)
    second = room.lit()
    await room.wait(6)
    assert (first.times, second.times) == (1, 0)
    await room.wait(4)
    assert (first.times, second.times) == (1, 1)
    room.renewer.drop(first)
    await room.wait(6)
    assert (first.times, second.times) == (1, 1)
    await room.wait(4)
    assert (first.times, second.times) == (1, 2)


async def test_many_are_kept_by_one_task() -> None:
    room = Room()
    candles = [room.lit() for _ in range(100)]
    await room.wait(0)
    assert tasks() == 1
    await room.wait(EVERY)
    assert [candle.times for candle in candles] == [1] * 100
    assert tasks() == 1


async def test_the_task_ends_by_itself_when_none_is_left() -> None:
    room = Room()
    first = room.lit()
    await room.wait(1)
    room.renewer.drop(first)
    await room.wait(2)
    assert tasks() == 0
    again = room.lit()
    await room.wait(EVERY)
    assert again.times == 1


async def test_at_rest_no_task_is_left() -> None:
    room = Room()
    slow = room.lit(is_slow=True)
    await room.wait(EVERY)
    assert tasks() == 2
    room.renewer.drop(slow)
    await room.renewer.stop_if_idle()
    assert tasks() == 0
    await room.renewer.stop_if_idle()


async def test_whoever_is_still_kept_is_kept_on() -> None:
    room = Room()
    candle = room.lit()
    await room.wait(0)
    await room.renewer.stop_if_idle()
    await room.wait(EVERY)
    assert candle.times == 1


async def test_one_that_takes_long_keeps_nobody_waiting_and_is_not_asked_twice_at_once() -> None:
    room = Room()
    slow, quick = room.lit(is_slow=True), room.lit()
    for _ in range(3):
        await room.wait(EVERY)
    assert (slow.times, quick.times) == (1, 3)


async def test_after_a_long_silence_each_is_renewed_once() -> None:
    room = Room()
    candle = room.lit()
    await room.wait(100 * EVERY)
    assert candle.times == 1


def test_a_keeper_goes_on_in_another_event_loop(recwarn: pytest.WarningsRecorder) -> None:
    room = Room()
    loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]

    async def light() -> Candle:
        candle = room.lit()
        await room.wait(EVERY)
        room.renewer.drop(candle)
        return candle

    assert [loop.run_until_complete(light()).times for loop in loops] == [1, 1]
    for loop in loops:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
