"""Leases that are renewed together: a request that fails, is lost, or meets one lease that is locked or gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from sqlalchemy import text

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.runtime.journal.lease import HeldLease, Leasing
from pilotage.testing import VirtualClock
from pilotage.testing.conformance.kit import LONG, PassTime

RUNS = [RunKey("default", f"run-{number}") for number in range(5)]
SECONDS = 30.0


class Cut(IAgentLeases):
    """Leases of a store whose requests for several runs are cut off, before or after they were carried out."""

    def __init__(self, leases: IAgentLeases) -> None:
        self.leases = leases
        self.cut: str | None = None
        self.damaged: RunKey | None = None

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return await self.leases.acquire(run, owner, seconds)

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        if run == self.damaged:
            raise OSError("this one cannot be renewed")
        return await self.leases.renew(run, owner, seconds)

    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> Collection[RunKey]:
        if self.cut == "before":
            raise OSError("the request was lost")
        left = await self.leases.renew_all(runs, owner, seconds)
        if self.cut == "after":
            raise OSError("the reply was lost")
        return left

    async def release(self, run: RunKey, owner: str) -> None:
        await self.leases.release(run, owner)

    async def holder(self, run: RunKey) -> Lease | None:
        return await self.leases.holder(run)


class Owner:
    """A process that holds leases of a store; its clock goes with that of the store."""

    def __init__(self, store: SqlAlchemyStore, pass_time: PassTime) -> None:
        self.clock, self._pass_time = VirtualClock(), pass_time
        self.leases = Cut(store.leases)
        self.leasing = Leasing(self.leases, "me", self.clock)
        self.held = [HeldLease(self.leasing, run) for run in RUNS]

    async def take(self) -> None:
        for lease in self.held:
            await lease.acquire()

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self._pass_time(seconds)
        await self.leasing.renew(self.held)

    async def leave(self) -> None:
        for lease in self.held:
            await lease.release()
        await self.leasing.renewer.stop_if_idle()

    async def holders(self) -> list[str | None]:
        found = [await self.leases.holder(run) for run in RUNS]
        return [lease.owner if lease else None for lease in found]


@pytest.mark.parametrize("cut", [None, "before", "after"])
@pytest.mark.parametrize("damaged", [None, 0, 3])
async def test_a_request_that_is_lost_loses_no_lease_but_that_which_cannot_be_renewed(
    store: SqlAlchemyStore, let_time_pass: PassTime, cut: str | None, damaged: int | None
) -> None:
    owner = Owner(store, let_time_pass)
    await owner.take()
    owner.leases.cut = cut
    if damaged is not None:
        owner.leases.damaged = RUNS[damaged]
        await store.leases.release(RUNS[damaged], "me")
    for _ in range(4):
        await owner.wait(SECONDS / 3)
    lost = {damaged} - {None}
    assert await owner.holders() == [None if place in lost else "me" for place in range(5)]
    # Of a lease that was not renewed its owner is not sure, so it begins no effect.
    assert [lease.is_certain for lease in owner.held] == [place not in lost for place in range(5)]
    await owner.leave()


async def test_a_run_that_another_process_took_is_left_to_it_and_the_others_are_renewed(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore, let_time_pass: PassTime
) -> None:
    owner = Owner(store, let_time_pass)
    await owner.take()
    await store.leases.release(RUNS[2], "me")
    taken = await second_store.leases.acquire(RUNS[2], "another", LONG)
    for _ in range(3):
        await owner.wait(SECONDS / 3)
    assert await owner.holders() == ["me", "me", "another", "me", "me"]
    assert await second_store.leases.holder(RUNS[2]) == taken
    assert [lease.is_certain for lease in owner.held] == [True, True, False, True, True]
    await owner.leave()
    assert await second_store.leases.holder(RUNS[2]) == taken


async def test_a_lease_that_a_commit_has_locked_keeps_no_other_one_waiting(store: SqlAlchemyStore) -> None:
    if store.database.dialect.name == "sqlite":
        pytest.skip("a file has one writer at a time")
    for run in RUNS:
        await store.leases.acquire(run, "me", SECONDS)
    with store.database.engines.writing.begin() as commit:
        commit.execute(text("UPDATE pilotage_leases SET owner = owner WHERE run_id = 'run-2'"))
        async with asyncio.timeout(120):
            left = await store.leases.renew_all(RUNS, "me", LONG)
    assert set(left) == {RUNS[2]}
    assert not await store.leases.renew_all(RUNS, "me", LONG)


async def test_renewal_and_commits_that_end_runs_do_not_block_each_other(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    """They lock leases in different orders: one that waited for the other would be a deadlock."""
    for run in RUNS:
        await store.leases.acquire(run, "me", LONG)

    async def release(places: Collection[int]) -> None:
        for place in places:
            await second_store.leases.release(RUNS[place], "another")

    async with asyncio.timeout(120):
        for _ in range(10):
            await asyncio.gather(
                store.leases.renew_all(RUNS, "me", LONG),
                second_store.leases.renew_all(RUNS[::-1], "me", LONG),
                store.leases.release_all("another"),
                release(range(4, -1, -1)),
            )
    assert not await store.leases.renew_all(RUNS, "me", LONG)
