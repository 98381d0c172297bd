"""Families of runs that die at every write: parallel children, loops, packets and questions end as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from pilotage import AgentStatus
from pilotage.agent import get_run_context
from pilotage.agent.delegation import AgentDelegateTarget, DelegationPacket, DelegationReturnPolicy
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    RunFinishedEvent,
    StepFinishedEvent,
)
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import Dependencies, FailurePolicy
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import (
    FailWrite,
    Fault,
    LoseReply,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    says,
    when,
)
from tests.behaviour.family import Family, Play, member, resume, start, told

STOPS: tuple[Callable[[int], Fault], ...] = (StopBefore, StopAfter)
FAULTS: tuple[Callable[[int], Fault], ...] = (*STOPS, LoseReply, FailWrite)

Cast = Callable[[Family], tuple[type[object], ...]]
Point = tuple[Fault | None, ...]


class Story:
    """One run with all its children, carried on by as many processes as it takes; the n-th has the n-th fault."""

    def __init__(self, cast: Cast, *faults: Fault | None) -> None:
        self.family = Family()
        self.commits: list[int] = []
        self.agents = cast(self.family)
        self._faults = faults

    async def through(self) -> RunResult:
        agents = self.agents
        for process in range(30):
            fault = self._faults[process] if process < len(self._faults) else None
            result: RunResult | None = None
            async with self.family.process(*agents, model=_model(), fault=fault) as runs:
                try:
                    result = await self._carry_on(runs, agents[0])
                except (ProcessStopped, RunInterruption, OSError):
                    pass
                finally:
                    self.commits.append(self.family.journal.commits)
            if result is not None and result.state.is_terminal:
                return result
        raise AssertionError(f"no end within 30 processes: {self._faults}")

    async def _carry_on(self, runs: AgentRuns, agent: type[object]) -> RunResult:
        known = [state for state in await self.family.states() if "parent" not in state.metadata]
        if not known:
            return await start(runs, agent)
        (root,) = known
        if root.is_terminal:
            return await runs.result(root.id)
        await self.family.answer(runs, root.id)
        return await resume(runs, root.id)


class Seen:
    """What can be told from outside of a story that has ended."""

    def __init__(self, story: Story, result: RunResult) -> None:
        self.outcome = (result.status, result.output)
        self.done = dict(story.family.world.done)
        self.spent: BudgetAmount = result.spent
        self.agents: list[str] = []

    @classmethod
    async def of(cls, story: Story) -> Seen:
        seen = cls(story, await story.through())
        family = story.family
        async with family.process(*story.agents) as runs:
            states = await family.states()
            seen.agents = sorted(state.agent_type for state in states)
            for state in states:
                assert state.is_terminal, f"{state.agent_type} is left {state.status}: {story._faults}"
                await runs.verify(state.id)
            await _check_told(runs, states, story._faults)
        return seen


async def _check_told(runs: AgentRuns, states: list[AgentState], faults: Point) -> None:
    """Whatever a run told, those above it told too, once."""
    (root,) = [state for state in states if "parent" not in state.metadata]
    at_the_top = await told(runs, root.id)
    for state in states:
        own = [event for event in await told(runs, state.id) if event.attribution.run_id == state.id]
        heard = [event for event in at_the_top if event.attribution.run_id == state.id]
        assert _steps(heard) == _steps(own) == ["begun", "played"], f"{state.agent_type}: {faults}"
        ends = [event for event in heard if isinstance(event, RunFinishedEvent)]
        assert len(ends) == 1, f"{state.agent_type}: {faults}"
        assert _who(heard) == _who(own)


def _steps(events: list[AgentEvent]) -> list[str]:
    return [event.step_name for event in events if isinstance(event, StepFinishedEvent)]


def _who(events: list[AgentEvent]) -> set[AgentEventAttribution]:
    return {event.attribution for event in events}


def _model() -> ScriptedModel:
    return ScriptedModel([when(f"think {n}", *[says(f"thought {n}")] * 9) for n in range(3)])


# -- the families


def side_by_side(family: Family) -> tuple[type[object], ...]:
    """A parent with three children at once; one of them asks, one has a child of its own."""
    hands = family.hands

    async def parent(deps: Dependencies, prompt: str) -> object:
        kids = [
            partial(deps.runtime.spawn_child, "writer", "writer", {}),
            partial(deps.runtime.spawn_child, "asker", "asker", {}),
            partial(deps.runtime.spawn_child, "middle", "middle", {}),
        ]
        found = await deps.runtime.gather("kids", kids)
        return [*found, await hands.write("parent")]

    async def writer(deps: Dependencies, prompt: str) -> object:
        return await hands.write("writer")

    async def asker(deps: Dependencies, prompt: str) -> object:
        return await hands.ask("asker")

    async def middle(deps: Dependencies, prompt: str) -> object:
        return [await deps.runtime.spawn_child("leaf", "leaf", {}), await hands.note("middle")]

    async def leaf(deps: Dependencies, prompt: str) -> object:
        await deps.model.complete(ModelRequest([ModelMessage.user("think 0")]))
        return await hands.ask("leaf")

    return _members(parent=parent, writer=writer, asker=asker, middle=middle, leaf=leaf)


def in_turns(family: Family) -> tuple[type[object], ...]:
    """A loop whose turns gather, think and delegate."""
    hands = family.hands

    async def parent(deps: Dependencies, prompt: str) -> object:
        async def think(number: int) -> str:
            reply = await deps.model.complete(ModelRequest([ModelMessage.user(f"think {number}")]))
            return reply.content

        async def turn(so_far: list[str]) -> list[str] | None:
            number = len(so_far) // 2
            if number == 2:
                return None
            kid = partial(deps.runtime.spawn_child, "kid", "child", {"n": number})
            found = await deps.runtime.gather("both", [partial(think, number), kid])
            return [*so_far, *map(str, found)]

        reached = await deps.runtime.loop("turns", [], turn)
        return [*reached, await hands.ask("behind")]

    async def child(deps: Dependencies, prompt: str) -> object:
        return await (hands.write(f"write {prompt}") if "0" in prompt else hands.ask(f"ask {prompt}"))

    return _members(parent=parent, child=child)


def by_packet(family: Family) -> tuple[type[object], ...]:
    """The same packet twice, around a collected failure."""
    hands = family.hands

    async def parent(deps: Dependencies, prompt: str) -> object:
        first = await delegated()
        kids = [partial(deps.runtime.spawn_child, "bad", "bad", {}), family.agree]
        found = await deps.runtime.gather("b", kids, policy=FailurePolicy.QUORUM, quorum=1)
        return [first, *found, await delegated()]

    async def delegated() -> object:
        packet = DelegationPacket(
            "the packet",
            str(get_run_context().run_id),
            AgentDelegateTarget("child"),
            {},
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        return (await LocalDelegate().delegate_tool_result(packet)).output

    async def child(deps: Dependencies, prompt: str) -> object:
        return await hands.write("child")

    async def bad(deps: Dependencies, prompt: str) -> object:
        await hands.note("bad")
        return await hands.fail("luck")

    agents = _members(parent=parent, child=child)
    return (*agents, member("bad", _then_says(bad)))


def _then_says(play: Play) -> Play:
    """A failure that tells its last step all the same, so that logs can be compared."""

    async def played(deps: Dependencies, prompt: str) -> object:
        try:
            return await play(deps, prompt)
        except Exception as error:  # noqa: BLE001 - the words are the answer
            return str(error)

    return played


def _members(**plays: Play) -> tuple[type[object], ...]:
    return tuple(
        member(name, play, delegation_allowed=True) if name == "parent" else member(name, play)
        for name, play in plays.items()
    )


FAMILIES: tuple[Cast, ...] = (side_by_side, in_turns, by_packet)


def singles(commits: list[int], every: int) -> Iterator[Point]:
    """A stop at every commit of every process; and a lost reply and a failure at every third one, or so."""
    for process, count in enumerate(commits):
        before: Point = (None,) * process
        for number in range(1, count + 1):
            faults = FAULTS if (process + number) % every == 0 else STOPS
            yield from ((*before, make(number)) for make in faults)


def pairs(commits: list[int]) -> Iterator[Point]:
    """A stop at every commit of every process, and another one at an early commit of the next."""
    for process, count in enumerate(commits):
        before: Point = (None,) * process
        for number in range(1, count + 1):
            for again in (1, 2, 4, 7):
                yield (*before, StopAfter(number), StopBefore(again))
                yield (*before, StopBefore(number), StopAfter(again))


def some(points: list[Point], cast: Cast) -> list[Point]:
    """A twelfth of the points, drawn by the name of the family."""
    return Random(cast.__name__).sample(points, len(points) // 12)  # noqa: S311 - a repeatable draw


@pytest.mark.slow
@pytest.mark.parametrize("cast", FAMILIES)
async def test_a_family_of_runs_ends_the_same_wherever_its_processes_die(
    cast: Cast, exhaustive: bool
) -> None:
    """A stop at every commit, and a share of the other faults and of the pairs; `make torture` tries all of them."""
    reference = Story(cast)
    expected = await Seen.of(reference)
    assert expected.outcome[0] is AgentStatus.COMPLETED
    assert set(expected.done.values()) == {1}
    count, twice = 0, list(pairs(reference.commits))
    for point in [
        *singles(reference.commits, 1 if exhaustive else 3),
        *(twice if exhaustive else some(twice, cast)),
    ]:
        story = Story(cast, *point)
        seen = await Seen.of(story)
        assert seen.outcome == expected.outcome, point
        assert seen.done == expected.done, point
        assert seen.spent == expected.spent, point
        assert seen.agents == expected.agents, point
        count += 1
    assert count > 40


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_family_that_is_cancelled_leaves_nobody_behind_wherever_its_process_dies(
    fault: Callable[[int], Fault],
) -> None:
    for number in range(1, 16):
        family = Family()
        agents = side_by_side(family)
        async with family.process(*agents, model=_model()) as runs:
            paused = await start(runs, agents[0])
            done = dict(family.world.done)
        async with family.process(*agents, fault=fault(number)) as runs:
            with suppress(ProcessStopped, RunInterruption, OSError):
                await runs.cancel(paused.state.id)
        async with family.process(*agents) as runs:
            root = await runs.get(paused.state.id)
            if not root.is_terminal:
                await runs.cancel(root.id)
            states = await family.states()
        assert all(state.is_terminal for state in states), f"{fault(number)}"
        assert family.world.done == done
