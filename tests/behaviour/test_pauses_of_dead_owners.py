"""A pause that is sent to a run whose owner has died holds: the worker that takes the run up pauses it."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, hired, triple
from tests.behaviour.newsdesk import pass_time
from tests.behaviour.office import Worker

from pilotage.agent import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.runtime import WorkerSettings
from pilotage.testing import ProcessStopped, StopAfter

AGENT = hired()
PAUSED = AgentSituation.USER_INTERRUPTED.value
PAUSE, RESUME = AgentSignalKind.PAUSE, AgentSignalKind.RESUME


async def notes(worker: Worker) -> object:
    for number in range(3):
        await worker.desk.note(str(number))
    await worker.desk.pay(Decimal(1))
    return "done"


async def left_by_its_owner(bureau: Bureau, *signals: AgentSignalKind) -> str:
    """A run whose process has died, with signals that came behind its death."""
    run_id = await bureau.dead_process(AGENT, notes, fault=StopAfter(3))
    for kind in signals:
        await bureau.store.signals.append(AgentSignal(kind.value, run_id, kind))
    bureau.clock.advance(3_600)
    return run_id


def worker_of(bureau: Bureau) -> tuple[object, ...]:
    return WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), bureau.store.backlog


async def test_a_worker_pauses_the_run_and_a_resumption_lets_it_go_on() -> None:
    bureau = Bureau()
    run_id = await left_by_its_owner(bureau, PAUSE)
    async with bureau.process(AGENT, notes, *worker_of(bureau)) as runs:
        await pass_time(bureau.clock, 10)
        assert triple(await runs.get(run_id)) == PAUSED
        assert "pay 1" not in bureau.world.done
        assert (
            await bureau.store.signals.append(AgentSignal("pause", run_id, PAUSE))
        ).end is AgentSignalEnd.TAKEN
        await pass_time(bureau.clock, 30)
        assert triple(await runs.get(run_id)) == PAUSED
        await runs.signal(run_id, RESUME)
        await pass_time(bureau.clock, 10)
        assert triple(await runs.get(run_id)) == COMPLETED
        assert await runs.verify(run_id)
    assert bureau.world.done.count("pay 1") == 1


@pytest.mark.parametrize(
    ("signals", "status"),
    [
        ((PAUSE, RESUME), AgentStatus.COMPLETED),
        ((RESUME, PAUSE), AgentStatus.INTERRUPTED),
    ],
)
async def test_the_last_of_pause_and_resume_counts(
    signals: tuple[AgentSignalKind, ...], status: AgentStatus
) -> None:
    bureau = Bureau()
    run_id = await left_by_its_owner(bureau, *signals)
    async with bureau.process(AGENT, notes, *worker_of(bureau)) as runs:
        await pass_time(bureau.clock, 10)
        assert (await runs.get(run_id)).status is status
        assert await bureau.store.signals.list_pending(run_id) == []


async def test_a_person_who_resumes_the_run_takes_the_pause_back() -> None:
    bureau = Bureau()
    run_id = await left_by_its_owner(bureau, PAUSE)
    async with bureau.process(AGENT, notes) as runs:
        result = await (await runs.resume(run_id)).result()
        assert triple(result.state) == COMPLETED
        end = (await bureau.store.signals.append(AgentSignal("pause", run_id, PAUSE))).end
    assert end is AgentSignalEnd.SUPERSEDED


@pytest.mark.parametrize("number", range(1, 4))
async def test_the_pause_holds_if_the_worker_dies_too(number: int) -> None:
    bureau = Bureau()
    run_id = await left_by_its_owner(bureau, PAUSE)
    async with bureau.process(AGENT, notes, fault=StopAfter(number)) as runs:
        with suppress(ProcessStopped):
            await (await runs.take_up(run_id)).result()
    bureau.clock.advance(3_600)
    async with bureau.process(AGENT, notes, *worker_of(bureau)) as runs:
        await pass_time(bureau.clock, 10)
        assert triple(await runs.get(run_id)) == PAUSED
    assert "pay 1" not in bureau.world.done
