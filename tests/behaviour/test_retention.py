"""Runs that are over: what they said can be erased, and they can be removed; whoever reads them is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.crash.shop import Clerk, Shop, World

from pilotage import AgentStatus, Application
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentRetention
from pilotage.errors import CallerError, RunErasedError, RunNotFoundError
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, says


async def run_to_its_end(app: Application) -> str:
    runs = app.get(AgentRuns)
    run = await runs.start(Clerk, "A-17")
    await run.result()
    (request,) = await runs.questions(run.id)
    await runs.approve(request.id)
    assert (await (await runs.resume(run.id)).result()).status is AgentStatus.COMPLETED
    return run.id


def shop(store: MemoryStore) -> Application:
    model = ScriptedModel([says("Yes.")])
    return Application("shop").add(Clerk, Shop, World(), model, *store.ports).load_plugins()


async def test_an_erased_run_is_known_and_says_nothing() -> None:
    async with shop(MemoryStore()) as app:
        runs, run_id = app.get(AgentRuns), await run_to_its_end(app)
        rows = await runs.verify(run_id)
        await app.get(IAgentRetention).erase(RunKey("default", run_id))
        assert await runs.verify(run_id) == rows
        assert (await runs.get(run_id)).status is AgentStatus.COMPLETED
        assert [state.id for state in (await runs.list()).runs] == [run_id]
        proven = [evidence.payload for evidence in await runs.evidence(run_id)]
        assert {payload.get("erased") for payload in proven} == {True}
        assert "run/tool:pay#1" in str(proven)
        assert "12.50" not in str(proven)
        with pytest.raises(RunErasedError, match="payloads of run .* were erased"):
            await runs.result(run_id)
        with pytest.raises(RunErasedError, match="payloads of run .* were erased"):
            await anext(runs.events(run_id))
        with pytest.raises(RunErasedError, match="payloads of run .* were erased"):
            await runs.fork(run_id)


async def test_a_run_that_waits_for_somebody_is_not_erased() -> None:
    async with shop(MemoryStore()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Clerk, "A-17")
        await run.result()
        with pytest.raises(CallerError, match="Cancel it first"):
            await app.get(IAgentRetention).erase(RunKey("default", run.id))
        assert len(await runs.questions(run.id)) == 1


async def test_a_pruned_run_was_never_there() -> None:
    async with shop(MemoryStore()) as app:
        runs, run_id = app.get(AgentRuns), await run_to_its_end(app)
        later = datetime.now(UTC) + timedelta(days=1)
        assert await app.get(IAgentRetention).prune("default", ended_before=later) == 1
        with pytest.raises(RunNotFoundError):
            await runs.get(run_id)
