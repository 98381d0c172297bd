"""The proofs that every architecture gives, from one story of it.

A story is a small run in which the model of the deepest branch does *deeds* (tool calls, one after the other) before it
says something. The kit lets it do a payment that must happen once, ask a person, hang, or obey a stranger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pilotage import AgentExecutionLimits, AgentStatus, ModelMessage, RunAgentInput
from pilotage.agent import AgentApprovalRequest, AgentDefinition, StepFinishedEvent
from pilotage.agent.run_values import RunResult
from pilotage.agent.spec import LimitCode
from pilotage.agent.state import AgentStateReason
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, calls, crash_matrix
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.architectures.world import Hands, Ledger, Perils
from tests.behaviour.family import Family, resume, start, told

WRITE = calls("write", what="deed")
ASK = calls("ask", what="deed")
HANG = calls("hang")
PAGE = calls("page")
OBEY = calls("write", what="stolen")


@dataclass(frozen=True)
class Wrong:
    """A script in which the model gets something wrong, and what comes of it."""

    script: Sequence[ScriptEntry]
    output: object = None
    error: str | None = None
    reason: str | None = None


class ArchitectureStory(ABC):
    """One architecture at work."""

    prompt: str = "go"
    expected: object
    steps: Sequence[str] = ()
    partials: Mapping[int, object] = {}
    """By the number of model calls that are allowed, what a run ends with."""

    @abstractmethod
    def agents(self, **spec: Any) -> Sequence[type[object]]:
        """The agent that has the architecture, with this in its spec, and behind it its workers."""

    @abstractmethod
    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        """What the model says when it does these deeds in the deepest branch."""

    def wrong(self) -> Mapping[str, Wrong]:
        """What goes wrong, by a name for it."""
        return {}

    def add(self) -> Sequence[object]:
        """What the application has besides, made anew for every process."""
        return ()


class Stage(Family):
    """A family whose world also holds up and lies."""

    def __init__(self, story: ArchitectureStory) -> None:
        super().__init__()
        self.story = story
        self.world = self.ledger = Ledger()

    @asynccontextmanager
    async def play(self, model: ScriptedModel, **spec: Any) -> AsyncGenerator[tuple[AgentRuns, type[object]]]:
        """One process of the story."""
        agents = self.story.agents(**spec)
        async with self.process(*agents, model=model, add=[Perils, *self.story.add()]) as runs:
            yield runs, agents[0]


async def played(
    story: ArchitectureStory, script: Sequence[ScriptEntry], **spec: Any
) -> tuple[RunResult, Stage]:
    """Play a script to where it gets."""
    stage = Stage(story)
    async with stage.play(ScriptedModel(script), **spec) as (runs, agent):
        return await start(runs, agent, story.prompt), stage


async def survived(story: ArchitectureStory, script: Sequence[ScriptEntry]) -> RunResult:
    """Play a script with a crash at every write: it comes to the same end, and repeats no effect."""
    ledger, (agent, *workers) = Ledger(), story.agents()
    report = await crash_matrix(
        agent,
        story.prompt,
        model=ScriptedModel(script),
        add=[ledger, Hands, Perils, *workers, *story.add()],
        second_stops=(),
    )
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert all(set(copy.done.values()) <= {1} for copy in ledger.copies)
    return report.reference


class ArchitectureProofs:
    """Every subclass names a story, and proves all of this for it."""

    story: ClassVar[ArchitectureStory]
    most_points: ClassVar[int] = 2_000

    async def test_the_story_comes_to_its_answer_and_tells_its_steps(self) -> None:
        stage, model = Stage(self.story), ScriptedModel(self.story.script(WRITE))
        async with stage.play(model) as (runs, agent):
            result = await start(runs, agent, self.story.prompt)
            events = await told(runs, result.state.id)
            for state in await stage.states():
                await runs.verify(state.id)
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}
        model.assert_complete()
        # Whoever speaks has instructions.
        assert all(request.messages[0].text.startswith("You are the ") for request in model.requests)
        own = [event for event in events if event.attribution.run_id == result.state.id]
        names = [event.step_name for event in own if isinstance(event, StepFinishedEvent)]
        assert [name for name in names if name in self.story.steps] == list(self.story.steps)

    async def test_an_application_without_a_key_comes_to_the_same_answer(self) -> None:
        stage, model = Stage(self.story), ScriptedModel(self.story.script(WRITE))
        stage.has_sealer = False
        async with stage.play(model) as (runs, agent):
            result = await start(runs, agent, self.story.prompt)
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}

    async def test_what_was_said_before_reaches_every_call_that_speaks_for_the_agent(self) -> None:
        stage, model = Stage(self.story), ScriptedModel(self.story.script(WRITE))
        before = [ModelMessage.user("My name is Ada."), ModelMessage.assistant("Hello, Ada.")]
        async with stage.play(model) as (runs, agent):
            given = RunAgentInput("r1", self.story.prompt, message_history=before)
            result = await (await runs.start(agent, given)).result()
            lead = AgentDefinition.get(agent).instructions
        assert to_json_value(result.output) == to_json_value(self.story.expected)
        own = [request for request in model.requests if request.messages[0].text == lead]
        for request in own:
            assert any("My name is Ada." in message.text for message in request.messages)

    async def test_a_crash_at_any_write_changes_nothing(self) -> None:
        ledger, (agent, *workers) = Ledger(), self.story.agents()
        add = [ledger, Hands, Perils, *workers, *self.story.add()]
        report = await crash_matrix(
            agent,
            self.story.prompt,
            model=ScriptedModel(self.story.script(WRITE)),
            add=add,
            second_stops=(1, 2),
        )
        assert 20 < report.points < self.most_points
        assert to_json_value(report.reference.output) == to_json_value(self.story.expected)
        report.assert_same_result()
        report.assert_no_repeated_effects()
        done = [copy.done["deed"] for copy in ledger.copies if copy.done]
        assert len(done) == report.points
        assert set(done) == {1}

    async def test_a_completed_run_replays_without_a_single_effect(self) -> None:
        result, stage = await played(self.story, self.story.script(WRITE))
        silent = ScriptedModel([])
        async with stage.play(silent) as (runs, _):
            fork = await runs.fork(result.state.id)
            again = await resume(runs, fork.id)
        assert (again.status, to_json_value(again.output)) == (result.status, to_json_value(result.output))
        assert again.artifacts == result.artifacts
        assert (silent.requests, stage.world.done) == ([], {"deed": 1})

    async def test_a_question_in_the_deepest_branch_is_answered_after_a_restart(self) -> None:
        stage, model = Stage(self.story), ScriptedModel(self.story.script(ASK))
        async with stage.play(model) as (runs, agent):
            paused = await start(runs, agent, self.story.prompt)
        assert (paused.status, stage.world.done) == (AgentStatus.INTERRUPTED, {})
        async with stage.play(model.restarted()) as (runs, _):
            (question,) = await runs.questions(paused.state.id)
            assert isinstance(question, AgentApprovalRequest)
            await runs.approve(question.id)
        async with stage.play(model.restarted()) as (runs, _):
            result = await resume(runs, paused.state.id)
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}

    async def test_a_run_is_cancelled_in_its_middle(self) -> None:
        stage, model = Stage(self.story), ScriptedModel(self.story.script(HANG))
        async with stage.play(model) as (runs, agent):
            run = await runs.start(agent, self.story.prompt)
            await stage.ledger.is_hanging.wait()
            await runs.cancel(run.id, reason="enough")
            result = await run.result()
            states = await stage.states()
        assert result.status is AgentStatus.CANCELLED
        assert all(state.is_terminal for state in states)
        assert stage.world.done == {}

    async def test_a_budget_ends_it_with_the_best_so_far_and_the_reason(self) -> None:
        whole, _ = await played(self.story, self.story.script(WRITE))
        cuts = range(1, whole.spent.steps)
        ends = {n: (await played(self.story, self.story.script(WRITE), limits=_steps(n)))[0] for n in cuts}
        for number, result in ends.items():
            assert result.state.reason is AgentStateReason.LIMIT_REACHED, (number, result.error)
            assert result.interruption_reason == LimitCode.MAX_STEPS, (number, result.error)
            assert result.spent.steps == number
        found = {number: to_json_value(result.output) for number, result in ends.items()}
        assert {number: found[number] for number in self.story.partials} == self.story.partials

    async def test_a_run_at_a_limit_goes_on_under_a_higher_one(self) -> None:
        whole, _ = await played(self.story, self.story.script(WRITE))
        for number in range(1, whole.spent.steps):
            stage, model = Stage(self.story), ScriptedModel(self.story.script(WRITE))
            async with stage.play(model, limits=_steps(number)) as (runs, agent):
                stopped = await start(runs, agent, self.story.prompt)
            async with stage.play(model.restarted(), limits=_steps(number)) as (runs, _):
                higher = await runs.resume(stopped.state.id, limits=_steps(whole.spent.steps))
                result = await higher.result()
                for state in await stage.states():
                    await runs.verify(state.id)
            assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
            assert (result.spent.steps, stage.world.done) == (whole.spent.steps, {"deed": 1})

    async def test_wrong_output_of_the_model_is_handled(self) -> None:
        for name, wrong in self.story.wrong().items():
            result, _ = await played(self.story, wrong.script)
            if wrong.error is None and wrong.reason is None:
                assert (result.error, to_json_value(result.output)) == (None, wrong.output), name
                continue
            stopped = AgentStatus.FAILED if wrong.reason is None else AgentStatus.INTERRUPTED
            assert result.status is stopped, (name, result.error)
            assert wrong.error is None or wrong.error in str((result.error or {})["message"]), (
                name,
                result.error,
            )
            assert wrong.reason is None or (result.interruption_reason == wrong.reason), (name, result.error)
            assert wrong.output is None or to_json_value(result.output) == wrong.output, name

    async def test_a_model_that_obeys_a_stranger_reaches_no_side_effect_unasked(self) -> None:
        result, stage = await played(self.story, self.story.script(PAGE, OBEY))
        assert result.status is AgentStatus.INTERRUPTED
        assert stage.world.done == {}


def _steps(number: int) -> AgentExecutionLimits:
    return AgentExecutionLimits(max_steps=number)
