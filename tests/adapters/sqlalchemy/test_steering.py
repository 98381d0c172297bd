"""Revisions of steering instructions in a database: their ends are stored, and the run verifies with them."""

from __future__ import annotations

from pilotage import Application
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentSignal, AgentSignalEnd, AgentSignalKind, AgentSteeringUpdate
from pilotage.runtime import AgentRuns, next_signal
from pilotage.runtime.plugin import initialize
from pilotage.testing import ScriptedModel
from tests.behaviour.bureau import COMPLETED, hired, resumed, started, triple
from tests.behaviour.office import Desk, Program, Worker, World

STEERING = AgentSignalKind.STEERING_INSTRUCTION
ROWER = hired("rower", accepted_signals=[STEERING])


async def program(worker: Worker) -> object:
    """Take two instructions in, with an action between them."""
    first = (await next_signal(STEERING)).payload["text"]
    await worker.desk.note("turned")
    return [first, (await next_signal(STEERING)).payload["text"]]


def process(store: SqlAlchemyStore) -> Application:
    app = Application("boat").add(ROWER, Desk, World(), Program(program), ScriptedModel([]), *store.ports)
    initialize(app)
    return app


async def test_every_revision_has_its_end_and_the_run_verifies(store: SqlAlchemyStore) -> None:
    async with process(store) as app:
        runs = app.get(AgentRuns)
        run_id = (await started(runs, ROWER)).state.id
        await runs.steer(run_id, AgentSteeringUpdate("a", "left"))
        await runs.steer(run_id, AgentSteeringUpdate("a", "right", 2))
        await runs.steer(run_id, AgentSteeringUpdate("b", revision=2, withdrawn=True))
        await resumed(runs, run_id)
    async with process(store) as app:
        runs = app.get(AgentRuns)
        late = AgentSteeringUpdate("a", "straight", 3)
        await store.signals.append(AgentSignal(late.signal_id(run_id), run_id, STEERING, late.to_payload()))
        await runs.steer(run_id, AgentSteeringUpdate("b", "older"))
        assert (await resumed(runs, run_id)).state.awaits == STEERING.value
        assert (await runs.get(run_id)).pending_signal_count == 0
        assert await runs.verify(run_id) > 0
        await runs.steer(run_id, AgentSteeringUpdate("b", "newer", 3))
        result = await resumed(runs, run_id)
        assert (triple(result.state), result.output) == (COMPLETED, ["right", "newer"])
        assert await runs.verify(run_id) > 0
        sent = await store.signals.list_steering(run_id)
    assert {(each.payload["input_id"], each.payload["revision"]): each.end for each in sent} == {
        ("a", 1): AgentSignalEnd.SUPERSEDED,
        ("a", 2): AgentSignalEnd.TAKEN,
        ("a", 3): AgentSignalEnd.TOO_LATE,
        ("b", 1): AgentSignalEnd.SUPERSEDED,
        ("b", 2): AgentSignalEnd.TAKEN,
        ("b", 3): AgentSignalEnd.TAKEN,
    }
