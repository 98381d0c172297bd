"""Questions on three levels of runs, answered in any order with restarts in between: each counts exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import pytest
from tests.behaviour.family import Family, Hands, Play, member, resume, start

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    ApprovalDecision,
    IAgentModel,
    RecoveryStrategy,
)
from pilotage.agent import AgentApprovalRequest
from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.ports.architecture import BranchFailure, Dependencies, FailurePolicy
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import RejectionPolicy
from pilotage.errors import CallerError
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, calls, says, when
from pilotage.testing.script import turn

TELL = RejectionPolicy.TELL_MODEL


def level(family: Family, name: str, below: str | None) -> Play:
    """Three gated calls side by side, and a child beside them."""

    async def ask(number: int) -> str:
        return await family.hands.ask(f"{name}{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        branches: list[Callable[[], Awaitable[object]]] = [partial(ask, n) for n in range(3)]
        if below is not None:
            branches.append(partial(deps.runtime.spawn_child, "kid", below, {}))
        found = await deps.runtime.gather("all", branches, policy=FailurePolicy.COLLECT)
        return [None if isinstance(each, BranchFailure) else each for each in found]

    return play


def three_levels(family: Family) -> tuple[type[object], ...]:
    return (
        member("parent", level(family, "p", "child"), on_rejection=TELL),
        member("child", level(family, "c", "grandchild"), on_rejection=TELL),
        member("grandchild", level(family, "g", None), on_rejection=TELL),
    )


class People:
    """Answer what they are asked at random, and remember it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.asked: dict[str, tuple[str, str]] = {}
        self.approved: list[str] = []
        self.rejected: list[str] = []

    async def answer_some(self, runs: AgentRuns, run_id: str) -> None:
        """Answer a part of the open questions, in any order, each at the run that asked or at the top."""
        for question in self.random.sample(questions := await self.open(runs, run_id), len(questions)):
            if self.random.random() < 0.5:
                continue
            what = str(question.arguments["what"])
            is_yes = self.random.random() < 0.6
            (self.approved if is_yes else self.rejected).append(what)
            await (runs.approve(question.id) if is_yes else runs.reject(question.id))

    async def open(self, runs: AgentRuns, run_id: str) -> list[AgentApprovalRequest]:
        """The questions nobody has answered; one that is asked again must be the same one."""
        found: list[AgentApprovalRequest] = []
        for question in await runs.questions(run_id):
            assert isinstance(question, AgentApprovalRequest)
            what = str(question.arguments["what"])
            known = self.asked.setdefault(what, (question.id, question.agent_state_id))
            assert known == (question.id, question.agent_state_id), f"{what} is asked twice"
            if what not in (*self.approved, *self.rejected):
                found.append(question)
        return found


async def asked_once(family: Family) -> bool:
    """Whether no run wrote the same question down twice."""
    for state in await family.states():
        waits = [
            row.action_id
            for row in await family.rows(state.id)
            if row.kind is AgentActionKind.APPROVAL_WAIT and row.stage is JournalStage.BEFORE
        ]
        if len(waits) != len(set(waits)):
            return False
    return True


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(40))
async def test_whatever_the_order_each_answer_counts_once_and_nothing_is_asked_twice(seed: int) -> None:
    family, people = Family(), People(Random(seed))  # noqa: S311 - a test at random, with its seed
    async with family.process(*(agents := three_levels(family))) as runs:
        result = await start(runs, agents[0])
        assert len(await people.open(runs, result.state.id)) == 9
    for _ in range(200):
        if result.state.is_terminal:
            break
        async with family.process(*three_levels(family)) as runs:
            await people.answer_some(runs, result.state.id)
            if people.random.random() < 0.8:
                result = await resume(runs, result.state.id)
    assert result.status is AgentStatus.COMPLETED, f"seed {seed}: {result.state.current_activity}"
    assert family.world.done == dict.fromkeys(people.approved, 1), f"seed {seed}"
    assert len(people.approved) + len(people.rejected) == 9
    assert await asked_once(family)


async def test_a_question_is_answered_at_the_top_as_well_as_at_the_run_that_asked() -> None:
    family = Family()
    async with family.process(*(agents := three_levels(family))) as runs:
        result = await start(runs, agents[0])
        grandchild = await family.state_of("grandchild")
        questions = [q for q in await runs.questions(result.state.id) if q.agent_state_id == grandchild.id]
        assert [q.id for q in await runs.questions(grandchild.id)] == [q.id for q in questions]
        with pytest.raises(CallerError, match="Resume that one"):
            await runs.resume(grandchild.id)
        await runs.approve(questions[0].id)
        result = await resume(runs, result.state.id)
    assert family.world.done == {"g0": 1}
    assert result.status is AgentStatus.INTERRUPTED


async def test_an_answer_to_one_run_is_none_to_another() -> None:
    family = Family()
    async with family.process(*(agents := three_levels(family))) as runs:
        result = await start(runs, agents[0])
        child = await family.state_of("child")
        own = [q for q in await runs.questions(result.state.id) if q.agent_state_id == result.state.id]
        with pytest.raises(CallerError, match="waits for no answer"):
            await runs.answer(child.id, own[0].id, ApprovalDecision.APPROVE)


DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(name="low", recovery=DURABLE, instructions="I am low.", on_rejection=TELL))
class Low:
    """The lowest."""

    def __init__(self, model: IAgentModel, hands: Hands) -> None:
        self.model, self.hands = model, hands


@Agent(
    spec=AgentExecutionSpec(
        name="middle",
        recovery=DURABLE,
        instructions="I am middle.",
        on_rejection=TELL,
        delegation_allowed=True,
        teammates=[AgentTeammate("low", pod=Low)],
    )
)
class Middle:
    """In between."""

    def __init__(self, model: IAgentModel, hands: Hands) -> None:
        self.model, self.hands = model, hands


@Agent(
    spec=AgentExecutionSpec(
        name="top",
        recovery=DURABLE,
        instructions="I am top.",
        on_rejection=TELL,
        delegation_allowed=True,
        teammates=[AgentTeammate("middle", pod=Middle)],
    )
)
class Top:
    """Above all."""

    def __init__(self, model: IAgentModel, hands: Hands) -> None:
        self.model, self.hands = model, hands


def talk() -> ScriptedModel:
    """Each of them asks for three gated calls in one reply, and for the one below it in the middle of them."""

    def asks(name: str, mate: str | None) -> list[object]:
        parts = [calls("ask", what=f"{name}{n}") for n in range(3)]
        if mate is not None:
            parts.insert(1, calls(f"ask_{mate}", task="go on"))
        return [turn(*parts), says(f"{name} done")]

    return ScriptedModel(
        [
            when("I am top.", *asks("t", "middle")),  # type: ignore[arg-type]
            when("I am middle.", *asks("m", "low")),  # type: ignore[arg-type]
            when("I am low.", *asks("l", None)),  # type: ignore[arg-type]
        ],
        by_transcript=True,
    )


@pytest.mark.sample(10)
@pytest.mark.parametrize("seed", range(30))
async def test_models_that_ask_each_other_wait_and_go_on_in_any_order(seed: int) -> None:
    family, people = Family(), People(Random(seed))  # noqa: S311 - a test at random, with its seed
    result: RunResult | None = None
    for _ in range(300):
        async with family.process(Top, Middle, Low, model=talk()) as runs:
            if result is None:
                result = await start(runs, Top, "go")
            elif result.state.is_terminal:
                break
            else:
                await people.answer_some(runs, result.state.id)
                result = await resume(runs, result.state.id)
    assert result is not None
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "t done"), f"seed {seed}"
    assert family.world.done == dict.fromkeys(people.approved, 1), f"seed {seed}"
    assert len(people.approved) + len(people.rejected) == 9
    assert await asked_once(family)
