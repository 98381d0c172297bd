"""A thread goes on after a run that stopped at a limit, or without an answer: it asks nothing of the page."""

from __future__ import annotations

import pytest
from tests.adapters.agui.bank import Frame, ask, interrupts_of, texts
from tests.adapters.agui.door import Gate
from tests.adapters.agui.samples import ag_ui_input, resume, types
from tests.adapters.agui.threads import ADA, HELLO, NEXT, RUN, Threads, customs

from pilotage import Agent, AgentExecutionLimits, AgentExecutionSpec, AgentSignalKind, RecoveryStrategy
from pilotage.agent import AgentStatus
from pilotage.runtime import AgentRuns
from pilotage.testing import ScriptedModel, StopAfter, calls, says

AT_LIMIT = "There is no complete answer: the agent has reached its limit of steps."
THIRD = ag_ui_input("Still there?", runId="client-3")


@Agent(
    spec=AgentExecutionSpec(
        name="hurried",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
        limits=AgentExecutionLimits(max_steps=1),
    )
)
class Hurried:
    """Has one step for each message, and takes messages meanwhile."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        gate.open.set()


@Agent(
    spec=AgentExecutionSpec(
        name="hurried",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        limits=AgentExecutionLimits(max_steps=1),
    )
)
class Curt:
    """Has one step for each message, and takes no messages meanwhile."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        gate.open.set()


@Agent(spec=AgentExecutionSpec(name="brief", limits=AgentExecutionLimits(max_steps=1)))
class Brief:
    """Has one step for each message; its runs are not stored."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        gate.open.set()


def success(frames: list[Frame]) -> bool:
    return types(frames)[-1] == "RUN_FINISHED" and frames[-1]["outcome"] == {"type": "success"}


def holds() -> ScriptedModel:
    return ScriptedModel([calls("hold"), says("Two."), says("Three.")])


@pytest.mark.parametrize("agent", [Hurried, Curt, Brief])
async def test_a_run_at_its_limit_says_so_and_the_next_message_is_answered(agent: type[object]) -> None:
    threads = Threads(agent)
    async with threads.process(holds()) as app:
        first = await threads.ask(app, HELLO)
        assert (texts(first), customs(first)) == (AT_LIMIT, ["artifact", "limit_reached"])
        stopped = [frame["value"] for frame in first if frame["type"] == "CUSTOM"][-1]
        assert stopped["code"] == "agent_max_steps_exceeded"
        assert stopped["message"] == "the agent stopped short: agent_max_steps_exceeded"
        assert success(first)
        for given, words in ((NEXT, "Two."), (THIRD, "Three.")):
            assert texts(frames := await threads.ask(app, given)) == words
            assert success(frames)


async def test_the_run_that_stopped_may_be_resumed_until_the_next_message_ends_it() -> None:
    threads = Threads(Hurried)
    async with threads.process(holds()) as app:
        await threads.ask(app, HELLO)
        runs = app.get(AgentRuns)
        assert (await runs.get(RUN, principal=ADA)).status is AgentStatus.INTERRUPTED
        limits = AgentExecutionLimits(max_steps=2)
        await (await runs.resume(RUN, limits=limits, principal=ADA)).result()
        assert (await runs.get(RUN, principal=ADA)).status is AgentStatus.COMPLETED
        assert texts(await threads.ask(app, NEXT)) == "Three."

    threads = Threads(Hurried)
    async with threads.process(holds()) as app:
        await threads.ask(app, HELLO)
        await threads.ask(app, NEXT)
        assert (await app.get(AgentRuns).get(RUN, principal=ADA)).status is AgentStatus.CANCELLED


async def test_a_thread_that_stopped_is_at_rest_for_a_page_that_is_loaded_anew() -> None:
    threads = Threads(Hurried)
    connect = ag_ui_input(None, runId="client-2", forwardedProps={"connect": True})
    async with threads.process(holds()) as app:
        await threads.ask(app, HELLO)
        frames = await threads.ask(app, connect)
    assert types(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert frames[1]["messages"][-1]["content"] == AT_LIMIT
    assert success(frames)


@pytest.mark.parametrize("agent", [Hurried, Curt])
async def test_a_message_that_took_a_run_up_is_answered_where_that_one_stops(agent: type[object]) -> None:
    threads, model = Threads(agent), holds()
    await threads.die(model, StopAfter(1))
    async with threads.process(model.restarted()) as app:
        frames = await threads.ask(app, NEXT)
    assert customs(frames)[:3] == ["run_taken_up", "artifact", "limit_reached"]
    assert texts(frames) == f"{AT_LIMIT}Two."
    assert success(frames)


@Agent(
    spec=AgentExecutionSpec(
        name="hurried",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
        limits=AgentExecutionLimits(max_steps=1),
    )
)
class Asking:
    """Asks in its only step."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate


async def test_a_message_beside_a_question_is_answered_though_the_run_stops_after_the_answer() -> None:
    threads = Threads(Asking)
    async with threads.process(ScriptedModel([calls("ask_first"), says("Two.")])) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, HELLO))
        await threads.ask(app, NEXT)
        frames = await threads.ask(app, resume(interrupt["id"], True))
    assert texts(frames) == f"{AT_LIMIT}Two."
    assert success(frames)


async def test_other_ends_without_an_answer_are_said_in_plain_words() -> None:
    threads = Threads(Hurried)
    async with threads.process(ScriptedModel([says(""), says("Two.")])) as app:
        frames = await ask(app, HELLO, Hurried, principal=ADA)
        assert texts(frames).startswith("There is no complete answer: the ")
        assert texts(await threads.ask(app, NEXT)) == "Two."
