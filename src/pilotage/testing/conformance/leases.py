"""The promises of the lease port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.samples import FOREIGN_RUN, OTHER_RUN, RUN

PassTime = Callable[[float], Awaitable[None]]

LONG = 3600.0


class LeasesConformance:
    """What every lease port must do.

    Fixtures to give: `leases`, over an empty store; `pass_time`, an async function after which the store's clock has
    gone on by that many seconds; and, where a store can be opened twice, `second_leases`: another adapter over the
    same store, as a second process has it. Where time can only be waited for, set `short` to less.
    """

    pytestmark = pytest.mark.asyncio

    short = 30.0
    """How long the leases last that a test lets run out."""

    @pytest.fixture
    def second_leases(self, leases: IAgentLeases) -> IAgentLeases:
        """Another adapter over the store of `leases`; where there is no such thing, `leases` itself."""
        return leases

    async def test_nobody_has_the_lease_of_a_run_that_nobody_asked_for(self, leases: IAgentLeases) -> None:
        assert await leases.holder(RUN) is None

    async def test_a_lease_says_what_was_granted(
        self, leases: IAgentLeases, second_leases: IAgentLeases
    ) -> None:
        lease = await leases.acquire(RUN, "ada", LONG)
        assert lease is not None
        assert (lease.run, lease.owner, lease.granted_seconds) == (RUN, "ada", LONG)
        assert lease.expires_at.utcoffset() is not None
        assert await leases.holder(RUN) == lease
        assert await second_leases.holder(RUN) == lease

    async def test_another_owner_does_not_get_it(
        self, leases: IAgentLeases, second_leases: IAgentLeases
    ) -> None:
        lease = await leases.acquire(RUN, "ada", LONG)
        assert await second_leases.acquire(RUN, "bob", LONG) is None
        assert await leases.holder(RUN) == lease

    async def test_of_many_owners_at_once_exactly_one_gets_it(
        self, leases: IAgentLeases, second_leases: IAgentLeases
    ) -> None:
        ports = [leases, second_leases] * 5
        owners = [f"owner-{number}" for number in range(len(ports))]
        answers = await asyncio.gather(
            *(port.acquire(RUN, owner, LONG) for port, owner in zip(ports, owners, strict=True))
        )
        granted = [answer for answer in answers if answer is not None]
        assert granted == [await leases.holder(RUN)]

    async def test_who_has_it_gets_it_anew_from_now_on(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        first = await leases.acquire(RUN, "ada", LONG)
        await pass_time(self.short)
        again = await leases.acquire(RUN, "ada", LONG)
        assert _span(first, again) >= self.short
        assert await leases.holder(RUN) == again

    async def test_a_renewed_lease_lasts_from_now_on(self, leases: IAgentLeases, pass_time: PassTime) -> None:
        first = await leases.acquire(RUN, "ada", LONG)
        await pass_time(self.short)
        renewed = await leases.renew(RUN, "ada", LONG)
        assert _span(first, renewed) >= self.short
        assert await leases.holder(RUN) == renewed

    async def test_the_last_word_counts_even_if_it_is_shorter(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", LONG)
        shorter = await leases.renew(RUN, "ada", self.short)
        assert shorter is not None
        assert shorter.granted_seconds == self.short
        await pass_time(self.short)
        assert await leases.holder(RUN) is None

    async def test_a_lease_runs_out_by_the_clock_of_the_store(
        self, leases: IAgentLeases, second_leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        await pass_time(self.short)
        assert await leases.holder(RUN) is None
        assert await second_leases.holder(RUN) is None
        taken = await second_leases.acquire(RUN, "bob", LONG)
        assert taken is not None
        assert await leases.holder(RUN) == taken

    async def test_who_comes_too_late_cannot_renew_but_may_ask_again(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        await pass_time(self.short)
        assert await leases.renew(RUN, "ada", LONG) is None
        assert await leases.holder(RUN) is None
        assert await leases.acquire(RUN, "ada", LONG) is not None

    async def test_who_was_replaced_can_neither_renew_nor_release(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        await pass_time(self.short)
        taken = await leases.acquire(RUN, "bob", LONG)
        assert await leases.acquire(RUN, "ada", LONG) is None
        assert await leases.renew(RUN, "ada", LONG) is None
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) == taken

    async def test_nobody_renews_what_was_never_granted(self, leases: IAgentLeases) -> None:
        assert await leases.renew(RUN, "ada", LONG) is None
        assert await leases.holder(RUN) is None

    async def test_a_released_lease_is_free_at_once(
        self, leases: IAgentLeases, second_leases: IAgentLeases
    ) -> None:
        await leases.acquire(RUN, "ada", LONG)
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) is None
        assert await second_leases.acquire(RUN, "bob", LONG) is not None

    async def test_releasing_again_does_no_harm(self, leases: IAgentLeases) -> None:
        await leases.release(RUN, "ada")
        await leases.acquire(RUN, "ada", LONG)
        await leases.release(RUN, "ada")
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) is None

    async def test_each_run_of_each_tenant_has_a_lease_of_its_own(self, leases: IAgentLeases) -> None:
        for run, owner in ((RUN, "ada"), (OTHER_RUN, "bob"), (FOREIGN_RUN, "cleo")):
            assert await leases.acquire(run, owner, LONG) is not None
        await leases.release(RUN, "ada")
        holders = [await leases.holder(run) for run in (RUN, OTHER_RUN, FOREIGN_RUN)]
        assert [each and each.owner for each in holders] == [None, "bob", "cleo"]

    @pytest.mark.parametrize(
        "asked", [(" ", LONG), ("ada", 0.0), ("ada", -1.0), ("ada", float("inf"))], ids=repr
    )
    async def test_a_lease_has_an_owner_and_an_end(
        self, leases: IAgentLeases, asked: tuple[str, float]
    ) -> None:
        with pytest.raises(AgentDefinitionError):
            await leases.acquire(RUN, *asked)
        with pytest.raises(AgentDefinitionError):
            await leases.renew(RUN, *asked)
        assert await leases.holder(RUN) is None


def _span(earlier: Lease | None, later: Lease | None) -> float:
    """How many seconds lie between the ends of two leases."""
    assert earlier is not None
    assert later is not None
    return (later.expires_at - earlier.expires_at).total_seconds()
