"""Quarantine: claims without progress are counted in the store, suspects run alone, poisoned runs wait for a person."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, hired, nobody_is_left, triple
from tests.behaviour.newsdesk import let_run, pass_time
from tests.behaviour.office import Worker

from pilotage import AgentSignalKind, AgentStatus
from pilotage.agent import AgentSignal
from pilotage.agent.ports.leases import POISONED_FROM, SUSPECT_FROM, ClaimRecord
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentSituation
from pilotage.runtime import WorkerSettings
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import StopBefore

SETTINGS = WorkerSettings(concurrency=3, poll_seconds=2.0, grace_seconds=0.0)
POISONED = AgentSituation.POISONED.value


class Ward:
    """A bureau whose runs lost their process, and workers that take them up."""

    def __init__(self) -> None:
        self.bureau, self.agent = Bureau(), hired()
        self.clock, self.store = self.bureau.clock, self.bureau.store

    async def pays(self, worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(1))).number

    async def breaks(self, worker: Worker) -> object:
        raise StoreUnavailable("the row is refused")

    @asynccontextmanager
    async def working(
        self, program: Callable[[Worker], Awaitable[object]]
    ) -> AsyncGenerator[AgentRuns, None]:
        async with self.bureau.process(self.agent, program, SETTINGS, self.store.backlog) as runs:
            yield runs

    async def left_run(self) -> str:
        """A run whose process died before it did anything."""
        return await self.bureau.dead_process(self.agent, self.pays, fault=StopBefore(2))

    async def suspect(self, claims: int = SUSPECT_FROM) -> str:
        """A run whose process died several times."""
        run_id = await self.left_run()
        for _ in range(claims):
            await self.store.backlog.begin(RunKey("default", run_id), 0.0)
        return run_id

    async def poisoned(self) -> str:
        """A run that is quarantined."""
        run_id = await self.suspect(POISONED_FROM)
        async with self.working(self.breaks):
            await pass_time(self.clock, SETTINGS.poll_seconds)
        assert await self.situation(run_id) == POISONED
        return run_id

    async def claims(self, run_id: str) -> ClaimRecord:
        return await self.store.backlog.claims_of(RunKey("default", run_id))

    async def situation(self, run_id: str) -> tuple[str, str | None, str | None]:
        return triple(await self.store.states.get(run_id))


async def test_a_run_that_never_gets_anywhere_is_quarantined_with_its_last_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ward = Ward()
    run_id = await ward.left_run()
    attempts = 0

    async def breaks(worker: Worker) -> object:
        nonlocal attempts
        attempts += 1
        raise StoreUnavailable("the row is refused")

    with caplog.at_level(logging.ERROR, "pilotage.worker"):
        async with ward.working(breaks) as runs:
            await pass_time(ward.clock, 10)
            known = await runs.claims(run_id)
            assert (known.count, attempts) == (3, 3)
            assert str(known.problem).startswith("StoreUnavailable: the row is refused\n")
            await pass_time(ward.clock, 200)
            assert attempts == POISONED_FROM
            state = await runs.get(run_id)
            assert triple(state) == POISONED
            words = str(state.current_activity)
            assert words.startswith("5 claims of the run ended without progress")
            assert "The last error: StoreUnavailable: the row is refused." in words
            poison = state.metadata["poison"]
            assert isinstance(poison, dict)
            assert poison["claims"] == POISONED_FROM
            assert "in breaks" in str(poison["problem"])
            rows = len(await ward.bureau.rows(run_id))
            await pass_time(ward.clock, 900, step=10)
            assert (attempts, len(await ward.bureau.rows(run_id))) == (POISONED_FROM, rows)
            assert await runs.verify(run_id) == rows
    assert caplog.messages == [
        f"run {run_id} is quarantined after 5 claims without progress. "
        "Last problem: StoreUnavailable: the row is refused"
    ]


async def test_a_person_resumes_a_poisoned_run_and_it_goes_on_from_its_record() -> None:
    ward = Ward()
    run_id = await ward.poisoned()
    async with ward.working(ward.pays) as runs:
        await pass_time(ward.clock, 60)
        assert await ward.situation(run_id) == POISONED
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED
        assert await runs.verify(run_id)
    assert ward.bureau.world.done == ["pay 1"]


async def test_a_resume_signal_lets_a_worker_take_a_poisoned_run_up() -> None:
    ward = Ward()
    run_id = await ward.poisoned()
    async with ward.bureau.process(ward.agent, ward.pays) as office:
        await office.signal(run_id, AgentSignalKind.RESUME)
    async with ward.working(ward.pays):
        await let_run(300)
        assert await ward.situation(run_id) == COMPLETED


async def test_a_poisoned_run_is_not_taken_up_for_an_answer() -> None:
    ward = Ward()
    run_id = await ward.poisoned()
    answer = AgentSignal("answer", run_id, AgentSignalKind.APPROVAL_DECISION, {})
    await ward.store.signals.append(answer)
    async with ward.working(ward.pays):
        await pass_time(ward.clock, 60)
        assert await ward.situation(run_id) == POISONED


async def test_a_poisoned_run_can_be_cancelled() -> None:
    ward = Ward()
    run_id = await ward.poisoned()
    async with ward.working(ward.pays) as runs:
        assert await runs.cancel(run_id)
        assert (await ward.situation(run_id))[0] == AgentStatus.CANCELLED


async def test_a_run_that_is_poisoned_while_it_is_cancelled_ends() -> None:
    ward = Ward()
    run_id = await ward.left_run()
    state = await ward.store.states.get(run_id)
    cancelling = state.moved_to(AgentSituation.CANCELLING)
    async with ward.bureau.process(ward.agent, ward.pays, ward.store.backlog) as runs:
        await runs.launcher.poisoned.interrupt(cancelling, ClaimRecord(POISONED_FROM))
        assert await ward.situation(run_id) == AgentSituation.CANCELLATION_CLEANUP_FAILED.value
        ended = await runs.get(run_id)
        assert (ended.current_activity, "poison" in ended.metadata) == (None, True)


async def test_a_person_who_resumes_a_run_clears_its_claims() -> None:
    ward = Ward()
    run_id = await ward.suspect()
    may_end = asyncio.Event()

    async def waits(worker: Worker) -> object:
        await may_end.wait()
        return await ward.pays(worker)

    async with ward.bureau.process(ward.agent, waits, ward.store.backlog) as runs:
        handle = await runs.resume(run_id)
        assert (await runs.claims(run_id)).count == 0
        may_end.set()
        assert triple((await handle.result()).state) == COMPLETED


async def test_any_new_row_clears_the_claims() -> None:
    ward = Ward()
    run_id = await ward.suspect(POISONED_FROM - 1)
    may_end = asyncio.Event()

    async def works(worker: Worker) -> object:
        await worker.desk.note("a")
        await worker.desk.pay(Decimal(1))
        await may_end.wait()
        return "done"

    async with ward.working(works) as runs:
        await let_run(300)
        assert (await runs.claims(run_id)).count == 0
        may_end.set()
        await let_run(300)
        assert await ward.situation(run_id) == COMPLETED


async def test_a_deploy_counts_nothing() -> None:
    ward = Ward()
    run_id = await ward.suspect(1)
    never = asyncio.Event()
    begun = asyncio.Event()

    async def waits(worker: Worker) -> object:
        begun.set()
        await never.wait()
        return "never"

    for _ in range(2 * POISONED_FROM):
        async with ward.working(waits):
            await begun.wait()
            begun.clear()
            assert (await ward.claims(run_id)).count == 2
        known = await ward.claims(run_id)
        assert (known.count, known.next_claim) == (1, None)
    assert nobody_is_left()


async def test_a_suspect_is_driven_alone() -> None:
    ward = Ward()
    driven: set[str] = set()
    beside: dict[str, int] = {}
    may_end = asyncio.Event()
    suspects = {await ward.suspect(), await ward.suspect()}
    healthy = {await ward.left_run() for _ in range(4)}

    async def looks_around(worker: Worker) -> object:
        task = asyncio.current_task()
        assert task is not None
        run_id = task.get_name().removeprefix("run ")
        driven.add(run_id)
        beside[run_id] = len(driven)
        for _ in range(20):
            beside[run_id] = max(beside[run_id], len(driven))
            await asyncio.sleep(0)
        await may_end.wait()
        driven.discard(run_id)
        return "done"

    async with ward.working(looks_around):
        await let_run(300)
        assert driven <= healthy
        may_end.set()
        await pass_time(ward.clock, 20)
        assert {await ward.situation(run_id) for run_id in suspects | healthy} == {COMPLETED}
    assert {beside[run_id] for run_id in suspects} == {1}
    assert max(beside[run_id] for run_id in healthy) > 1


async def test_a_process_that_does_not_come_to_rest_leaves_a_suspect_to_others() -> None:
    ward = Ward()
    never = asyncio.Event()

    async def waits(worker: Worker) -> object:
        await never.wait()
        return "never"

    async with ward.working(waits) as runs:
        await runs.start(ward.agent, "A-18")
        suspect = await ward.suspect()
        await pass_time(ward.clock, 10)
        run = RunKey("default", suspect)
        assert await ward.store.leases.holder(run) is not None
        await pass_time(ward.clock, 25)
        assert await ward.store.leases.holder(run) is None
        late = await ward.left_run()
        await pass_time(ward.clock, 4)
        assert await ward.store.leases.holder(RunKey("default", late)) is not None
        assert (await ward.claims(suspect)).count == SUSPECT_FROM


async def test_a_pause_never_counts_however_often_the_run_is_taken_up() -> None:
    ward = Ward()

    async def refunds(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with ward.working(refunds) as runs:
        waiting = await (await runs.start(ward.agent, "A-17")).result()
        payload = {"request_id": f"{waiting.state.id}:never", "decision": "approve"}
        lost = AgentSignal("lost", waiting.state.id, AgentSignalKind.APPROVAL_DECISION, payload)
        await ward.store.signals.append(lost)
        await pass_time(ward.clock, 3000, step=10)
        assert triple(await runs.get(waiting.state.id)) == AgentSituation.WAITING_FOR_APPROVAL.value
        known = await runs.claims(waiting.state.id)
        assert known.count == 0
        assert known.delay is not None
        assert known.delay.total_seconds() == 300
