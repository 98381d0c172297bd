"""The promises of the lease port."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    LONG,
    OTHER_RUN,
    RUN,
    PassTime,
    TimedKit,
)


class LeasesConformance(TimedKit):
    """Conformance tests of every lease port.

    The first rule: an owner who does not get the lease does not move the holder's expiry. An `INSERT ... ON CONFLICT
    UPDATE` whose columns are assigned one after the other, as in MySQL, breaks it without an error.

    Fixtures to give: `leases`, over an empty store; `pass_time`, an async function after which the store's clock has
    gone on by that many seconds; and, where a store can be opened twice, `second_leases`: another adapter over the
    same store, as a second process has it. Where time can only be waited for, set `short` to less. Where the time of
    day of the store's machine can be set, `set_time_of_day`: an async function that sets it by that many seconds
    forward, or back, while no time passes; without it those tests are skipped.
    """

    @pytest.fixture
    def second_leases(self, leases: IAgentLeases) -> IAgentLeases:
        return leases

    @pytest.fixture
    def set_time_of_day(self) -> PassTime:
        pytest.skip("the adapter has no set_time_of_day")

    async def test_a_run_without_a_request_has_no_lease(self, leases: IAgentLeases) -> None:
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
        assert await second_leases.acquire(RUN, "bob", 2 * LONG) is None
        # Neither the owner nor the expiry has changed.
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
        assert span(first, again) >= self.short
        assert await leases.holder(RUN) == again

    async def test_a_renewed_lease_lasts_from_now_on(self, leases: IAgentLeases, pass_time: PassTime) -> None:
        first = await leases.acquire(RUN, "ada", LONG)
        await pass_time(self.short)
        renewed = await leases.renew(RUN, "ada", LONG)
        assert span(first, renewed) >= self.short
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

    @pytest.mark.parametrize("seconds", [-LONG, -LONG * 24 * 365])
    async def test_a_time_of_day_that_is_set_back_strands_no_run(
        self,
        leases: IAgentLeases,
        second_leases: IAgentLeases,
        pass_time: PassTime,
        set_time_of_day: PassTime,
        seconds: float,
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        await set_time_of_day(seconds)
        await pass_time(2 * self.short)
        assert await leases.holder(RUN) is None
        assert await second_leases.acquire(RUN, "bob", LONG) is not None

    async def test_a_time_of_day_that_is_set_back_a_little_ends_no_lease(
        self, leases: IAgentLeases, second_leases: IAgentLeases, set_time_of_day: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        await set_time_of_day(-self.short / 2)
        assert await second_leases.acquire(RUN, "bob", LONG) is None
        assert await leases.renew(RUN, "ada", self.short) is not None

    async def test_an_owner_gets_its_lease_again_however_the_time_of_day_was_set(
        self, leases: IAgentLeases, set_time_of_day: PassTime
    ) -> None:
        await leases.acquire(RUN, "ada", self.short)
        for seconds in (LONG, -3 * LONG):
            await set_time_of_day(seconds)
            assert await leases.acquire(RUN, "ada", self.short) is not None
            assert await leases.renew(RUN, "ada", self.short) is not None

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

    async def test_a_lease_that_was_not_granted_is_not_renewed(self, leases: IAgentLeases) -> None:
        assert await leases.renew(RUN, "ada", LONG) is None
        assert await leases.holder(RUN) is None

    async def test_leases_that_are_renewed_together_last_from_now_on(
        self, leases: IAgentLeases, second_leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        runs = (RUN, OTHER_RUN, FOREIGN_RUN)
        first = [await leases.acquire(run, "ada", LONG) for run in runs]
        await pass_time(self.short)
        assert not await second_leases.renew_all(runs, "ada", LONG)
        for lease, run in zip(first, runs, strict=True):
            renewed = await leases.holder(run)
            assert span(lease, renewed) >= self.short
            assert renewed is not None
            assert (renewed.run, renewed.owner, renewed.granted_seconds) == (run, "ada", LONG)

    async def test_together_only_the_named_leases_of_the_owner_are_renewed(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        free, unnamed = RunKey(RUN.tenant_id, "run-3"), RunKey(RUN.tenant_id, "run-4")
        await leases.acquire(RUN, "ada", LONG)
        others = [await leases.acquire(OTHER_RUN, "bob", LONG), await leases.acquire(unnamed, "ada", LONG)]
        await leases.acquire(FOREIGN_RUN, "ada", self.short)
        await pass_time(self.short)
        asked = (OTHER_RUN, FOREIGN_RUN, RUN, free)
        assert set(await leases.renew_all(asked, "ada", LONG)) == {OTHER_RUN, FOREIGN_RUN, free}
        assert await leases.holder(FOREIGN_RUN) is None
        assert await leases.holder(free) is None
        assert [await leases.holder(OTHER_RUN), await leases.holder(unnamed)] == others

    async def test_renewed_together_the_last_word_counts(
        self, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        for run in (RUN, OTHER_RUN):
            await leases.acquire(run, "ada", LONG)
        assert not await leases.renew_all([RUN, OTHER_RUN], "ada", self.short)
        await pass_time(self.short)
        assert await leases.holder(RUN) is None
        assert set(await leases.renew_all([RUN, OTHER_RUN], "ada", LONG)) == {RUN, OTHER_RUN}
        assert not await leases.renew_all([], "ada", LONG)

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

    async def test_the_owners_are_those_of_leases_that_hold(
        self, leases: IAgentLeases, second_leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        _need_owners(leases)
        assert await leases.owners() == frozenset()
        await leases.acquire(RUN, "ada", LONG)
        await leases.acquire(OTHER_RUN, "ada", LONG)
        await leases.acquire(FOREIGN_RUN, "bob", self.short)
        assert await second_leases.owners() == {"ada", "bob"}
        await pass_time(self.short)
        assert await leases.owners() == {"ada"}

    async def test_all_leases_of_one_owner_are_released_and_no_others(
        self, leases: IAgentLeases, second_leases: IAgentLeases
    ) -> None:
        _need_owners(leases)
        await leases.acquire(RUN, "ada", LONG)
        await leases.acquire(FOREIGN_RUN, "ada", LONG)
        await leases.acquire(OTHER_RUN, "bob", LONG)
        await second_leases.release_all("ada")
        await second_leases.release_all("cleo")
        holders = [await leases.holder(run) for run in (RUN, OTHER_RUN, FOREIGN_RUN)]
        assert [each and each.owner for each in holders] == [None, "bob", None]

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
        with pytest.raises(AgentDefinitionError):
            await leases.renew_all([RUN], *asked)
        assert await leases.holder(RUN) is None


def _need_owners(leases: IAgentLeases) -> None:
    if type(leases).owners is IAgentLeases.owners:
        pytest.skip("the adapter cannot list owners")


def span(earlier: Lease | None, later: Lease | None) -> float:
    """Return how many seconds lie between the ends of two leases."""
    assert earlier is not None
    assert later is not None
    return (later.expires_at - earlier.expires_at).total_seconds()
