"""The log is the lock: of two processes on one run exactly one acts."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from tests.behaviour.office import Clerk, Office, Worker, resume, start

from pilotage import AgentState, AgentStatus, Principal
from pilotage.agent.ports.journal import JournalHead
from pilotage.errors import RunConflictError
from pilotage.runtime.journal.interruptions import RunOwnershipLost
from pilotage.testing import MemoryStateRepository, MemoryStore, ProcessStopped, StopBefore


async def pay(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(1))).number


async def abandoned_run(office: Office) -> str:
    """A run whose process died before it did anything."""
    async with office.process(pay, fault=StopBefore(2)) as runs:
        handle = await runs.start(Clerk, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    return handle.id


@pytest.mark.parametrize("processes", [2, 5])
async def test_of_several_processes_that_resume_at_once_one_wins(processes: int) -> None:
    office = Office()
    run_id = await abandoned_run(office)
    services = [office.process(pay) for _ in range(processes)]
    attempts = [resume(await service.__aenter__(), run_id) for service in services]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    for service in services:
        await service.__aexit__(None, None, None)
    lost = [result for result in results if isinstance(result, RunOwnershipLost | RunConflictError)]
    (won,) = [result for result in results if not isinstance(result, BaseException)]
    assert (won.status, won.output) == (AgentStatus.COMPLETED, 1)
    assert len(lost) == processes - 1
    assert office.world.done == ["pay 1"]


@pytest.mark.parametrize("principal", [Principal("local"), Principal("somebody else")])
async def test_whoever_resumes_takes_the_run_away_from_its_owner(principal: Principal) -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def held(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        return (await worker.desk.pay(Decimal(1))).number

    async with office.process(held) as owner, office.process(pay) as taker:
        handle = await owner.start(Clerk, "A-17")
        await reached.wait()
        taken = await (await taker.resume(handle.id, principal=principal)).result()
        opened.set()
        with pytest.raises(RunOwnershipLost) as error:
            await handle.result()
    assert taken.status is AgentStatus.COMPLETED
    last = (await office.rows(handle.id))[-1].seq
    assert str(error.value) == f"run {handle.id!r}: epoch 2 wrote up to row {last}, this attempt is epoch 1"
    assert office.world.done == ["pay 1"]


async def test_an_owner_who_lost_the_run_does_nothing_more() -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def stubborn(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        try:
            await worker.desk.note("mine")
        except Exception:  # noqa: BLE001 - what careless programs do
            await worker.desk.note("swallowed")
        finally:
            await worker.desk.note("cleaning up")

    async with office.process(stubborn) as owner, office.process(pay) as taker:
        handle = await owner.start(Clerk, "A-17")
        await reached.wait()
        await resume(taker, handle.id)
        rows = await office.rows(handle.id)
        opened.set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
    assert office.world.done == ["pay 1"]
    assert await office.rows(handle.id) == rows


async def test_the_result_of_an_owner_who_lost_the_run_meanwhile_is_not_recorded() -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def slow(worker: Worker) -> object:
        await worker.desk.note("begun")
        reached.set()
        await opened.wait()
        return "mine"

    async def quick(worker: Worker) -> object:
        await worker.desk.note("begun")
        return "theirs"

    async with office.process(slow) as owner, office.process(quick) as taker:
        handle = await owner.start(Clerk, "A-17")
        await reached.wait()
        await resume(taker, handle.id)
        opened.set()
        with pytest.raises(RunOwnershipLost):
            await handle.result()
        assert (await taker.result(handle.id)).output == "theirs"
        assert await taker.verify(handle.id) == len(await office.rows(handle.id))


class LooksAndWaits(MemoryStateRepository):
    """States that are looked up at once, and given out when the test says so."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.looked, self.let_go = asyncio.Event(), asyncio.Event()

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead] | None:
        found = await super().get_with_head(state_id)
        self.looked.set()
        await self.let_go.wait()
        return found


async def test_a_run_that_ends_while_it_is_looked_at_is_seen_to_have_ended() -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def held(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        return "mine"

    async with office.process(held) as owner:
        handle = await owner.start(Clerk, "A-17")
        await reached.wait()
        states = office.store.states = LooksAndWaits(office.store)
        async with office.process(pay) as taker:
            taking = asyncio.create_task(taker.resume(handle.id))
            await states.looked.wait()
            opened.set()
            assert (await handle.result()).output == "mine"
            rows = await office.rows(handle.id)
            states.let_go.set()
            assert (await (await taking).result()).output == "mine"
    assert await office.rows(handle.id) == rows
    assert office.world.done == []


async def test_each_owner_has_a_higher_epoch_than_the_one_before() -> None:
    office = Office()

    async def gated(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with office.process(gated) as runs:
        run_id = (await start(runs)).state.id
        for _ in range(3):
            await resume(runs, run_id)
    claims = [row.epoch for row in await office.rows(run_id) if row.stage.value == "claimed"]
    assert claims == [1, 2, 3, 4]
