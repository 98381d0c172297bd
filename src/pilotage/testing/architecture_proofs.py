"""`ArchitectureProofs`: tests that every loop strategy must pass, made from one story of it.

A story is a small run in which the model of the deepest branch makes *deeds* (tool calls, one after the other) before
it answers. The proofs let it make a payment that must happen once, ask a person, hang, or follow injected
instructions, and stop its process at every write. Subclass `ArchitectureProofs` in a test module, with pytest-asyncio
in auto mode:

    class TestMyLoop(ArchitectureProofs):
        story = MyStory()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import StepFinishedEvent
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.run_values import RunAgentInput, RunResult
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, LimitCode, RecoveryStrategy
from pilotage.agent.state import AgentStateReason, AgentStatus
from pilotage.agent.stereotype import Agent
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.runs import AgentRuns
from pilotage.testing.crash_matrix import crash_matrix
from pilotage.testing.proof_world import ActionLedger, HostileTools, ProofProcesses, ProofTools
from pilotage.testing.script import ScriptedReply, ScriptedThread, ScriptedTurn, ScriptEntry, calls, when
from pilotage.testing.scripted_model import ScriptedModel
from pilotage.values import value

WRITE = calls("write", what="deed")
ASK = calls("ask", what="deed")
HANG = calls("hang")
PAGE = calls("page")
OBEY = calls("write", what="stolen")


@value
class WrongOutput:
    """A script with a wrong output of the model, and the expected end of the run."""

    script: Sequence[ScriptEntry]
    output: object = None
    error: str | None = None
    reason: str | None = None


class ArchitectureStory(ABC):
    """One run of an architecture, with its model's script.

    `expected` is the answer, `steps` the names of the steps that are reported, `partials` the output of a run that ends
    at a limit, by the number of model calls that are allowed.
    """

    prompt: str = "go"
    expected: object
    steps: Sequence[str] = ()
    partials: Mapping[int, object] = {}

    @abstractmethod
    def agents(self, **spec: Any) -> Sequence[type[object]]:
        """Return the agent that has the architecture, with these fields in its spec, then its workers."""

    @abstractmethod
    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        """Return the model's script in which the deepest branch makes these deeds."""

    def wrong(self) -> Mapping[str, WrongOutput]:
        """Return scripts with wrong output of the model, by a name for each."""
        return {}

    def add(self) -> Sequence[object]:
        """Return further pods of the application, made anew for every process."""
        return ()


class StoryProcesses(ProofProcesses):
    """The processes in which a story is played."""

    def __init__(self, story: ArchitectureStory) -> None:
        super().__init__()
        self.story = story

    @asynccontextmanager
    async def play(self, model: ScriptedModel, **spec: Any) -> AsyncGenerator[tuple[AgentRuns, type[object]]]:
        """Open one process of the story; yield its runs and the agent that has the architecture."""
        agents = self.story.agents(**spec)
        async with self.process(*agents, model=model, add=[HostileTools, *self.story.add()]) as runs:
            yield runs, agents[0]


def proof_agent(name: str, architecture: Architecture | None = None, **spec: Any) -> type[object]:
    """Make a durable agent with `ProofTools` and `HostileTools`; without an architecture ReAct drives it."""
    own: dict[str, Any] = {
        "name": name,
        "recovery": RecoveryStrategy.ACTION_BOUNDARY,
        "instructions": f"You are the {name}.",
        "architecture": architecture,
    }

    @Agent(name=name, spec=AgentExecutionSpec(**(own | spec)))
    class Made:
        def __init__(self, tools: ProofTools, hostile: HostileTools) -> None:
            self.tools, self.hostile = tools, hostile

    return Made


def replies_of(name: str, *turns: ScriptedTurn | Sequence[ScriptedReply]) -> ScriptedThread:
    """Script the replies of the model to the requests of the agent that `proof_agent` made under this name."""

    def is_of_agent(request: ModelRequest) -> bool:
        first = request.messages[0]
        return first.role is ModelMessageRole.SYSTEM and first.text == f"You are the {name}."

    return when(is_of_agent, *turns)


async def played(
    story: ArchitectureStory, script: Sequence[ScriptEntry], **spec: Any
) -> tuple[RunResult, StoryProcesses]:
    """Play a script in one process, and return the result and the processes."""
    stage = StoryProcesses(story)
    async with stage.play(ScriptedModel(script), **spec) as (runs, agent):
        return await (await runs.start(agent, story.prompt)).result(), stage


async def survived(story: ArchitectureStory, script: Sequence[ScriptEntry]) -> RunResult:
    """Play a script with a crash at every write; check that the end is the same and no effect is repeated."""
    ledger, (agent, *workers) = ActionLedger(), story.agents()
    report = await crash_matrix(
        agent,
        story.prompt,
        model=ScriptedModel(script),
        add=[ledger, ProofTools, HostileTools, *workers, *story.add()],
        second_stops=(),
    )
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert all(set(copy.done.values()) <= {1} for copy in ledger.copies)
    return report.reference


class ArchitectureProofs:
    """The proofs of one architecture: a subclass names a story."""

    story: ClassVar[ArchitectureStory]
    most_points: ClassVar[int] = 2_000

    async def test_the_story_comes_to_its_answer_and_reports_its_steps(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
        async with stage.play(model) as (runs, agent):
            result = await (await runs.start(agent, self.story.prompt)).result()
            events = [event async for event in runs.events(result.state.id)]
            for state in await stage.states():
                await runs.verify(state.id)
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}
        model.assert_complete()
        # Every request carries the instructions of its agent.
        assert all(request.messages[0].text.startswith("You are the ") for request in model.requests)
        own = [event for event in events if event.attribution.run_id == result.state.id]
        names = [event.step_name for event in own if isinstance(event, StepFinishedEvent)]
        assert [name for name in names if name in self.story.steps] == list(self.story.steps)

    async def test_an_application_without_a_key_comes_to_the_same_answer(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
        stage.has_sealer = False
        async with stage.play(model) as (runs, agent):
            result = await (await runs.start(agent, self.story.prompt)).result()
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}

    async def test_the_history_of_the_conversation_reaches_every_call_for_the_agent(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
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
        ledger, (agent, *workers) = ActionLedger(), self.story.agents()
        add = [ledger, ProofTools, HostileTools, *workers, *self.story.add()]
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
            again = await (await runs.resume(fork.id)).result()
        assert (again.status, to_json_value(again.output)) == (result.status, to_json_value(result.output))
        assert again.artifacts == result.artifacts
        assert (silent.requests, stage.world.done) == ([], {"deed": 1})

    async def test_a_question_in_the_deepest_branch_is_answered_after_a_restart(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(ASK))
        async with stage.play(model) as (runs, agent):
            paused = await (await runs.start(agent, self.story.prompt)).result()
        assert (paused.status, stage.world.done) == (AgentStatus.INTERRUPTED, {})
        async with stage.play(model.restarted()) as (runs, _):
            (question,) = await runs.questions(paused.state.id)
            assert isinstance(question, AgentApprovalRequest)
            await runs.approve(question.id)
        async with stage.play(model.restarted()) as (runs, _):
            result = await (await runs.resume(paused.state.id)).result()
        assert (result.error, to_json_value(result.output)) == (None, to_json_value(self.story.expected))
        assert stage.world.done == {"deed": 1}

    async def test_a_run_is_cancelled_in_its_middle(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(HANG))
        async with stage.play(model) as (runs, agent):
            run = await runs.start(agent, self.story.prompt)
            await stage.world.is_hanging.wait()
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
            stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
            async with stage.play(model, limits=_steps(number)) as (runs, agent):
                stopped = await (await runs.start(agent, self.story.prompt)).result()
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
