"""What is special to leases in memory; their promises are in the conformance kit."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from pilotage.agent.ports.leases import Lease
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import RUN
from pilotage.testing.coordination import MemoryWakeUps
from pilotage.testing.ids import VirtualClock
from pilotage.testing.memory import MemoryStore


async def test_a_lease_ends_to_the_moment_by_the_clock_of_the_store() -> None:
    clock = VirtualClock()
    store, end = MemoryStore(clock), clock.now() + timedelta(seconds=30)
    assert await store.leases.acquire(RUN, "ada", 30) == Lease(RUN, "ada", end, 30)
    clock.advance(29.999)
    assert await store.leases.holder(RUN) is not None
    clock.advance(0.001)
    assert await store.leases.holder(RUN) is None


async def test_a_lease_without_time_is_an_error_in_words() -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        await MemoryStore().leases.acquire(RUN, "ada", 0)
    assert str(caught.value) == "MemoryLeases.seconds is 0. Use a positive number."


async def test_hints_are_heard_in_the_order_they_came_each_run_once() -> None:
    wake_ups = MemoryWakeUps()
    async with wake_ups.subscribe() as listener:
        for run_id in ("b", "a", "b", "c", "a"):
            await wake_ups.notify(run_id)
        assert [await listener.next() for _ in range(3)] == ["b", "a", "c"]
        more = asyncio.create_task(listener.next())
        await asyncio.sleep(0)
        assert not more.done()
        more.cancel()


async def test_a_listener_has_room_for_so_many_runs_and_what_does_not_fit_is_dropped() -> None:
    wake_ups = MemoryWakeUps(capacity=2)
    async with wake_ups.subscribe() as listener:
        for run_id in ("a", "b", "dropped"):
            await wake_ups.notify(run_id)
        assert await listener.next() == "a"
        await wake_ups.notify("c")
        assert [await listener.next(), await listener.next()] == ["b", "c"]


async def test_several_who_wait_in_one_subscription_share_its_hints() -> None:
    wake_ups = MemoryWakeUps()
    async with wake_ups.subscribe() as listener:
        waiting = [asyncio.create_task(listener.next()) for _ in range(2)]
        await asyncio.sleep(0)
        for run_id in ("a", "b"):
            await wake_ups.notify(run_id)
        assert sorted(await asyncio.gather(*waiting)) == ["a", "b"]


async def test_hints_from_before_and_after_the_block_are_not_heard() -> None:
    wake_ups = MemoryWakeUps()
    await wake_ups.notify("before")
    async with wake_ups.subscribe() as listener:
        await wake_ups.notify("a")
    await wake_ups.notify("after")
    async with wake_ups.subscribe() as again:
        await wake_ups.notify("b")
        assert [await listener.next(), await again.next()] == ["a", "b"]


def test_a_listener_has_room() -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        MemoryWakeUps(capacity=0)
    assert str(caught.value) == "MemoryWakeUps.capacity is 0. Use a positive number."
