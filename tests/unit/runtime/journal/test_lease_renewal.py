"""One task keeps all leases alive, together, and is gone when nobody needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from pilotage.runtime.journal.renewal import LeaseRenewer
from pilotage.testing import VirtualClock

EVERY = 10.0


class Candle:
    """Counts how often it was renewed."""

    def __init__(self) -> None:
        self.times = 0


class Room:
    """A renewer, and time that passes for it; `requests` are the numbers of leases that were renewed together."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.renewer = LeaseRenewer(self.clock, EVERY, self._renew)
        self.requests: list[int] = []
        self.is_slow = False

    async def _renew(self, candles: Sequence[Candle]) -> None:
        self.requests.append(len(candles))
        for candle in candles:
            candle.times += 1
        if self.is_slow:
            await asyncio.Event().wait()

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(10):
            await asyncio.sleep(0)

    def lit(self) -> Candle:
        candle = Candle()
        self.renewer.add(candle)
        return candle


def tasks() -> int:
    """How many tasks there are besides that of the test."""
    return len(asyncio.all_tasks()) - 1


async def test_each_is_renewed_before_its_time_is_up_until_it_is_dropped() -> None:
    room = Room()
    first = room.lit()
    await room.wait(7)
    second = room.lit()
    await room.wait(3)
    assert (first.times, second.times) == (1, 0)
    await room.wait(7)
    assert (first.times, second.times) == (2, 1)
    room.renewer.drop(first)
    await room.wait(EVERY)
    assert (first.times, second.times) == (2, 2)


async def test_leases_that_were_taken_at_any_time_are_soon_renewed_together() -> None:
    room = Room()
    for _ in range(100):
        room.lit()
        await room.wait(EVERY / 100)
    room.requests.clear()
    for _ in range(30):
        await room.wait(EVERY / 10)
    assert room.requests[-2:] == [100, 100]
    assert len(room.requests) <= 2 * 3


async def test_no_lease_is_ever_renewed_late() -> None:
    room, chance = Room(), Random(7)  # noqa: S311 - a repeatable draw
    last: dict[Candle, tuple[int, float]] = {}
    for _ in range(500):
        if chance.random() < 0.3:
            last[room.lit()] = 0, room.clock.monotonic()
        await room.wait(chance.random() * EVERY / 10)
        now = room.clock.monotonic()
        for candle, (times, since) in list(last.items()):
            assert now - since <= EVERY * 1.2
            if candle.times > times:
                last[candle] = candle.times, now


async def test_many_are_kept_by_one_task() -> None:
    room = Room()
    candles = [room.lit() for _ in range(100)]
    await room.wait(0)
    assert tasks() == 1
    await room.wait(EVERY)
    assert [candle.times for candle in candles] == [1] * 100
    assert (tasks(), room.requests) == (1, [100])


async def test_very_many_are_renewed_in_several_requests() -> None:
    room = Room()
    candles = [room.lit() for _ in range(2_500)]
    await room.wait(EVERY)
    assert {candle.times for candle in candles} == {1}
    assert room.requests == [1_000, 1_000, 500]


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
    room.is_slow = True
    slow = room.lit()
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
    room.is_slow, slow = True, room.lit()
    await room.wait(EVERY)
    room.is_slow, quick = False, room.lit()
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
