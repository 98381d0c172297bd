"""Leases that were claimed and not used go back, unless somebody in this process has come to use them."""

from __future__ import annotations

from pilotage.agent.ports.journal import RunKey
from pilotage.runtime.journal.leasing import Hold, give_back
from pilotage.testing import MemoryStore, VirtualClock

RUN = RunKey("default", "run-1")


async def test_a_claimed_lease_goes_back_unless_somebody_here_holds_it_meanwhile() -> None:
    clock = VirtualClock()
    leases = MemoryStore(clock).leases
    await leases.acquire(RUN, "me", 30.0)
    hold = Hold(leases, RUN, "me", clock)
    await hold.take()
    await give_back(leases, RUN, "me")
    assert await leases.holder(RUN) is not None
    await hold.let_go()
    assert await leases.holder(RUN) is None
    await leases.acquire(RUN, "me", 30.0)
    await give_back(leases, RUN, "me")
    assert await leases.holder(RUN) is None


async def test_the_lease_of_another_process_stays_where_it_is() -> None:
    leases = MemoryStore(VirtualClock()).leases
    lease = await leases.acquire(RUN, "another", 30.0)
    await give_back(leases, RUN, "me")
    assert await leases.holder(RUN) == lease
