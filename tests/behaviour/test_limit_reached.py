"""Runs at a limit: interrupted with what they have, left alone by workers, resumed under higher limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.architectures.test_react import ReactStory
from tests.behaviour.family import Family, start, told

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    RunAgentInput,
    run,
)
from pilotage.agent import AgentSession, Dependencies, Error
from pilotage.agent.events import AgentEvent, RunPausedEvent
from pilotage.agent.ports.leases import has_something_to_do
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.errors import CallerError
from pilotage.runtime import AgentRunner
from pilotage.runtime.events.projections import YieldProjector
from pilotage.runtime.plugin import initialize
from pilotage.testing import ScriptedModel, calls, says, turn
from pilotage.testing.architecture_proofs import StoryProcesses, proof_agent
from pilotage.testing.proof_world import HostileTools

NOTES = [turn(says(f"Note {n}."), calls("note", what=str(n))) for n in range(3)]
SCRIPT = [*NOTES, says("All noted.")]


def steps(number: int) -> AgentExecutionLimits:
    return AgentExecutionLimits(max_steps=number)


def stage() -> StoryProcesses:
    return StoryProcesses(ReactStory())


async def test_a_run_at_a_limit_shows_what_it_has_to_readers_of_another_process() -> None:
    place, model = stage(), ScriptedModel(SCRIPT)
    async with place.play(model, limits=steps(2)) as (runs, chosen):
        live = await start(runs, chosen)
    async with place.play(model.restarted(), limits=steps(2)) as (runs, _):
        stored = await runs.result(live.state.id)
        events = await told(runs, live.state.id)
        assert not await runs.questions(live.state.id)
        await runs.verify(live.state.id)
    assert (stored.status, stored.state.reason) == (AgentStatus.INTERRUPTED, AgentStateReason.LIMIT_REACHED)
    assert (stored.output, stored.turns, stored.spent) == (live.output, live.turns, live.spent)
    assert (stored.output, stored.interruption_reason) == ("Note 1.", "agent_max_steps_exceeded")
    assert stored.error == live.error
    end = events[-1]
    assert isinstance(end, RunPausedEvent)
    shown = YieldProjector(live.state.id).yield_of(end)
    assert isinstance(shown, Error)
    assert shown.code == "agent_max_steps_exceeded"


async def test_limits_are_raised_one_by_one_and_stay_raised() -> None:
    place, model = stage(), ScriptedModel(SCRIPT)
    first = AgentExecutionLimits(max_steps=1, max_tool_calls=2)
    async with place.play(model, limits=first) as (runs, chosen):
        stopped = await start(runs, chosen)
    reasons = [stopped.interruption_reason]
    for limits in (None, steps(9), None, AgentExecutionLimits(max_tool_calls=9)):
        async with place.play(model := model.restarted(), limits=first) as (runs, _):
            result = await (await runs.resume(stopped.state.id, limits=limits)).result()
            await runs.verify(stopped.state.id)
        reasons.append(result.interruption_reason)
    step, tool = "agent_max_steps_exceeded", "agent_max_tool_calls_exceeded"
    assert reasons == [step, step, tool, tool, None]
    assert (result.output, place.world.done) == ("All noted.", {"0": 1, "1": 1, "2": 1})
    assert "limit" not in result.state.metadata


async def test_a_run_at_a_limit_can_be_cancelled_and_has_no_limits_to_raise_then() -> None:
    place, model = stage(), ScriptedModel(SCRIPT)
    async with place.play(model, limits=steps(1)) as (runs, chosen):
        stopped = await start(runs, chosen)
        await runs.cancel(stopped.state.id, reason="enough")
        state = await runs.get(stopped.state.id)
        assert state.status is AgentStatus.CANCELLED
        with pytest.raises(CallerError, match="its limits are raised when it is resumed"):
            await runs.resume(stopped.state.id, limits=steps(9))


@pytest.mark.parametrize("kind", [None, *AgentSignalKind])
def test_a_worker_leaves_a_run_at_a_limit_to_a_person(kind: AgentSignalKind | None) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    state = AgentState("r", "a", AgentStatus.INTERRUPTED, reason=AgentStateReason.LIMIT_REACHED, wake_at=now)
    is_released = kind in (AgentSignalKind.RESUME, AgentSignalKind.CANCEL)
    assert has_something_to_do(state, [kind] if kind else [], now) is is_released


class Counting:
    """A loop that counts turns of its own."""

    name, version = "counting", 1

    def __init__(self) -> None:
        self.streaming: list[bool] = []

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        self.streaming.append(deps.streaming)
        below = deps.scope_for_worker("part").with_output(None)
        self.streaming.append(below.streaming)
        session.turns, session.output = 7, "counted"
        yield deps.progress("counted")


async def test_turns_that_a_loop_sets_count() -> None:
    family, counter = Family(), proof_agent("counter", Counting())
    async with family.process(counter, add=[HostileTools]) as runs:
        result = await start(runs, counter)
        stored = await runs.result(result.state.id)
    assert (result.turns, stored.turns) == (7, 7)


async def test_a_loop_knows_whether_somebody_may_read_while_it_runs() -> None:
    family, loop = Family(), Counting()
    durable = proof_agent("durable", loop)
    async with family.process(durable, add=[HostileTools]) as runs:
        await start(runs, durable)

    @Agent(spec=AgentExecutionSpec(architecture=loop))
    class Ephemeral:
        """You count."""

    assert (await run(Ephemeral, "go", model=ScriptedModel([]))).turns == 7
    app = Application("counting").add(Ephemeral, ScriptedModel([]))
    initialize(app)
    async with app:
        runner = AgentRunner.for_agent_instance(app.get(Ephemeral))
        async for _ in runner.run_events(RunAgentInput("r", "go")):
            pass
    assert loop.streaming == [True, True, False, False, True, True]
