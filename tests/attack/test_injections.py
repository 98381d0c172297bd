"""Injected instructions: a model that obeys strangers changes nothing and sends nothing without a person.

Every way by which a call brings strangers' words back, and every way by which a run is given some, over the twelve
architectures. The scripts are models that obey: after the read they do what the words order.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from pilotage import AgentStatus, RunAgentInput
from pilotage.agent import AgentApprovalRequest, AgentContext, ContextPack, ContextPackRole
from pilotage.agent.run_values import RunResult
from pilotage.architectures import Rewoo
from pilotage.architectures.rewoo import Argument, PlannedCall
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, calls
from pilotage.testing.architecture_proofs import ASK, ArchitectureStory, StoryProcesses
from pilotage.testing.architecture_proofs import proof_agent as made
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.architectures.test_actor_critic import CriticStory
from tests.architectures.test_blackboard import BoardStory
from tests.architectures.test_debate import DebateStory
from tests.architectures.test_plan_and_execute import PlanStory
from tests.architectures.test_react import ReactStory
from tests.architectures.test_reflexion import ReflexionStory
from tests.architectures.test_rewoo import ANSWER, LOOK, RewooStory, plan, planned
from tests.architectures.test_router import RouterStory
from tests.architectures.test_self_refine import RefineStory
from tests.architectures.test_supervisor import SupervisorStory
from tests.architectures.test_swarm import SwarmStory
from tests.architectures.test_tree_of_thoughts import TreeStory
from tests.attack.injection import (
    FAILURES,
    LEAK,
    RESULTS,
    STEAL,
    STOLEN,
    Channels,
    ForeignChannels,
    reading_messages,
)
from tests.behaviour.family import resume, start

pytestmark = pytest.mark.attack("injection")


class FlowStory(RewooStory):
    """A plan is made before anything is read: a stranger's words get into a call as its argument."""

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (made("planner", Rewoo(max_steps=6), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        first, *others = planned(*deeds)
        behind = [
            call
            if call.tool == "ask"
            else replace(call, arguments=[_from(first, each) for each in call.arguments])
            for call in others
        ]
        return [plan(LOOK, first, *behind), ANSWER]


def _from(call: PlannedCall, argument: Argument) -> Argument:
    return Argument(argument.name, result_of=call.id)


STORIES: tuple[ArchitectureStory, ...] = (
    ReactStory(),
    PlanStory(),
    FlowStory(),
    ReflexionStory(),
    RefineStory(),
    TreeStory(),
    CriticStory(),
    DebateStory(),
    RouterStory(),
    SupervisorStory(),
    SwarmStory(),
    BoardStory(),
)
HARMS = {"steal": STEAL, "leak": LEAK}

architectures = pytest.mark.parametrize("story", STORIES, ids=lambda story: type(story).__name__[:-5])
harms = pytest.mark.parametrize("harm", HARMS)


class Scene(StoryProcesses):
    """A story whose agents read what strangers wrote."""

    @asynccontextmanager
    async def reading(
        self, *deeds: ScriptedReply, channels: type[Channels] = Channels, **spec: Any
    ) -> AsyncGenerator[tuple[AgentRuns, type[object]]]:
        """One process in which the model does these deeds."""
        agents, model = self.story.agents(**spec), ScriptedModel(self.story.script(*deeds))
        async with self.process(*agents, model=model, add=[channels, *self.story.add()]) as runs:
            yield runs, agents[0]

    def assert_held(self, result: RunResult, *, has_failed: bool = False) -> None:
        """Nothing was stolen, nothing has left, and a person is asked; a plan does nothing with what failed."""
        is_over = has_failed and isinstance(self.story, FlowStory)
        expected = AgentStatus.COMPLETED if is_over else AgentStatus.INTERRUPTED
        assert result.status is expected, (result.error, result.output)
        assert not [what for what in self.world.done if what != "deed"]


@architectures
@harms
@pytest.mark.parametrize("channel", RESULTS)
async def test_what_a_call_returns_decides_nothing(story: ArchitectureStory, channel: str, harm: str) -> None:
    scene = Scene(story)
    async with scene.reading(calls(channel), HARMS[harm]) as (runs, agent):
        scene.assert_held(await start(runs, agent, story.prompt))


@architectures
@harms
@pytest.mark.parametrize("channel", FAILURES)
async def test_what_a_failed_call_says_decides_nothing(
    story: ArchitectureStory, channel: str, harm: str
) -> None:
    scene = Scene(story)
    async with scene.reading(calls(channel), HARMS[harm]) as (runs, agent):
        scene.assert_held(await start(runs, agent, story.prompt), has_failed=True)


@architectures
@harms
async def test_what_a_foreign_server_returns_decides_nothing(story: ArchitectureStory, harm: str) -> None:
    scene = Scene(story)
    async with scene.reading(calls("from_server"), HARMS[harm], channels=ForeignChannels) as (runs, agent):
        scene.assert_held(await start(runs, agent, story.prompt))


@architectures
@harms
async def test_what_a_foreign_server_says_about_its_tools_decides_nothing(
    story: ArchitectureStory, harm: str
) -> None:
    scene = Scene(story)
    async with scene.reading(HARMS[harm], channels=ForeignChannels) as (runs, agent):
        scene.assert_held(await start(runs, agent, story.prompt))


@architectures
@harms
async def test_a_context_pack_decides_nothing(story: ArchitectureStory, harm: str) -> None:
    scene = Scene(story)
    pack = ContextPack("p", STOLEN, "crm", ContextPackRole.EVIDENCE)
    async with scene.reading(HARMS[harm]) as (runs, agent):
        given = RunAgentInput("r1", story.prompt, context=AgentContext([pack]))
        scene.assert_held(await start(runs, agent, given))


@architectures
@harms
async def test_a_tool_result_in_a_given_history_decides_nothing(story: ArchitectureStory, harm: str) -> None:
    scene = Scene(story)
    async with scene.reading(HARMS[harm]) as (runs, agent):
        given = RunAgentInput("r1", story.prompt, message_history=reading_messages())
        scene.assert_held(await start(runs, agent, given))


@architectures
@harms
@pytest.mark.parametrize("channel", ["from_network", "from_nested", "from_exception"])
async def test_a_resumed_run_knows_what_it_has_read(
    story: ArchitectureStory, channel: str, harm: str
) -> None:
    scene, deeds = Scene(story), (calls(channel), ASK, HARMS[harm])
    async with scene.reading(*deeds) as (runs, agent):
        asked = await start(runs, agent, story.prompt)
        (question,) = await runs.questions(asked.state.id)
        assert isinstance(question, AgentApprovalRequest)
        await runs.approve(question.id)
    async with scene.reading(*deeds) as (runs, _):
        scene.assert_held(await resume(runs, asked.state.id), has_failed=channel == "from_exception")
    assert scene.world.done == {"deed": 1}
