"""What is special to leases in memory; their promises are in the conformance kit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pilotage.agent.ports.leases import Lease
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.samples import RUN
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
