"""Leases: who holds one is the one who tries, and an effect begins only while it certainly holds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    WAITING,
    Bureau,
    Counter,
    hired,
    nobody_is_left,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Worker

from pilotage.agent.ports.journal import CommitOutcome, JournalCommit
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import RunConflictError
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StoreUnavailable
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FaultyJournal, MemoryStore, StopBefore

LEASE_SECONDS = 30


class Busy:
    """A run in the middle of something that is only read, with something to pay behind it."""

    def __init__(self) -> None:
        self.bureau, self.agent = Bureau(), hired()
        self.counter = Counter(self.bureau.world)

    async def program(self, worker: Worker) -> object:
        await self.counter.read("a")
        return (await worker.desk.pay(Decimal(1))).number

    async def other(self, worker: Worker) -> object:
        """The same program as another process has it: there the reading takes no time."""
        counter = Counter(self.bureau.world)
        counter.may_end["read a"].set()
        await counter.read("a")
        return (await worker.desk.pay(Decimal(1))).number

    async def holder(self, run_id: str) -> Lease | None:
        return await self.bureau.store.leases.holder(RunKey("default", run_id))


async def test_nobody_else_resumes_a_run_while_its_lease_holds() -> None:
    story = Busy()
    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, story.other) as other,
    ):
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        with pytest.raises(RunConflictError, match="driven by another process"):
            await other.resume(handle.id)
        story.counter.may_end["read a"].set()
        result = await handle.result()
    assert (triple(result.state), story.bureau.world.done) == (COMPLETED, ["read a", "pay 1"])


async def test_a_process_that_stops_as_soon_as_a_run_began_gives_its_lease_back() -> None:
    story = Busy()
    async with story.bureau.process(story.agent, story.program, story.counter) as owner:
        handle = await owner.start(story.agent, "A-17")
    assert await story.holder(handle.id) is None
    async with story.bureau.process(story.agent, story.other) as other:
        result = await (await other.resume(handle.id)).result()
    assert triple(result.state) == COMPLETED


async def test_a_lease_that_is_kept_alive_holds_as_long_as_the_run() -> None:
    story = Busy()
    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, story.other) as other,
    ):
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        for _ in range(10):
            story.bureau.clock.advance(10)
            for _ in range(10):
                await asyncio.sleep(0)
        with pytest.raises(RunConflictError):
            await other.resume(handle.id)
        story.counter.may_end["read a"].set()
        assert triple((await handle.result()).state) == COMPLETED


async def test_a_run_of_a_dead_process_is_taken_over_when_its_lease_has_run_out() -> None:
    story = Busy()
    story.counter.may_end["read a"].set()
    run_id = await story.bureau.dead_process(story.agent, story.program, story.counter, fault=StopBefore(2))
    story.bureau.store.tables.leases[RunKey("default", run_id)] = Lease(
        RunKey("default", run_id), "the dead", story.bureau.clock.now().replace(year=2100), 30.0
    )
    async with story.bureau.process(story.agent, story.other) as runs:
        with pytest.raises(RunConflictError):
            await runs.resume(run_id)
        del story.bureau.store.tables.leases[RunKey("default", run_id)]
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert story.bureau.world.done.count("pay 1") == 1


async def test_a_holder_that_was_frozen_and_lost_its_run_begins_nothing_more() -> None:
    story = Busy()
    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, story.other) as other,
    ):
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        story.bureau.clock.advance(LEASE_SECONDS + 1)
        taken = await resumed(other, handle.id)
        story.counter.may_end["read a"].set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
    assert triple(taken.state) == COMPLETED
    assert story.bureau.world.done.count("pay 1") == 1


class Frozen(IAgentLeases):
    """Leases as a frozen process has them: nothing is renewed while it is frozen."""

    def __init__(self, leases: IAgentLeases) -> None:
        self.leases = leases
        self.is_frozen = False
        self.is_gone = False

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        self._check()
        return await self.leases.acquire(run, owner, seconds)

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        self._check()
        return await self.leases.renew(run, owner, seconds)

    async def release(self, run: RunKey, owner: str) -> None:
        self._check()
        await self.leases.release(run, owner)

    async def holder(self, run: RunKey) -> Lease | None:
        return await self.leases.holder(run)

    def _check(self) -> None:
        if self.is_gone:
            raise OSError("the store does not answer")


class Together(Frozen):
    """Leases that know how they were renewed: together, or one by one. Some requests fail."""

    def __init__(self, leases: IAgentLeases) -> None:
        super().__init__(leases)
        self.together, self.alone = list[int](), list[str]()
        self.fails_together: Exception | None = None
        self.fails_alone: str | None = None

    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> Collection[RunKey]:
        self.together.append(len(runs))
        if self.fails_together is not None:
            raise self.fails_together
        return await self.leases.renew_all(runs, owner, seconds)

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        self.alone.append(run.run_id)
        if run.run_id == self.fails_alone:
            raise RuntimeError("this one cannot be renewed")
        return await super().renew(run, owner, seconds)


async def started_together(story: Busy, runs: AgentRuns, count: int) -> list[RunHandle]:
    handles = [await runs.start(story.agent, "A-17") for _ in range(count)]
    for _ in range(50):
        await asyncio.sleep(0)
    return handles


async def test_the_leases_of_all_runs_of_a_process_are_renewed_by_one_request() -> None:
    story = Busy()
    leases = story.bureau.store.leases = Together(story.bureau.store.leases)  # type: ignore[assignment]
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handles = await started_together(story, runs, 5)
        for _ in range(4):
            story.bureau.clock.advance(LEASE_SECONDS / 3)
            for _ in range(20):
                await asyncio.sleep(0)
        assert (leases.together, leases.alone) == ([5] * 4, [])  # type: ignore[attr-defined]
        assert None not in [await story.holder(handle.id) for handle in handles]
        story.counter.may_end["read a"].set()
        assert [triple((await handle.result()).state) for handle in handles] == [COMPLETED] * 5


@pytest.mark.parametrize("error", [OSError("away"), RuntimeError("one of them is damaged")], ids=repr)
async def test_a_lease_that_cannot_be_renewed_takes_no_other_one_along(error: Exception) -> None:
    story = Busy()
    leases = story.bureau.store.leases = Together(story.bureau.store.leases)  # type: ignore[assignment]
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handles = await started_together(story, runs, 4)
        leases.fails_together, leases.fails_alone = error, handles[1].id  # type: ignore[attr-defined]
        for _ in range(4):
            story.bureau.clock.advance(LEASE_SECONDS / 3)
            for _ in range(20):
                await asyncio.sleep(0)
        held = [await story.holder(handle.id) is not None for handle in handles]
        assert held == [True, False, True, True]
        leases.fails_together = leases.fails_alone = None  # type: ignore[attr-defined]
        story.counter.may_end["read a"].set()
        assert [triple((await handle.result()).state) for handle in handles] == [COMPLETED] * 4


async def test_a_run_that_another_process_took_is_not_renewed_with_the_others() -> None:
    story = Busy()
    story.bureau.store.leases = Together(story.bureau.store.leases)  # type: ignore[assignment]
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handles = await started_together(story, runs, 3)
        lost = RunKey("default", handles[1].id)
        tables = story.bureau.store.tables
        tables.leases[lost] = replace(tables.leases[lost], owner="another")
        for _ in range(2):
            story.bureau.clock.advance(LEASE_SECONDS / 3)
            for _ in range(20):
                await asyncio.sleep(0)
        holders = [await story.holder(handle.id) for handle in handles]
        assert [holder and holder.owner == "another" for holder in holders] == [False, True, False]
        story.counter.may_end["read a"].set()
        assert triple((await handles[0].result()).state) == COMPLETED
        with pytest.raises(RunOwnershipLost):
            await handles[1].result()
    assert story.bureau.world.done.count("pay 1") == 2


async def test_an_effect_does_not_begin_while_nobody_can_say_who_has_the_run() -> None:
    story = Busy()
    frozen = Frozen(story.bureau.store.leases)
    story.bureau.store.leases = frozen  # type: ignore[assignment]
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        frozen.is_gone = True
        story.bureau.clock.advance(LEASE_SECONDS - 5)
        story.counter.may_end["read a"].set()
        with pytest.raises(StoreUnavailable, match="its lease cannot be renewed"):
            await handle.result()
        frozen.is_gone = False
    assert "pay 1" not in story.bureau.world.done


async def test_a_holder_that_was_frozen_and_not_missed_goes_on_behind_a_new_lease() -> None:
    story = Busy()
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        story.bureau.clock.advance(10 * LEASE_SECONDS)
        story.counter.may_end["read a"].set()
        result = await handle.result()
        rows = await story.bureau.rows(handle.id)
    assert (triple(result.state), story.bureau.world.done) == (COMPLETED, ["read a", "pay 1"])
    assert any(row.view == {"still_claimed": 1} for row in rows)


async def test_a_machine_that_was_suspended_begins_no_effect_before_its_lease_is_renewed() -> None:
    story = Busy()
    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, story.other) as other,
    ):
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        # No timer of this process has fired: only the clock shows that its lease is over.
        story.bureau.clock.suspend(LEASE_SECONDS + 1)
        assert await story.holder(handle.id) is None
        taken = await resumed(other, handle.id)
        story.counter.may_end["read a"].set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
    assert triple(taken.state) == COMPLETED
    assert story.bureau.world.done.count("pay 1") == 1


@pytest.mark.parametrize("seconds", [-86_400, 86_400])
async def test_setting_the_time_of_day_takes_no_run_away_and_strands_none(seconds: float) -> None:
    story = Busy()
    async with story.bureau.process(story.agent, story.program, story.counter) as owner:
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        story.bureau.clock.set_time_of_day(seconds)
        async with story.bureau.process(story.agent, story.other) as other:
            with pytest.raises(RunConflictError):
                await other.resume(handle.id)
            story.bureau.clock.suspend(LEASE_SECONDS)
            assert triple((await resumed(other, handle.id)).state) == COMPLETED
    assert story.bureau.world.done.count("pay 1") == 1


async def test_the_lease_is_given_back_at_a_pause_at_the_end_and_when_the_process_stops() -> None:
    story = Busy()

    async def gated(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with story.bureau.process(story.agent, gated) as runs:
        waiting = await started(runs, story.agent)
        assert triple(waiting.state) == WAITING
        assert await story.holder(waiting.state.id) is None
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
        assert await story.holder(waiting.state.id) is None
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        assert await story.holder(handle.id) is not None
    assert await story.holder(handle.id) is None
    assert nobody_is_left()


async def test_the_lease_of_a_live_run_outlives_a_start_that_only_attaches_to_it() -> None:
    story = Busy()
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17", id="mine")
        await story.counter.begun["read a"].wait()
        again = await asyncio.gather(*(runs.start(story.agent, "A-17", id="mine") for _ in range(5)))
        assert {each.id for each in again} == {handle.id}
        assert await story.holder(handle.id) is not None
        story.counter.may_end["read a"].set()
        assert triple((await handle.result()).state) == COMPLETED


async def test_coming_back_right_after_a_pause_keeps_the_new_lease() -> None:
    """The reader of the events hears of the pause before the attempt has given its lease back."""
    story = Busy()

    async def gated(worker: Worker) -> object:
        number = (await worker.desk.refund(Decimal(1))).number
        await story.counter.read("a")
        return number

    async with story.bureau.process(story.agent, gated, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        _ = [event async for event in handle.events()]
        (question,) = await runs.questions(handle.id)
        await runs.approve(question.id)
        again = await runs.resume(handle.id)
        await story.counter.begun["read a"].wait()
        await handle.result()
        assert await story.holder(handle.id) is not None
        story.counter.may_end["read a"].set()
        assert triple((await again.result()).state) == COMPLETED
        assert await story.holder(handle.id) is None


async def test_cancelling_a_run_that_another_process_has_taken_is_no_crash() -> None:
    story = Busy()
    slow = Counter(story.bureau.world)

    async def elsewhere(worker: Worker) -> object:
        return await slow.read("a")

    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, elsewhere, slow) as other,
    ):
        handle = await owner.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        story.bureau.clock.advance(LEASE_SECONDS + 1)
        taken = await other.resume(handle.id)
        await slow.begun["read a"].wait()
        with pytest.raises(RunConflictError):
            await asyncio.wait_for(owner.cancel(handle.id), 120)
        assert await other.cancel(handle.id)
        assert (await taken.result()).status == "cancelled"


class Quiet(Frozen):
    """Leases that know what they were asked for."""

    def __init__(self, leases: IAgentLeases) -> None:
        super().__init__(leases)
        self.asked: list[str] = []

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        self.asked.append("acquire")
        return await super().acquire(run, owner, seconds)

    async def release(self, run: RunKey, owner: str) -> None:
        self.asked.append("release")
        await super().release(run, owner)


async def test_a_run_that_comes_to_its_end_never_asks_for_its_lease_alone() -> None:
    story = Busy()
    leases = story.bureau.store.leases = Quiet(story.bureau.store.leases)  # type: ignore[assignment]
    async with story.bureau.process(story.agent, story.program, story.counter) as runs:
        handle = await runs.start(story.agent, "A-17")
        await story.counter.begun["read a"].wait()
        assert await story.holder(handle.id) is not None
        story.counter.may_end["read a"].set()
        assert triple((await handle.result()).state) == COMPLETED
        assert await story.holder(handle.id) is None
    assert leases.asked == []  # type: ignore[attr-defined]
    assert nobody_is_left()


class Witness(FaultyJournal):
    """A journal that looks who drives a run as soon as its first commit is there."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.journal)
        self._leases = store.leases
        self.drivers: dict[RunKey, Lease | None] = {}

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        for commit in commits:
            if commit.expected_head == 0:
                self.drivers[commit.run] = await self._leases.holder(commit.run)
        return outcomes


@pytest.mark.parametrize("name", [None, "mine"])
async def test_there_is_no_moment_in_which_a_run_has_begun_and_nobody_drives_it(name: str | None) -> None:
    story = Busy()
    story.counter.may_end["read a"].set()
    witness = Witness(story.bureau.store)
    async with story.bureau.process(story.agent, story.program, story.counter, journal=witness) as runs:
        handle = await runs.start(story.agent, "A-17", id=name)
        assert triple((await handle.result()).state) == COMPLETED
    assert [lease is not None for lease in witness.drivers.values()] == [True]


class Slow(FaultyJournal):
    """A journal whose commits wait until they may go on."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.journal)
        self.is_asked, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self.is_asked.set()
        await self.may_go_on.wait()
        return await super().commit(commits)


async def test_whoever_stops_waiting_for_a_start_leaves_a_run_that_others_can_take_up_at_once() -> None:
    story = Busy()
    slow = Slow(story.bureau.store)
    async with story.bureau.process(story.agent, story.program, journal=slow) as runs:
        starting = asyncio.ensure_future(runs.start(story.agent, "A-17"))
        await slow.is_asked.wait()
        starting.cancel()
        await asyncio.sleep(0)
        slow.may_go_on.set()
        await asyncio.wait([starting])
        assert starting.cancelled()
        (state,) = await story.bureau.store.states.list_resume_candidates()
        assert await story.holder(state.id) is None
    async with story.bureau.process(story.agent, story.other) as other:
        assert triple((await resumed(other, state.id)).state) == COMPLETED


class Mute(FaultyJournal):
    """A journal that writes everything and never says so."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        await super().commit(commits)
        raise OSError("the reply was lost")


async def test_a_start_of_which_nobody_knows_the_outcome_leaves_no_lease_behind() -> None:
    story = Busy()
    mute = Mute(story.bureau.store.journal)
    async with story.bureau.process(story.agent, story.program, journal=mute) as runs:
        with pytest.raises(StoreUnavailable):
            await runs.start(story.agent, "A-17")
        (state,) = await story.bureau.store.states.list_resume_candidates()
        assert await story.holder(state.id) is None
    async with story.bureau.process(story.agent, story.other) as other:
        assert triple((await resumed(other, state.id)).state) == COMPLETED


async def test_a_start_that_comes_second_leaves_the_lease_of_the_first_alone() -> None:
    story = Busy()
    async with (
        story.bureau.process(story.agent, story.program, story.counter) as owner,
        story.bureau.process(story.agent, story.other) as other,
    ):
        handles = await asyncio.gather(
            owner.start(story.agent, "A-17", id="mine"), other.start(story.agent, "A-17", id="mine")
        )
        assert handles[0].id == handles[1].id
        await story.counter.begun["read a"].wait()
        assert await story.holder(handles[0].id) is not None
        story.counter.may_end["read a"].set()
        assert triple((await handles[0].result()).state) == COMPLETED
