"""Holding a run: leases are kept alive, go back when they are let go, and are gone when the run has ended."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.ports.leases import Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.runtime.journal.lease import HeldLease, Leasing, release_unused
from pilotage.testing import MemoryStore, VirtualClock
from pilotage.testing.coordination import MemoryLeases

RUN = RunKey("default", "run-1")


async def test_a_claimed_lease_goes_back_unless_somebody_here_holds_it_meanwhile() -> None:
    clock = VirtualClock()
    leases = MemoryStore(clock).leases
    await leases.acquire(RUN, "me", 30.0)
    hold = HeldLease(Leasing(leases, "me", clock), RUN)
    await hold.acquire()
    await release_unused(leases, RUN, "me")
    assert await leases.holder(RUN) is not None
    await hold.release()
    assert await leases.holder(RUN) is None
    await leases.acquire(RUN, "me", 30.0)
    await release_unused(leases, RUN, "me")
    assert await leases.holder(RUN) is None


async def test_the_lease_of_another_process_stays_where_it_is() -> None:
    leases = MemoryStore(VirtualClock()).leases
    lease = await leases.acquire(RUN, "another", 30.0)
    await release_unused(leases, RUN, "me")
    assert await leases.holder(RUN) == lease


class Watched(MemoryLeases):
    """Leases that know how often they were released, and may keep whoever asks waiting."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.tables)
        self.releases = 0
        self.is_silent = False

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease = await super().acquire(run, owner, seconds)
        if self.is_silent:
            await asyncio.Event().wait()
        return lease

    async def release(self, run: RunKey, owner: str) -> None:
        self.releases += 1
        await super().release(run, owner)


class Place:
    """A store, its clock, and what one process holds runs with."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.leases = Watched(MemoryStore(self.clock))
        self.leasing = Leasing(self.leases, "me", self.clock)

    async def held(self) -> HeldLease:
        hold = HeldLease(self.leasing, RUN)
        await hold.acquire()
        return hold


async def test_the_lease_of_a_run_that_has_ended_need_not_go_back() -> None:
    place = Place()
    hold = await place.held()
    assert hold.is_held
    hold.end()
    assert not hold.is_held
    await hold.release()
    assert place.leases.releases == 0


async def test_with_company_the_last_one_gives_it_back_even_if_the_run_has_ended() -> None:
    place = Place()
    first, second = await place.held(), await place.held()
    first.end()
    assert first.is_held
    await first.release()
    assert await place.leases.holder(RUN) is not None
    await second.release()
    assert await place.leases.holder(RUN) is None


async def test_who_had_company_gives_it_back_even_if_the_run_has_ended() -> None:
    place = Place()
    first, second = await place.held(), await place.held()
    await second.release()
    first.end()
    assert first.is_held
    await first.release()
    assert await place.leases.holder(RUN) is None


async def test_who_may_have_taken_it_anew_gives_it_back_even_if_the_run_has_ended() -> None:
    place = Place()
    hold = await place.held()
    place.clock.advance(100)
    place.leases.is_silent = True
    asking = asyncio.ensure_future(hold.renew())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    hold.end()
    assert hold.is_held
    await hold.release()
    assert await place.leases.holder(RUN) is None


async def test_a_lease_that_a_commit_takes_counts_from_before_the_commit() -> None:
    place = Place()
    hold = HeldLease(place.leasing, RUN)
    seconds = hold.request.seconds

    async def slow_commit() -> None:
        place.clock.advance(seconds / 2)

    await hold.acquire_with(slow_commit())
    assert hold.is_certain
    place.clock.advance(seconds / 6)
    assert not hold.is_certain
    await hold.release()


async def test_a_commit_that_fails_takes_no_lease() -> None:
    place = Place()
    hold = HeldLease(place.leasing, RUN)

    async def failing_commit() -> None:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        await hold.acquire_with(failing_commit())
    assert not hold.is_held
    assert not hold.is_certain


async def test_a_late_reply_to_an_older_request_makes_nobody_less_certain() -> None:
    place = Place()
    hold, asked = await place.held(), place.clock.monotonic()
    place.clock.advance(15)
    await hold.renew()
    hold.renewed(asked)
    place.clock.advance(10)
    assert hold.is_certain
    place.clock.advance(10)
    assert not hold.is_certain
    await hold.release()
