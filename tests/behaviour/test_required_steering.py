"""Runs that wait for a steering instruction before they begin: `RunAgentInput.steering_input_required`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest
from tests.behaviour.bureau import (
    CANCELLED,
    COMPLETED,
    DURABLE,
    TIMED_OUT,
    Bureau,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import Worker
from tests.behaviour.postbox import MESSAGE, STEERING, Parrot

from pilotage import Agent, AgentExecutionSpec, AgentSignalKind, AgentStatus, AgentYield, Progress
from pilotage.agent import AgentSignal, RunAgentInput, RunPausedEvent, on_signal
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime import next_signal
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, StopBefore, says

PAUSE = AgentSignalKind.PAUSE
INTERRUPTED = (AgentStatus.INTERRUPTED, "interrupted", "user_interrupted")
STEERED = RunAgentInput("steered", "write a poem", steering_input_required=True)
WORDS = {"text": "about the sea"}


@Agent(spec=AgentExecutionSpec(name="poet", recovery=DURABLE, accepted_signals=[STEERING, MESSAGE]))
class Poet:
    """Write poems."""


async def test_a_loop_waits_for_the_instruction_and_its_first_model_call_reads_it_last() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        waiting = await started(runs, Poet, STEERED)
        assert triple(waiting.state) == INTERRUPTED
        assert (waiting.state.awaits, waiting.state.current_activity) == (
            "steering_instruction",
            "waiting for a signal: steering_instruction",
        )
        events = [event async for event in runs.events(waiting.state.id)]
        (paused,) = [event for event in events if isinstance(event, RunPausedEvent)]
        assert paused.metadata["awaits"] == "steering_instruction"
        assert model.requests == []
        await runs.signal(waiting.state.id, STEERING, WORDS)
        result = await resumed(runs, waiting.state.id)
        assert await runs.verify(waiting.state.id) > 0
    assert (triple(result.state), result.output, result.state.awaits) == (COMPLETED, "Waves.", None)
    (request,) = model.requests
    assert [message.text for message in request.messages if message.role == "user"] == [
        "write a poem",
        "about the sea",
    ]


async def test_no_other_message_lets_it_begin_and_none_is_lost() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        waiting = await started(runs, Poet, STEERED)
        await runs.signal(waiting.state.id, MESSAGE, {"text": "hurry"})
        assert triple((await resumed(runs, waiting.state.id)).state) == INTERRUPTED
        assert model.requests == []
        await runs.signal(waiting.state.id, STEERING, WORDS)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
    (request,) = model.requests
    assert [message.text for message in request.messages][-2:] == ["hurry", "about the sea"]


async def test_a_program_of_its_own_waits_as_well_and_may_take_the_instruction_itself() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])

    async def program(worker: Worker) -> object:
        await worker.desk.note("begun")
        said = (await asked(worker)).content
        return [said, (await next_signal(STEERING)).payload["text"]]

    async with bureau.process(agent, program, model=Parrot()) as runs:
        handle = await runs.start(agent, "A-17", steering_input_required=True)
        waiting = await handle.result()
        assert (triple(waiting.state), bureau.world.done) == (INTERRUPTED, [])
        await runs.signal(waiting.state.id, STEERING, WORDS)
        result = await resumed(runs, waiting.state.id)
    assert result.output == ["user: Well?; user: about the sea", "about the sea"]


async def test_a_handler_of_the_agent_gets_the_instruction() -> None:
    seen: list[str] = []

    @Agent(spec=AgentExecutionSpec(name="steered", recovery=DURABLE, accepted_signals=[STEERING]))
    class Steered(Worker):
        """Has a handler for instructions."""

        @on_signal(STEERING)
        async def steer(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[object], None]:
            seen.append(str(signal.payload["text"]))
            yield Progress("steered")

    async def program(worker: Worker) -> object:
        return await worker.desk.note("done")

    bureau = Bureau()
    async with bureau.process(Steered, program) as runs:
        waiting = await (await runs.start(Steered, "A-17", steering_input_required=True)).result()
        assert (triple(waiting.state), seen) == (INTERRUPTED, [])
        await runs.signal(waiting.state.id, STEERING, WORDS)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
    assert seen == ["about the sea"]


@pytest.mark.parametrize(
    "fault", [kind(at) for at in range(1, 7) for kind in (StopBefore, StopAfter)], ids=str
)
async def test_a_crash_at_any_write_neither_loses_the_instruction_nor_begins_without_it(
    fault: StopBefore | StopAfter,
) -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])

    async def program(worker: Worker) -> object:
        await worker.desk.note("begun")
        return (await asked(worker)).content

    run_id = ""
    async with bureau.process(agent, program, model=Parrot(), fault=fault) as runs:
        with suppress(ProcessStopped, BaseExceptionGroup):
            handle = await runs.start(agent, "A-17", steering_input_required=True, id="mine")
            run_id = handle.id
            await handle.result()
            assert bureau.world.done == []
            await runs.signal(run_id, STEERING, WORDS)
            await resumed(runs, run_id)
    bureau.clock.advance(60)
    async with bureau.process(agent, program, model=Parrot()) as runs:
        if not run_id:
            run_id = (await runs.start(agent, "A-17", steering_input_required=True, id="mine")).id
        state = await runs.get(run_id)
        if not state.is_terminal:
            await resumed(runs, run_id)
            if not (await runs.get(run_id)).is_terminal:
                await runs.signal(run_id, STEERING, WORDS)
                await resumed(runs, run_id)
        result = await runs.result(run_id)
        assert await runs.verify(run_id) > 0
    assert result.output == "user: Well?; user: about the sea"
    assert set(bureau.world.done) == {"note begun"}


async def test_it_can_be_cancelled_while_it_waits() -> None:
    bureau, model = Bureau(), ScriptedModel([])
    async with bureau.process(Poet, None, model=model) as runs:
        waiting = await started(runs, Poet, STEERED)
        assert await runs.cancel(waiting.state.id)
        assert triple(await runs.get(waiting.state.id)) == CANCELLED


async def test_its_deadline_passes_while_it_waits_where_the_time_of_people_counts() -> None:
    spec = AgentExecutionSpec(
        name="hurried",
        recovery=DURABLE,
        accepted_signals=[STEERING],
        timeout_seconds=60,
        human_time_counts=True,
    )

    @Agent(spec=spec)
    class Hurried:
        """Writes in a hurry."""

    bureau, model = Bureau(), ScriptedModel([])
    async with bureau.process(Hurried, None, model=model) as runs:
        waiting = await started(runs, Hurried, STEERED)
        assert waiting.state.wake_at is not None
        bureau.clock.advance(61)
        assert triple((await resumed(runs, waiting.state.id)).state) == TIMED_OUT


async def test_a_fork_before_the_instruction_waits_for_one_of_its_own() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])

    async def program(worker: Worker) -> object:
        await worker.desk.note("begun")
        return (await asked(worker)).content

    async with bureau.process(agent, program, model=Parrot()) as runs:
        waiting = await (await runs.start(agent, "A-17", steering_input_required=True)).result()
        await runs.signal(waiting.state.id, STEERING, WORDS)
        await resumed(runs, waiting.state.id)
        rows = await bureau.rows(waiting.state.id)
        noted = next(
            row for row in rows if row.action_id.endswith("note#1") and row.stage is JournalStage.AFTER
        )
        fork = await runs.fork(waiting.state.id, at=noted.seq)
        assert triple((await resumed(runs, fork.id)).state) == INTERRUPTED
        await runs.signal(fork.id, STEERING, {"text": "about hills"})
        assert (await resumed(runs, fork.id)).output == "user: Well?; user: about hills"
    assert bureau.world.done == ["note begun"]


async def test_an_agent_that_accepts_no_instructions_cannot_wait_for_one() -> None:
    @Agent(spec=AgentExecutionSpec(name="fleeting"))
    class Fleeting:
        """Ends with its caller."""

    bureau, deaf = Bureau(), hired(accepted_signals=[MESSAGE])

    async def program(worker: Worker) -> object:
        raise AssertionError("it does not begin")

    async with bureau.process(deaf, program, Fleeting) as runs:
        with pytest.raises(CallerError, match="accepted_signals"):
            await runs.start(deaf, "A-17", steering_input_required=True)
        with pytest.raises(CallerError, match="accepted_signals"):
            await runs.start(Fleeting, STEERED)
        assert (await runs.list()).runs == ()


async def test_a_pause_that_came_first_is_a_pause_and_the_wait_comes_after_it() -> None:
    bureau = Bureau()
    async with bureau.process(Poet, None, model=ScriptedModel([says("Waves.")])) as runs:
        handle = await runs.start(Poet, STEERED)
        await runs.signal(handle.id, PAUSE)
        paused = await handle.result()
        assert (paused.state.awaits, paused.state.current_activity) == (None, "paused on request")
        await runs.signal(handle.id, STEERING, WORDS)
        assert (await resumed(runs, handle.id)).output == "Waves."


async def test_an_id_belongs_to_one_start_with_or_without_it() -> None:
    bureau = Bureau()
    async with bureau.process(Poet, None, model=ScriptedModel([says("Waves.")])) as runs:
        first = await runs.start(Poet, "write", id="one", steering_input_required=True)
        again = await runs.start(Poet, "write", id="one", steering_input_required=True)
        assert first.id == again.id
        with pytest.raises(RunConflictError):
            await runs.start(Poet, "write", id="one")
