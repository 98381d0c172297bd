"""Leases in an SQLite file are measured by the time since the machine started, whatever the time of day is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.agent.ports.journal import Committed
from pilotage.agent.state import AgentStatus
from pilotage.testing.conformance.kit import RUN, commit_one
from pilotage.testing.conformance.lease_commits import begun, moved
from tests.adapters.sqlalchemy.databases import ClockOfFile, opened

DAY = 86_400.0
AGENT = "shop:Refunds"


class MachineClock(ClockOfFile):
    """The clocks of a machine that a test starts again."""

    up_for: float | None = None

    def monotonic(self) -> float:
        return super().monotonic() if self.up_for is None else self.up_for


def _forward(clock: MachineClock) -> None:
    clock.set_by += timedelta(days=1)


def _back(clock: MachineClock) -> None:
    clock.set_by -= timedelta(days=1)


@pytest.mark.parametrize("set_clock", [_forward, _back])
async def test_a_process_with_another_time_of_day_does_not_take_a_run_that_is_driven(
    sqlite_database: DatabaseSettings, set_clock: Callable[[MachineClock], None]
) -> None:
    ada, bob = MachineClock(), MachineClock()
    set_clock(bob)
    with opened(sqlite_database, ada) as one, opened(sqlite_database, bob) as other:
        assert await commit_one(one.journal, begun(seconds=30)) == Committed(1)
        assert await commit_one(one.journal, moved(AgentStatus.ACTIVE)) == Committed(2)
        assert await other.leases.acquire(RUN, "bob", 30) is None
        assert await other.backlog.claim("bob", 30, 1, agents=[AGENT]) == []
        assert await one.leases.renew(RUN, "ada", 30) is not None


@pytest.mark.parametrize("set_clock", [_forward, _back])
async def test_a_run_of_a_dead_process_is_free_when_its_lease_is_over_by_the_machine(
    sqlite_database: DatabaseSettings, set_clock: Callable[[MachineClock], None]
) -> None:
    clock = MachineClock()
    with opened(sqlite_database, clock) as store:
        await commit_one(store.journal, begun(seconds=30))
        await commit_one(store.journal, moved(AgentStatus.ACTIVE))
        set_clock(clock)
        clock.ahead += timedelta(seconds=29)
        assert await store.backlog.claim("bob", 30, 1, agents=[AGENT]) == []
        clock.ahead += timedelta(seconds=1)
        claimed = await store.backlog.claim("bob", 30, 1, agents=[AGENT])
        assert [(each.run, each.lease.owner) for each in claimed] == [(RUN, "bob")]


@pytest.mark.parametrize(("before", "waits"), [(30 * DAY, False), (95.0, True), (5.0, False)])
async def test_a_lease_from_before_the_machine_was_started_again_delays_a_run_by_two_lengths_at_most(
    sqlite_database: DatabaseSettings, before: float, waits: bool
) -> None:
    clock = MachineClock()
    clock.up_for = before
    with opened(sqlite_database, clock) as store:
        await store.leases.acquire(RUN, "ada", 30)
        clock.up_for = 70.0
        assert (await store.leases.holder(RUN) is not None) is waits
        clock.up_for += 60
        assert await store.leases.acquire(RUN, "bob", 30) is not None
