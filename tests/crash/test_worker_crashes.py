"""Workers may die at every commit: others take their runs up, and the run ends as if nothing had happened."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from pilotage import AgentStatus, Application
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.run_values import RunResult
from pilotage.runtime import WorkerSettings
from pilotage.runtime.journal.lease import LeaseSettings
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryLeases,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    VirtualClock,
    says,
)
from tests.behaviour.newsdesk import Newsdesk, let_run, pass_time
from tests.crash.process import Processes, assert_done_right
from tests.crash.shop import Clerk, Shop

LEASE_SECONDS = LeaseSettings().seconds

COMMITS = range(1, 12)


class MortalLeases(MemoryLeases):
    """The leases of a process: when it is dead it gives nothing back."""

    def __init__(self, store: MemoryStore, journal: FaultyJournal) -> None:
        super().__init__(store.tables)
        self._journal = journal

    @property
    def is_dead(self) -> bool:
        return self._journal._is_stopped

    async def release(self, run: RunKey, owner: str) -> None:
        if not self.is_dead:
            await super().release(run, owner)


class Workers(Processes):
    """One run of `Clerk`, taken up by whichever worker finds it; nobody resumes anything by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.desk = Newsdesk()

    async def carry_through(self, *faults: Fault | None) -> RunResult:
        """Start the run and bring it to its end; the n-th process has the n-th fault."""
        while True:
            fault = faults[self.count] if self.count < len(faults) else None
            await self._one_worker(fault)
            run_id = await self._known_run()
            if run_id is not None and (await self.store.states.get(run_id)).is_terminal:
                return await self._result(run_id)
            # A dead process's leases and claims run out.
            await pass_time(self.clock, LEASE_SECONDS * 3, step=LEASE_SECONDS)
            assert self.count < 30, "the run does not come to an end"

    async def _one_worker(self, fault: Fault | None) -> None:
        self.count += 1
        journal = FaultyJournal(self.store.journal, fault)
        app = self._app(journal)
        with suppress(ProcessStopped):
            async with app:
                runs = app.get(AgentRuns)
                for _ in range(20):
                    await self._work(runs)
                    if journal._is_stopped or await self._is_over():
                        break
                    await pass_time(self.clock, 2)
        self.commits = max(self.commits, journal.commits)

    def _app(self, journal: FaultyJournal) -> Application:
        store, leases = self.store, MortalLeases(self.store, journal)
        app = Application("shop").add(Clerk, Shop, self.world, ScriptedModel([says("Yes.")]), journal, leases)
        app.add(store.states, store.signals, store.evidence, store.wake_ups, store.backlog, store.deliveries)
        app.add(self.ids, self.clock, self.desk, WorkerSettings(concurrency=2))
        initialize(app)
        return app

    async def _work(self, runs: AgentRuns) -> None:
        run_id = await self._known_run()
        if run_id is None:
            await runs.start(Clerk, "A-17")
            return
        await let_run(100)
        if not (await runs.get(run_id)).is_terminal:
            for request in await runs.questions(run_id):
                await self._answer(runs, run_id, request)

    async def _is_over(self) -> bool:
        run_id = await self._known_run()
        return run_id is not None and (await self.store.states.get(run_id)).is_terminal

    async def _result(self, run_id: str) -> RunResult:
        app = self._app(FaultyJournal(self.store.journal))
        async with app:
            await let_run(200)
            result = await app.get(AgentRuns).result(run_id)
            await pass_time(self.clock, 10)
        return replace(result)


def assert_told(workers: Workers) -> None:
    """Everything in the outbox was heard, first in order."""
    told = [
        f"{entry.run.tenant_id}/{entry.run.run_id}/{entry.number}"
        for entry in workers.store.tables.outbox.read()
    ]
    assert list(dict.fromkeys(fact.id for fact in workers.desk.heard)) == told
    assert workers.desk.names[-1] == "AgentRunCompleted"


async def test_one_worker_is_enough() -> None:
    workers = Workers()
    assert_done_right(workers, await workers.carry_through())
    assert workers.count == 1
    assert workers.commits == COMMITS.stop - 1
    assert_told(workers)


@pytest.mark.parametrize("number", COMMITS)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_death_at_any_commit_is_made_up_for_by_another_worker(
    fault: type[Fault], number: int
) -> None:
    workers = Workers()
    result = await workers.carry_through(fault(number))
    assert_done_right(workers, result)
    assert_told(workers)
    assert (await workers.store.states.get(result.state.id)).status is AgentStatus.COMPLETED


@pytest.mark.parametrize("first", range(1, 6))
@pytest.mark.parametrize("second", range(1, 4))
async def test_a_second_death_changes_nothing(first: int, second: int) -> None:
    workers = Workers()
    result = await workers.carry_through(StopAfter(first), StopBefore(second), StopAfter(second))
    assert_done_right(workers, result)
    assert_told(workers)
