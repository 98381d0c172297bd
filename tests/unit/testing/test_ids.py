"""A clock, ids and random numbers under the control of a test."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.testing.ids import SeededIds, VirtualClock


async def let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now() == clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    assert clock.now().utcoffset() == timedelta(0)
    clock.advance(90.5)
    assert clock.now() == datetime(2026, 1, 1, 0, 1, 30, 500000, tzinfo=UTC)
    assert clock.monotonic() == 90.5


async def test_sleepers_wake_when_their_time_has_come_the_earliest_first() -> None:
    clock, woken = VirtualClock(), list[str]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 10), ("second", 5), ("first", 3)):
            group.create_task(sleeper(name, seconds))
        await let_others_run()
        assert (woken, clock.sleepers) == ([], 3)
        clock.advance(2.9)
        await let_others_run()
        assert woken == []
        clock.advance(2.1)
        await let_others_run()
        assert (woken, clock.sleepers) == (["first", "second"], 1)
        clock.advance(5)
    assert woken == ["first", "second", "late"]


async def test_sleeping_for_no_time_needs_no_advance() -> None:
    await asyncio.gather(VirtualClock().sleep(0), VirtualClock().sleep(-1))


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await let_others_run()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0
    clock.advance(2)


def drawn(ids: SeededIds) -> list[object]:
    return [ids.uid(), ids.random(), ids.uid(), ids.random()]


def test_the_same_seed_gives_the_same_sequence_and_another_seed_another_one() -> None:
    assert drawn(SeededIds(7)) == drawn(SeededIds(7))
    assert drawn(SeededIds(7)) != drawn(SeededIds(8))


def test_ids_look_like_real_ones() -> None:
    ids = SeededIds()
    uids = [ids.uid() for _ in range(200)]
    assert len(set(uids)) == 200
    assert all(len(uid) == 32 and uid == uid.lower() and int(uid, 16) >= 0 for uid in uids)
    assert all(0 <= ids.random() < 1 for _ in range(200))


def test_setting_the_time_of_day_lets_no_time_pass() -> None:
    clock = VirtualClock(datetime(2026, 1, 2, tzinfo=UTC))
    clock.set_time_of_day(-86_400)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 1, 1, tzinfo=UTC), 0.0)
    clock.advance(60)
    clock.set_time_of_day(60)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 1, 1, 0, 2, tzinfo=UTC), 60.0)


async def test_time_passes_for_a_suspended_machine_and_its_timers_stand_still() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    sleeper = asyncio.create_task(clock.sleep(10))
    await let_others_run()
    clock.suspend(3600)
    await let_others_run()
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 1, 1, 1, tzinfo=UTC), 3600.0)
    assert not sleeper.done()
    clock.advance(10)
    await sleeper
