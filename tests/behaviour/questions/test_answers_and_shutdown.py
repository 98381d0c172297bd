"""A process that answers a question and stops at once: the answer is stored, and nothing goes wrong on the way out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, hired, nobody_is_left, resumed, started, triple
from tests.behaviour.newsdesk import let_run
from tests.behaviour.office import Worker

from pilotage import ApprovalDecision, Pod
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.container import ILifecycle
from pilotage.runtime import AgentRuns
from pilotage.testing import FaultyJournal

AGENT = hired()
TURNS = range(40)


class ClosingJournal(FaultyJournal, ILifecycle):
    """A journal at the end of a wire that is closed when its application stops."""

    is_closed = False

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        await self._reach()
        return await super().commit(commits)

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        await self._reach()
        async for row in super().read(run, after):
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        await self._reach()
        return await super().head(run)

    async def stop(self) -> None:
        self.is_closed = True
        await let_run(5)

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.is_closed:
            raise ConnectionError("the store is closed")


@Pod
class Reception(ILifecycle):
    """Uses the runs of its application, and takes its time to stop."""

    def __init__(self, runs: AgentRuns) -> None:
        self.runs = runs

    async def stop(self) -> None:
        await let_run(5)


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("pods", [(), (Reception,)], ids=["alone", "with a pod that stops slowly"])
async def test_a_process_that_answers_and_stops_logs_nothing_and_leaves_the_run_to_others(
    pods: tuple[object, ...], turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds) as runs:
        run_id = (await started(runs, AGENT)).state.id
        (question,) = await runs.questions(run_id)
    with caplog.at_level(logging.INFO):
        async with bureau.process(
            AGENT, refunds, *pods, journal=ClosingJournal(bureau.store.journal)
        ) as runs:
            await runs.answer(run_id, question.id, ApprovalDecision.APPROVE)
            await let_run(turns)
    assert caplog.messages == []
    assert bureau.store.tables.leases == {}
    assert nobody_is_left()
    async with bureau.process(AGENT, refunds) as runs:
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert bureau.world.done == ["refund 1"]
