"""The promises of the lease port, and those that it keeps together with the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    LeaseRequest,
)
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    LONG,
    OTHER_RUN,
    RUN,
    UNSTORABLE,
    PassTime,
    TimedKit,
    claim,
    commit_of,
    commit_one,
    row,
)

ENDED = [status for status in AgentStatus if status.is_terminal]
GOING_ON = [status for status in AgentStatus if not status.is_terminal]


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
            assert _span(lease, renewed) >= self.short
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


def begun(run: RunKey = RUN, owner: str = "ada", seconds: float = LONG) -> JournalCommit:
    """Return the first commit of a run, by its new owner."""
    return replace(commit_of(claim(1, epoch=1), run=run, token=owner), lease=LeaseRequest(owner, seconds))


def moved(status: AgentStatus, run: RunKey = RUN, head: int = 1) -> JournalCommit:
    """Return a commit that puts a run into a status."""
    state = AgentState(run.run_id, "shop:Refunds", status, tenant_id=run.tenant_id)
    return replace(commit_of(row(head + 1), run=run), state=state)


class LeaseCommitConformance(TimedKit):
    """Conformance tests of a journal and its lease port together.

    Fixtures to give: `journal` and `leases` over the same empty store, and `pass_time`, an async function after which
    the store's clock has gone on by that many seconds. Where time can only be waited for, set `short` to less.
    """

    async def test_the_first_commit_of_a_run_takes_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        assert await commit_one(journal, begun()) == Committed(1)
        lease = await leases.holder(RUN)
        assert lease is not None
        assert (lease.run, lease.owner, lease.granted_seconds) == (RUN, "ada", LONG)
        assert await leases.acquire(RUN, "bob", LONG) is None

    async def test_one_that_asks_for_none_takes_none(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, replace(begun(), lease=None))
        assert await leases.holder(RUN) is None

    async def test_it_is_a_lease_like_any_other(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await commit_one(journal, begun(seconds=self.short))
        renewed = await leases.renew(RUN, "ada", self.short)
        assert renewed is not None
        assert await leases.holder(RUN) == renewed
        await pass_time(self.short)
        assert await leases.holder(RUN) is None
        assert await leases.acquire(RUN, "bob", LONG) is not None

    async def test_it_can_be_released(self, journal: IAgentJournal, leases: IAgentLeases) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) is None

    async def test_it_lasts_from_when_it_is_written(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        first = begun()
        before = await leases.acquire(OTHER_RUN, "bob", LONG)
        await pass_time(self.short)
        await commit_one(journal, first)
        assert _span(before, await leases.holder(RUN)) >= self.short

    async def test_the_owner_that_begins_the_run_has_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, begun())
        assert await _owners(leases, RUN) == ["ada"]
        assert await leases.renew(RUN, "bob", LONG) is None

    async def test_of_several_who_begin_a_run_the_one_that_the_journal_chooses_has_it(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        assert await commit_one(journal, begun()) == Committed(1)
        assert await commit_one(journal, begun(owner="bob")) == HeadMoved(1, 1)
        assert await _owners(leases, RUN) == ["ada"]

    async def test_a_commit_that_is_refused_takes_none(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        wrong = replace(begun(), rows=(claim(1, epoch=1), row(2, record=UNSTORABLE)))
        good = begun(OTHER_RUN, "bob")
        refused, committed = await journal.commit([wrong, good])
        assert isinstance(refused, CommitRefused)
        assert committed == Committed(1)
        assert await _owners(leases, RUN, OTHER_RUN) == [None, "bob"]

    async def test_a_commit_that_comes_again_does_not_lengthen_it(
        self, journal: IAgentJournal, leases: IAgentLeases, pass_time: PassTime
    ) -> None:
        await commit_one(journal, begun())
        lease = await leases.holder(RUN)
        await pass_time(self.short)
        assert await commit_one(journal, begun()) == Committed(1)
        assert await leases.holder(RUN) == lease

    async def test_a_commit_that_comes_again_brings_none_back(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        assert await commit_one(journal, begun()) == Committed(1)
        assert await leases.holder(RUN) is None

    @pytest.mark.parametrize("status", ENDED)
    async def test_the_commit_that_ends_a_run_takes_its_lease_away(
        self, journal: IAgentJournal, leases: IAgentLeases, status: AgentStatus
    ) -> None:
        await commit_one(journal, begun())
        assert await commit_one(journal, moved(status)) == Committed(2)
        assert await leases.holder(RUN) is None
        assert await leases.renew(RUN, "ada", LONG) is None

    async def test_the_commit_that_ends_a_run_removes_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, replace(begun(), lease=None))
        await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        assert await leases.holder(RUN) is None

    @pytest.mark.parametrize("status", GOING_ON)
    async def test_a_run_that_has_not_ended_keeps_its_lease(
        self, journal: IAgentJournal, leases: IAgentLeases, status: AgentStatus
    ) -> None:
        await commit_one(journal, begun())
        lease = await leases.holder(RUN)
        assert await commit_one(journal, moved(status)) == Committed(2)
        assert await commit_one(journal, commit_of(row(3))) == Committed(3)
        assert await leases.holder(RUN) == lease

    async def test_an_end_that_comes_too_late_takes_nothing_away(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await leases.release(RUN, "ada")
        taken = await leases.acquire(RUN, "bob", LONG)
        await commit_one(journal, commit_of(claim(2, epoch=2), token="bob"))
        assert await commit_one(journal, moved(AgentStatus.COMPLETED)) == HeadMoved(2, 2)
        assert await leases.holder(RUN) == taken

    async def test_an_end_that_comes_again_takes_nothing_away(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        taken = await leases.acquire(RUN, "bob", LONG)
        assert await commit_one(journal, moved(AgentStatus.COMPLETED)) == Committed(2)
        assert await leases.holder(RUN) == taken

    async def test_a_commit_without_a_state_changes_no_lease_after_the_end(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        await commit_one(journal, begun())
        await commit_one(journal, moved(AgentStatus.COMPLETED))
        taken = await leases.acquire(RUN, "bob", LONG)
        assert await commit_one(journal, commit_of(row(3))) == Committed(3)
        assert await leases.holder(RUN) == taken

    async def test_runs_that_are_committed_together_keep_their_leases_apart(
        self, journal: IAgentJournal, leases: IAgentLeases
    ) -> None:
        runs = (RUN, OTHER_RUN, FOREIGN_RUN)
        await journal.commit([begun(run, owner) for run, owner in zip(runs, "abc", strict=True)])
        assert await _owners(leases, *runs) == ["a", "b", "c"]
        third = RunKey(RUN.tenant_id, "run-3")
        ends = [moved(AgentStatus.FAILED), moved(AgentStatus.ACTIVE, FOREIGN_RUN)]
        assert len(await journal.commit([*ends, begun(third, "d")])) == 3
        assert await _owners(leases, *runs, third) == [None, "b", "c", "d"]


async def _owners(leases: IAgentLeases, *runs: RunKey) -> Sequence[str | None]:
    held = [await leases.holder(run) for run in runs]
    return [None if lease is None else lease.owner for lease in held]


def _span(earlier: Lease | None, later: Lease | None) -> float:
    """Return how many seconds lie between the ends of two leases."""
    assert earlier is not None
    assert later is not None
    return (later.expires_at - earlier.expires_at).total_seconds()
