"""Children: runs of their own that belong to another run, from their start to their end with their parent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.behaviour.family import Family, Hands, Play, member, resume, start, told

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    Progress,
    RecoveryStrategy,
    Token,
)
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
)
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import BranchFailure, Dependencies, FailurePolicy
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunAgentInput
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason
from pilotage.errors import CallerError, RunFailedError, ToolError
from pilotage.runtime.children.children import child_id
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.journal.interruptions import StartRefused
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    MemoryJournal,
    MemoryStateRepository,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    says,
)
from pilotage.testing.encoded import EncodedState

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


def one_child(task: str = "work") -> Play:
    """A parent that has one child and gives what the child gave."""

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", {"task": task})

    return play


def working(family: Family) -> Play:
    async def play(deps: Dependencies, prompt: str) -> object:
        return await family.hands.write("w")

    return play


def asking(family: Family) -> Play:
    async def play(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("w")
        return await family.hands.ask("a")

    return play


# -- what a child is


async def test_a_child_is_a_run_of_its_own_with_an_id_that_follows_from_its_parent() -> None:
    family = Family()
    agents = member("parent", one_child()), member("child", working(family))
    async with family.process(*agents) as runs:
        result = await start(runs, agents[0])
    child = await family.state_of("child")
    assert result.output == "w"
    assert child.id == child_id(result.state.id, "run/child:kid#1")
    assert (child.status, child.metadata["parent"]) == (AgentStatus.COMPLETED, result.state.id)


async def test_children_of_the_same_name_are_told_apart() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        return [await deps.runtime.spawn_child("kid", "child", {"n": n}) for n in range(3)]

    agents = member("parent", play), member("child", working(family))
    async with family.process(*agents) as runs:
        await start(runs, agents[0])
    assert family.world.done == {"w": 3}
    assert len(await family.states()) == 4


async def test_a_child_that_fails_is_a_tool_error_now_and_in_replay() -> None:
    family, heard = Family(), list[str]()

    async def fails(deps: Dependencies, prompt: str) -> object:
        raise ToolError("out of paper")

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            await deps.runtime.spawn_child("kid", "child", {})
        except ToolError as error:
            heard.append(str(error))
        return await family.hands.ask("a")

    agents = member("parent", play), member("child", fails)
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
    async with family.process(*agents) as runs:
        await resume(runs, paused.state.id)
    assert heard == ["'child' did not finish: ToolError: out of paper"] * 2
    assert (await family.state_of("child")).status is AgentStatus.FAILED


async def test_a_child_that_somebody_cancels_is_a_tool_error() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            return await deps.runtime.spawn_child("kid", "child", {})
        except ToolError as error:
            return str(error)

    agents = member("parent", play), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        assert await runs.cancel((await family.state_of("child")).id, reason="not now")
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.COMPLETED
    assert "'child' did not finish" in str(result.output)


async def test_a_child_that_is_cancelled_while_it_works_is_a_tool_error() -> None:
    family, is_working, never = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        is_working.set()
        await never.wait()
        return None

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            return await deps.runtime.spawn_child("kid", "child", {})
        except ToolError as error:
            return str(error)

    agents = member("parent", play), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        await is_working.wait()
        assert await runs.cancel((await family.state_of("child")).id)
        result = await handle.result()
    assert "'child' did not finish" in str(result.output)


async def test_a_task_that_does_not_fit_the_agent_is_a_tool_error_and_starts_nothing() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            return await deps.runtime.spawn_child("kid", "typed", {"number": "many"})
        except ToolError as error:
            return str(error)

    parent = member("parent", play)
    async with family.process(parent, Typed) as runs:
        result = await start(runs, parent)
    assert "'number' does not fit" in str(result.output)
    assert len(await family.states()) == 1


@Agent(spec=AgentExecutionSpec(name="typed", recovery=DURABLE))
class Typed:
    async def execute(self, number: int) -> int:
        return number + 1


# -- execute() of another agent


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=DURABLE))
class Clerk:
    """Does one thing that cannot be done twice, and one that a person has to allow."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress(f"clerk begins {order}")
        await self.hands.write(f"w {order}")
        yield Token("half ")
        done = await self.hands.ask(f"a {order}")
        yield Token("done")
        yield Final(done)


@Agent(spec=AgentExecutionSpec(name="boss", recovery=DURABLE))
class Boss:
    """Calls the clerk as a function."""

    def __init__(self, clerk: Clerk, hands: Hands) -> None:
        self.clerk, self.hands = clerk, hands

    async def execute(self, order: str) -> str:
        item = [item async for item in self.clerk.execute(order)][-1]
        await self.hands.write(f"boss {order}")
        return str(item.payload.output)  # type: ignore[union-attr]


async def test_calling_another_agent_inside_a_run_makes_a_child_that_survives_restarts() -> None:
    family = Family()
    async with family.process(Boss, Clerk) as runs:
        paused = await start(runs, Boss, "A-17")
        assert paused.status is AgentStatus.INTERRUPTED
    async with family.process(Boss, Clerk) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(Boss, Clerk) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == "a A-17"
    assert family.world.done == {"w A-17": 1, "a A-17": 1, "boss A-17": 1}
    assert (await family.state_of("clerk")).metadata["parent"] == paused.state.id


async def test_a_declarative_agent_that_is_called_inside_a_run_is_a_child_and_gets_its_instruction() -> None:
    family = Family()

    async def echoes(deps: Dependencies, prompt: str) -> object:
        return f"heard {prompt}"

    async def play(deps: Dependencies, prompt: str) -> object:
        helper: Any = family.helper
        items = [item async for item in helper.execute(RunAgentInput("x", "say it"))]
        return [
            items[-1].payload.output,
            await deps.runtime.spawn_child("k", "helper", {"instruction": "go"}),
        ]

    agents = member("parent", play), member("helper", echoes)
    async with family.process(*agents) as runs:
        family.helper = runs.services.instance_of(runs.services.definition_of("helper"))
        result = await start(runs, agents[0])
    assert result.output == ["heard say it", "heard go"]
    helpers = [state for state in await family.states() if state.agent_type == "helper"]
    assert [state.metadata["parent"] for state in helpers] == [result.state.id] * 2


# -- pause and resume


async def test_a_child_that_pauses_pauses_its_parent_and_both_come_back_elsewhere() -> None:
    family = Family()
    agents = member("parent", one_child()), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        assert paused.state.reason is AgentStateReason.APPROVAL_REQUIRED
        assert (await family.state_of("child")).status is AgentStatus.INTERRUPTED
    async with family.process(*agents) as runs:
        (question,) = await runs.questions(paused.state.id)
        assert question.agent_state_id == (await family.state_of("child")).id
        await runs.approve(question.id)
    async with family.process(*agents) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == "a"
    assert family.world.done == {"w": 1, "a": 1}


async def test_a_child_is_not_resumed_by_itself_and_the_refusal_says_what_is() -> None:
    family = Family()
    agents = member("parent", one_child()), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        child = await family.state_of("child")
        with pytest.raises(CallerError, match=f"belongs to run '{paused.state.id}'. Resume that one"):
            await runs.resume(child.id)


async def test_a_child_that_a_user_pauses_pauses_its_parent_until_that_is_resumed() -> None:
    family, is_working, may_go = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        is_working.set()
        await may_go.wait()
        return await family.hands.write("w")

    agents = member("parent", one_child()), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        await is_working.wait()
        await runs.signal((await family.state_of("child")).id, AgentSignalKind.PAUSE)
        may_go.set()
        paused = await handle.result()
        assert (paused.status, paused.state.reason) == (
            AgentStatus.INTERRUPTED,
            AgentStateReason.USER_INTERRUPTED,
        )
        result = await resume(runs, paused.state.id)
    assert result.output == "w"
    assert family.world.done == {"w": 1}


async def test_a_child_whose_program_diverged_is_shown_in_its_parent() -> None:
    family = Family()
    parent = member("parent", one_child())
    async with family.process(parent, child := member("child", asking(family))) as runs:
        paused = await start(runs, parent)

    async def other(deps: Dependencies, prompt: str) -> object:
        return await family.hands.write("something else")

    async with family.process(parent, member("child", other)) as runs:
        result = await resume(runs, paused.state.id)
        assert result.state.reason is AgentStateReason.DIVERGED
        assert "its child" in str(result.state.current_activity)
        assert await runs.questions(paused.state.id) == ()
    async with family.process(parent, child) as runs:
        await resume(runs, paused.state.id)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await resume(runs, paused.state.id)
    assert (result.output, family.world.done) == ("a", {"w": 1, "a": 1})


# -- crashes


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 9))
async def test_after_a_crash_the_same_child_is_found_again(
    fault: type[StopBefore | StopAfter], number: int
) -> None:
    family = Family()

    async def works(deps: Dependencies, prompt: str) -> object:
        await family.hands.note("n1")
        return await family.hands.note("n2")

    agents = member("parent", one_child()), member("child", works)
    async with family.process(*agents, fault=fault(number)) as runs:
        with suppress(ProcessStopped):
            await start(runs, agents[0])
    async with family.process(*agents) as runs:
        parents = [state for state in await family.states() if state.agent_type == "parent"]
        if not parents:
            result = await start(runs, agents[0])
        elif parents[0].is_terminal:
            result = await runs.result(parents[0].id)
        else:
            result = await resume(runs, parents[0].id)
    assert result.output == "n2"
    assert len(await family.states()) == 2
    assert family.world.done == {"n1": 1, "n2": 1}


def said(events: list[AgentEvent], run_id: str) -> list[object]:
    """What a run told, its texts in one piece each."""
    found: list[object] = []
    for event in events:
        if event.attribution.run_id != run_id:
            continue
        if isinstance(event, MessageDeltaEvent) and not event.metadata:
            last = found[-1] if found else None
            if isinstance(last, list) and last[0] == event.message_id:
                last[1] += event.delta
                continue
            found.append([event.message_id, event.delta])
        else:
            found.append(event)
    return found


async def carried(family: Family, runs: AgentRuns, agent: type[object]) -> str | None:
    """Bring the run of an agent as far as it gets; its id, or None where the process died."""
    known = [state for state in await family.states() if "parent" not in state.metadata]
    try:
        if not known:
            return (await start(runs, agent, "A-17")).state.id
        if not known[0].is_terminal:
            await family.answer(runs, known[0].id)
            await resume(runs, known[0].id)
    except ProcessStopped:
        return None
    return known[0].id


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize("number", range(1, 11))
async def test_the_parent_has_told_all_that_its_child_told_whenever_the_process_dies(
    fault: type[StopBefore | StopAfter], process: int, number: int
) -> None:
    family = Family()
    for each in range(6):
        async with family.process(Boss, Clerk, fault=fault(number) if each == process else None) as runs:
            await carried(family, runs, Boss)
    async with family.process(Boss, Clerk) as runs:
        boss, clerk = await family.state_of("boss"), await family.state_of("clerk")
        assert boss.status is AgentStatus.COMPLETED, boss.current_activity
        of_parent, of_child = await told(runs, boss.id), await told(runs, clerk.id)
    assert said(of_parent, clerk.id) == said(of_child, clerk.id)
    assert {event.attribution.parent_run_id for event in of_child} == {boss.id}


async def ahead(family: Family) -> int:
    """How many events of children are in the log of their parent and not in their own."""
    states = await family.states()
    logs = {state.id: list(logged_events(await family.rows(state.id), state.id)) for state in states}
    (root,) = [state.id for state in states if "parent" not in state.metadata]
    nobody = AgentEventAttribution("-", "-", "-")
    heard = Counter(item.event(nobody).attribution.run_id for item in logs[root])
    return sum(max(0, heard[run_id] - len(logs[run_id])) for run_id in logs if run_id != root)


async def test_what_the_parent_told_of_a_child_that_could_not_write_it_down_is_not_told_again() -> None:
    family, has_begun, may_go = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        has_begun.set()
        await may_go.wait()
        return await family.hands.write("w")

    async def commits() -> str:
        await has_begun.wait()
        return await family.hands.write("parent")

    async def play(deps: Dependencies, prompt: str) -> object:
        kid = partial(deps.runtime.spawn_child, "kid", "child", {})
        return await deps.runtime.gather("b", [kid, commits])

    agents = member("parent", play), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        while not family.world.done["parent"]:  # noqa: ASYNC110 - the world has no event to wait for
            await asyncio.sleep(0)
    assert await ahead(family), "the parent's log is not ahead of the child's"
    may_go.set()
    async with family.process(*agents) as runs:
        result = await resume(runs, handle.id)
        events = await told(runs, handle.id)
    assert result.output == ["w", "parent"]
    child = await family.state_of("child")
    theirs = [event for event in events if event.attribution.run_id == child.id]
    assert [event.step_name for event in theirs if isinstance(event, StepFinishedEvent)] == [
        "begun",
        "played",
    ]


async def test_what_a_model_had_said_in_a_child_is_superseded_when_it_is_asked_again() -> None:
    family, has_spoken, may_go = Family(), asyncio.Event(), asyncio.Event()

    async def commits() -> str:
        await has_spoken.wait()
        return await family.hands.write("parent")

    async def play(deps: Dependencies, prompt: str) -> object:
        kid = partial(deps.runtime.spawn_child, "kid", "talker", {"order": "x"})
        return await deps.runtime.gather("b", [kid, commits])

    parent = member("parent", play)
    gate = Gate(has_spoken, may_go)
    async with family.process(parent, Talker, add=[gate], model=ScriptedModel([says("one two")])) as runs:
        handle = await runs.start(parent, "go")
        while not family.world.done["parent"]:  # noqa: ASYNC110 - the world has no event to wait for
            await asyncio.sleep(0)
    assert await ahead(family)
    may_go.set()
    async with family.process(parent, Talker, add=[gate], model=ScriptedModel([says("three")])) as runs:
        result = await resume(runs, handle.id)
        events = await told(runs, handle.id)
    assert result.output == ["three", "parent"]
    texts = [event for event in events if isinstance(event, MessageDeltaEvent)]
    superseded = {event.message_id for event in texts if event.metadata.get("superseded")}
    kept = "".join(event.delta for event in texts if event.message_id not in superseded)
    assert kept == "three"
    assert len(superseded) == 1


class Gate:
    """Lets somebody speak and then wait."""

    def __init__(self, has_spoken: asyncio.Event, may_go: asyncio.Event) -> None:
        self.has_spoken, self.may_go = has_spoken, may_go


@Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE))
class Talker:
    """Says what its model says, as it says it."""

    def __init__(self, model: IAgentModel, gate: Gate) -> None:
        self.model, self.gate = model, gate

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        text = ""
        async for event in self.model.stream(ModelRequest([ModelMessage.user(order)])):
            if event.is_text_delta:
                text += event.text
                yield Token(event.text)
                self.gate.has_spoken.set()
                await self.gate.may_go.wait()
        yield Final(text)


async def test_events_of_children_reach_the_stream_of_the_parent_while_it_works() -> None:
    family, may_go = Family(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        await may_go.wait()
        return None

    agents = member("parent", one_child()), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        async for event in handle.events():
            if isinstance(event, RunStartedEvent) and event.attribution.agent_id == "child":
                assert event.attribution.parent_run_id == handle.id
                assert event.attribution.run_id != handle.id
                may_go.set()
        assert (await handle.result()).status is AgentStatus.COMPLETED


# -- what it costs


def spending(family: Family, calls: int) -> Play:
    async def play(deps: Dependencies, prompt: str) -> object:
        for number in range(calls):
            await family.hands.write(f"w{number}")
        return "spent"

    return play


async def test_what_children_spend_counts_against_their_parent_live() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        await deps.runtime.spawn_child("kid", "child", {})
        return await family.hands.write("one too many")

    limits = AgentExecutionLimits(max_tool_calls=3)
    agents = member("parent", play, limits=limits), member("child", spending(family, 3))
    async with family.process(*agents) as runs:
        result = await start(runs, agents[0])
    assert (result.status, result.spent.tool_calls) == (AgentStatus.INTERRUPTED, 3)
    assert family.world.done == {"w0": 1, "w1": 1, "w2": 1}


async def test_a_child_cannot_spend_more_than_its_parent_has_left() -> None:
    family = Family()
    limits = AgentExecutionLimits(max_tool_calls=2)
    agents = member("parent", one_child(), limits=limits), member("child", spending(family, 3))
    async with family.process(*agents) as runs:
        await start(runs, agents[0])
    assert family.world.done == {"w0": 1, "w1": 1}
    assert (await family.state_of("child")).status is AgentStatus.INTERRUPTED


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("is_failing", [False, True])
async def test_what_a_child_spent_counts_when_it_is_replayed_from_the_record(
    is_folded: bool, is_failing: bool
) -> None:
    family = Family()

    async def child(deps: Dependencies, prompt: str) -> object:
        for number in range(3):
            await family.hands.write(f"w{number}")
        if is_failing:
            raise ToolError("in the end it failed")
        return "spent"

    async def play(deps: Dependencies, prompt: str) -> object:
        kid = partial(deps.runtime.spawn_child, "kid", "child", {})
        if is_folded:
            await deps.runtime.gather("kids", [kid], policy=FailurePolicy.COLLECT)
        else:
            with suppress(ToolError):
                await kid()
        await family.hands.ask("a")
        return await family.hands.write("one too many")

    limits = AgentExecutionLimits(max_tool_calls=4)
    agents = member("parent", play, limits=limits), member("child", child)
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(*agents) as runs:
        result = await resume(runs, paused.state.id)
    assert (result.status, result.spent.tool_calls) == (AgentStatus.INTERRUPTED, 4)
    assert not family.world.done["one too many"]


async def test_what_a_child_spent_counts_once_when_it_is_found_again_ended() -> None:
    spent: set[int] = set()
    for number in range(1, 10):
        family = Family()

        async def child(deps: Dependencies, prompt: str, family: Family = family) -> object:
            await family.hands.note("n1")
            return await family.hands.note("n2")

        agents = member("parent", one_child()), member("child", child)
        for each in range(3):
            async with family.process(*agents, fault=StopAfter(number) if each == 0 else None) as runs:
                run_id = await carried(family, runs, agents[0])
        async with family.process(*agents) as runs:
            assert run_id is not None
            spent.add((await runs.result(run_id)).spent.tool_calls)
    assert spent == {2}


async def test_what_a_child_inside_a_step_spent_counts_when_the_step_is_replayed() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        async def inside() -> str:
            await family.hands.write("own")
            return str(await deps.runtime.spawn_child("kid", "child", {}))

        await deps.runtime.step("work", inside)
        return await family.hands.ask("a")

    agents = member("parent", play), member("child", spending(family, 2))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(*agents) as runs:
        result = await resume(runs, paused.state.id)
    assert result.spent.tool_calls == 4


# -- how far it may go


async def test_runs_may_not_stand_too_deep() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        family.world.entered["play"] += 1
        return await deps.runtime.spawn_child("kid", "endless", {})

    agent = member("endless", play)
    async with family.process(agent) as runs:
        result = await start(runs, agent)
    assert result.status is AgentStatus.FAILED
    assert "may stand at most 8 deep" in str(result.error)
    assert family.world.entered["play"] == len(await family.states()) == 8


async def test_a_child_has_no_more_time_than_its_parent() -> None:
    family = Family()
    agents = member("parent", one_child(), timeout_seconds=60.0), member("child", asking(family))
    async with family.process(*agents) as runs:
        await start(runs, agents[0])
    child = await family.state_of("child")
    record = (await family.rows(child.id))[0].record
    assert isinstance(record, dict)
    assert record["deadline"] == (family.clock.now() + timedelta(seconds=60)).isoformat()


async def test_a_parent_whose_time_is_up_takes_its_children_along() -> None:
    family, is_working, never = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        is_working.set()
        await never.wait()
        return None

    agents = member("parent", one_child(), timeout_seconds=60.0), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        await is_working.wait()
        family.clock.advance(61)
        result = await handle.result()
    assert result.state.reason is AgentStateReason.TIMEOUT
    assert (await family.state_of("child")).is_terminal


# -- the end of the parent


def below(agent: str) -> Play:
    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", agent, {})

    return play


async def ends_in_order(family: Family) -> list[str]:
    """The agents whose runs have ended, children first."""
    ended = [state for state in await family.states() if state.status is AgentStatus.CANCELLED]
    return [state.agent_type for state in ended]


async def test_cancelling_a_parent_cancels_children_that_work_and_those_below_them() -> None:
    family, is_working, never = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        is_working.set()
        await never.wait()
        return None

    agents = member("parent", below("child")), member("child", below("grandchild"))
    async with family.process(*agents, member("grandchild", works)) as runs:
        handle = await runs.start(agents[0], "go")
        await is_working.wait()
        assert await runs.cancel(handle.id)
        result = await handle.result()
        finished = [
            event.attribution.agent_id
            for event in await told(runs, handle.id)
            if isinstance(event, RunFinishedEvent)
        ]
    assert result.status is AgentStatus.CANCELLED
    assert sorted(await ends_in_order(family)) == ["child", "grandchild", "parent"]
    assert finished == ["grandchild", "child", "parent"]


async def test_cancelling_a_parent_cancels_children_that_wait() -> None:
    family = Family()
    agents = member("parent", below("child")), member("child", below("grandchild"))
    grandchild = member("grandchild", asking(family))
    async with family.process(*agents, grandchild) as runs:
        paused = await start(runs, agents[0])
    async with family.process(*agents, grandchild) as runs:
        assert await runs.cancel(paused.state.id)
        assert sorted(await ends_in_order(family)) == ["child", "grandchild", "parent"]
        assert await runs.questions(paused.state.id) == ()
    assert family.world.done == {"w": 1}


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 8))
async def test_a_crash_while_cancelling_leaves_no_child_behind(
    fault: type[StopBefore | StopAfter], number: int
) -> None:
    family = Family()
    agents = member("parent", below("child")), member("child", below("grandchild"))
    grandchild = member("grandchild", asking(family))
    async with family.process(*agents, grandchild) as runs:
        paused = await start(runs, agents[0])
    async with family.process(*agents, grandchild, fault=fault(number)) as runs:
        with suppress(ProcessStopped):
            await runs.cancel(paused.state.id)
    async with family.process(*agents, grandchild) as runs:
        if not (await runs.get(paused.state.id)).is_terminal:
            await resume(runs, paused.state.id)
    if (await family.state_of("parent")).status is not AgentStatus.INTERRUPTED:
        assert sorted(await ends_in_order(family)) == ["child", "grandchild", "parent"]
    assert family.world.done == {"w": 1}


async def test_a_child_in_a_branch_that_was_not_reached_yet_is_cancelled_too() -> None:
    family, is_working, never = Family(), asyncio.Event(), asyncio.Event()

    async def waits_first(deps: Dependencies, prompt: str) -> object:
        await family.hands.ask("a")
        is_working.set()
        await never.wait()
        return None

    async def play(deps: Dependencies, prompt: str) -> object:
        kids = [partial(deps.runtime.spawn_child, f"k{n}", "child", {"n": n}) for n in range(2)]
        return await deps.runtime.gather("kids", kids, limit=1)

    agents = member("parent", play), member("child", waits_first)
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        for question in await runs.questions(paused.state.id):
            await runs.approve(question.id)
    async with family.process(*agents) as runs:
        handle = await runs.resume(paused.state.id)
        await is_working.wait()
        assert await runs.cancel(handle.id)
        await handle.result()
    assert {state.status for state in await family.states()} == {AgentStatus.CANCELLED}


async def test_a_child_does_not_start_under_a_parent_that_is_cancelling() -> None:
    family = Family()
    family.store.journal = CancelledInBetween(family)
    agents = member("parent", one_child()), member("child", working(family))
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        with pytest.raises(StartRefused, match="is cancelling"):
            await handle.result()
    assert [state.agent_type for state in await family.states()] == ["parent"]
    assert not family.world.done


class CancelledInBetween(MemoryJournal):
    """In the moment before a child is written down, another process has begun to cancel its parent."""

    def __init__(self, family: Family) -> None:
        super().__init__(family.store)
        self._family = family

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for parent in [commit.parent for commit in commits if commit.parent is not None]:
            state = await self._family.store.states.get(parent.run_id)
            cancelling = EncodedState.of(state.moved_to(AgentSituation.CANCELLING))
            self._family.store.tables.states.put(parent.tenant_id, parent.run_id, cancelling)
        return await super().commit(commits)


async def test_a_parent_that_fails_leaves_no_child_waiting() -> None:
    family = Family()

    async def waits(deps: Dependencies) -> object:
        return await deps.runtime.spawn_child("kid", "child", {})

    async def play(deps: Dependencies, prompt: str) -> object:
        await deps.runtime.gather("b", [partial(waits, deps), family.refuse], policy=FailurePolicy.FAIL_FAST)
        return None

    agents = member("parent", play), member("child", asking(family))
    async with family.process(*agents) as runs:
        result = await start(runs, agents[0])
    assert result.status is AgentStatus.FAILED
    assert (await family.state_of("child")).status is AgentStatus.CANCELLED


async def test_a_child_that_its_parent_stopped_waiting_for_ends_with_the_parent() -> None:
    family, is_working, never = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        is_working.set()
        await never.wait()
        return None

    async def play(deps: Dependencies, prompt: str) -> object:
        waiting = asyncio.ensure_future(deps.runtime.spawn_child("kid", "child", {}))
        await is_working.wait()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        return "without it"

    agents = member("parent", play), member("child", works)
    async with family.process(*agents) as runs:
        result = await start(runs, agents[0])
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "without it")
    assert (await family.state_of("child")).status is AgentStatus.CANCELLED


async def test_a_first_that_is_decided_ends_the_children_that_wait() -> None:
    family = Family()

    async def agree() -> str:
        while not any(each.status is AgentStatus.INTERRUPTED for each in await family.states()):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return await family.agree()

    async def play(deps: Dependencies, prompt: str) -> object:
        waits = partial(deps.runtime.spawn_child, "slow", "child", {})
        found = await deps.runtime.gather("b", [waits, agree], policy=FailurePolicy.FIRST)
        return [*found, await family.hands.ask("behind")]

    agents = member("parent", play), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        assert (await family.state_of("child")).status is AgentStatus.CANCELLED
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(*agents) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == ["agreed", "behind"]
    # The call that the child waited to make never began.
    assert result.spent.tool_calls == 2
    assert family.world.done == {"w": 1, "behind": 1}


async def test_stopping_the_process_leaves_children_where_they_are() -> None:
    family, is_working, may_go = Family(), asyncio.Event(), asyncio.Event()

    async def works(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("w1")
        is_working.set()
        await may_go.wait()
        return await family.hands.write("w2")

    agents = member("parent", one_child()), member("child", works)
    async with family.process(*agents) as runs:
        handle = await runs.start(agents[0], "go")
        await is_working.wait()
    assert {state.status for state in await family.states()} == {AgentStatus.ACTIVE}
    may_go.set()
    async with family.process(*agents) as runs:
        result = await resume(runs, handle.id)
    assert result.output == "w2"
    assert family.world.done == {"w1": 1, "w2": 1}


# -- several processes


async def test_a_parent_waits_for_a_child_that_another_process_still_holds() -> None:
    family = Family(has_leases=True)
    agents = member("parent", one_child()), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    child = await family.state_of("child")
    await family.store.leases.acquire(RunKey("default", child.id), "another process", 30.0)
    async with family.process(*agents) as runs:
        handle = await runs.resume(paused.state.id)
        waiting = asyncio.create_task(handle.result())
        for _ in range(40):
            for _ in range(20):
                await asyncio.sleep(0)
            family.clock.advance(1.0)
        result = await waiting
    assert result.output == "a"
    assert family.world.done == {"w": 1, "a": 1}


async def test_a_store_that_fails_when_a_child_is_looked_up_does_not_fail_the_delegation() -> None:
    family = Family()
    agents = member("parent", one_child()), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    child = await family.state_of("child")
    states = family.store.states
    family.store.states = Flaky(family, child.id)
    async with family.process(*agents) as runs:
        handle = await runs.resume(paused.state.id)
        with pytest.raises(BaseException, match="cannot be reached"):
            await handle.result()
    family.store.states = states
    async with family.process(*agents) as runs:
        assert (await resume(runs, paused.state.id)).output == "a"
    assert family.world.done == {"w": 1, "a": 1}


class Flaky(MemoryStateRepository):
    """Does not answer when it is asked for one of the runs."""

    def __init__(self, family: Family, broken: str) -> None:
        super().__init__(family.store)
        self._broken = broken

    async def get_or_none(self, state_id: str) -> AgentState | None:
        if state_id == self._broken:
            raise OSError("the database is away")
        return await super().get_or_none(state_id)


def delegations(rows: list[JournalRow]) -> list[JournalStage]:
    return [row.stage for row in rows if row.kind is AgentActionKind.DELEGATION]


async def test_the_record_of_a_delegation_is_two_rows_however_often_the_run_comes_back() -> None:
    family = Family()
    agents = member("parent", one_child()), member("child", asking(family))
    async with family.process(*agents) as runs:
        paused = await start(runs, agents[0])
    for _ in range(3):
        async with family.process(*agents) as runs:
            await resume(runs, paused.state.id)
    async with family.process(*agents) as runs:
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        await resume(runs, paused.state.id)
        assert await runs.verify(paused.state.id)
    assert delegations(await family.rows(paused.state.id)) == [JournalStage.BEFORE, JournalStage.AFTER]


async def test_an_answer_of_the_caller_is_a_failed_run_when_the_child_failed() -> None:
    family = Family()
    async with family.process(Boss, Clerk) as runs:
        family.world.failures["w A-17"] = ToolError("no money")
        result = await start(runs, Boss, "A-17")
        assert result.status is AgentStatus.FAILED
        assert "no money" in str(result.error)
        with pytest.raises(RunFailedError, match="no money"):
            await runs.services.app.get(Boss).execute("A-17")


async def test_failures_of_children_are_collected_like_others() -> None:
    family = Family()

    async def fails(deps: Dependencies, prompt: str) -> object:
        raise ToolError("no")

    async def play(deps: Dependencies, prompt: str) -> object:
        kids = [partial(deps.runtime.spawn_child, f"k{n}", "child", {"n": n}) for n in range(2)]
        found = await deps.runtime.gather("kids", kids, policy=FailurePolicy.COLLECT)
        return [isinstance(each, BranchFailure) for each in found]

    agents = member("parent", play), member("child", fails)
    async with family.process(*agents) as runs:
        assert (await start(runs, agents[0])).output == [True, True]
