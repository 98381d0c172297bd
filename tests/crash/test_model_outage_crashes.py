"""A model with outages, and a process that stops at every write: the run still comes to its end, nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from pilotage import Agent, AgentExecutionSpec, ModelMessage, ModelRequest, RecoveryStrategy
from pilotage.agent.events import MessageDeltaEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation
from pilotage.runtime.events.feed import joined
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, StopAfter, StopBefore, fails, says
from tests.behaviour.bureau import COMPLETED, Bureau, hired, triple
from tests.behaviour.newsdesk import pass_time
from tests.behaviour.office import Worker

QUESTION = ModelRequest([ModelMessage.user("Well?")])
WAITING = AgentSituation.MODEL_UNAVAILABLE.value
WRITES = 9


async def streams_twice(worker: Worker) -> object:
    texts: list[str] = []
    for _ in range(2):
        texts.append("")
        async for event in worker.model.stream(QUESTION):
            texts[-1] += event.text if event.is_text_delta else ""
        await worker.desk.note(texts[-1])
    return texts


async def ended(runs: AgentRuns, run_id: str) -> RunResult:
    """Resume a run until it does not wait for its model any more."""
    for _ in range(6):
        result = await (await runs.resume(run_id)).result()
        if triple(result.state) != WAITING:
            return result
    raise AssertionError("the run waits for ever")


@pytest.mark.parametrize("write", range(2, WRITES))
@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_a_run_ends_whenever_its_process_stops_in_an_outage(
    stop: type[StopBefore | StopAfter], write: int
) -> None:
    bureau, agent = Bureau(), hired()
    lost, busy = fails("lost", retryable=True, after="one tw"), fails("busy", retryable=True)
    model = ScriptedModel([lost, busy, *[says("one two")] * 6])
    async with bureau.process(agent, streams_twice, model=model, fault=stop(write)) as runs:
        handle = await runs.start(agent, "A-17")
        (first,) = await asyncio.gather(handle.result(), return_exceptions=True)
        while isinstance(first, RunResult) and triple(first.state) == WAITING:
            (first,) = await asyncio.gather(_resumed(runs, handle.id), return_exceptions=True)
    async with bureau.process(agent, streams_twice, model=model) as runs:
        result = await ended(runs, handle.id)
        assert (triple(result.state), result.output) == (COMPLETED, ["one two"] * 2)
        assert await runs.verify(handle.id)
        assert await bureau.store.leases.holder(RunKey("default", handle.id)) is None


async def _resumed(runs: AgentRuns, run_id: str) -> RunResult:
    return await (await runs.resume(run_id)).result()


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Counter:
    """Count."""


@pytest.mark.parametrize("write", range(2, 8))
@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_a_stream_that_begins_anew_is_read_once_whenever_its_process_stops(
    stop: type[StopBefore | StopAfter], write: int
) -> None:
    bureau, lost = Bureau(), fails("lost", retryable=True, after="one tw")
    model = ScriptedModel([lost, lost, *[says("one two")] * 6])
    async with bureau.process(Counter, None, model=model, fault=stop(write)) as runs:
        handle = await runs.start(Counter, "A-17")
        await pass_time(bureau.clock, 30)
        await asyncio.gather(handle.result(), return_exceptions=True)
    async with bureau.process(Counter, None, model=model) as runs:
        resumed = asyncio.create_task(ended(runs, handle.id))
        await pass_time(bureau.clock, 30)
        result = await resumed
        assert (triple(result.state), result.output) == (COMPLETED, "one two")
        events = joined([event async for event in runs.events(handle.id)])
        assert [each.delta for each in events if isinstance(each, MessageDeltaEvent)] == ["one two"]
        assert await runs.verify(handle.id)
