"""What loops with parallel branches tell: every text whole under its id, with its place, in a stream that AG-UI takes."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pilotage import (
    AgentEvent,
    AgentExecutionSpec,
    Application,
    MessageDeltaEvent,
    Principal,
    RunAgentInput,
    get_run_context,
)
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.agent import (
    AgentEventAttribution,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallStartEvent,
)
from pilotage.agent.principal import RunContext
from pilotage.agent.stereotype import Agent
from pilotage.agent.tools import ToolEffects, agent_tool
from pilotage.architectures import Debate, Supervisor
from pilotage.container import Pod
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ProcessStopped, ScriptedModel, StopAfter, calls, says
from pilotage.testing.architecture_proofs import WRITE, StoryProcesses, replies_of
from pilotage.testing.proof_world import HostileTools
from tests.adapters.agui.sequence import fault_in
from tests.architectures.test_debate import VoteStory
from tests.behaviour.family import resume, start, told

ARGUMENTS, TEXT = "TOOL_CALL_ARGS", "TEXT_MESSAGE_CONTENT"


async def test_branches_stream_side_by_side_and_every_text_is_whole() -> None:
    story = VoteStory()
    stage, model = StoryProcesses(story), ScriptedModel(story.script(WRITE))
    async with stage.play(model) as (runs, chosen):
        result = await start(runs, chosen)
        events = await told(runs, result.state.id)
    texts: dict[tuple[str | None, str], str] = defaultdict(str)
    for event in events:
        if isinstance(event, MessageDeltaEvent):
            texts[event.attribution.branch, event.message_id] += event.delta
    assert {branch for branch, _ in texts} == {
        f"debater#{round_}/{n}/{name}#1"
        for round_ in (1, 2)
        for n, name in enumerate(("pro", "con", "third"))
    }
    assert all(json.loads(text)["reasoning"] == "because" for text in texts.values())
    projector = AgUiProjector()
    frames = [frame for event in events for frame in projector.project(event)]
    assert fault_in(frame.model_dump(mode="json", by_alias=True) for frame in frames) is None


def test_parts_that_speak_at_the_same_time_do_not_cut_each_other_off_for_agui_clients() -> None:
    top = AgentEventAttribution("panel", "r1", "r1")
    one, other = replace(top, branch="step#1/0"), replace(top, branch="step#1/1")
    events: list[AgentEvent] = [
        RunStartedEvent(top),
        StepStartedEvent(one, "model-1"),
        StepStartedEvent(other, "model-1"),
        ToolCallStartEvent(one, "c1", "look"),
        ToolCallArgsDeltaEvent(one, "c1", '{"what": '),
        MessageDeltaEvent(other, "m2", "Let me "),
        ToolCallArgsDeltaEvent(one, "c1", '"it"}'),
        StepFinishedEvent(one, "model-1"),
        MessageDeltaEvent(other, "m2", "see."),
        StepFinishedEvent(other, "model-1"),
        RunFinishedEvent(top),
    ]
    projector = AgUiProjector()
    frames = [
        frame.model_dump(mode="json", by_alias=True) for event in events for frame in projector.project(event)
    ]
    assert fault_in(frames) is None
    told = {kind: "".join(f["delta"] for f in frames if f["type"] == kind) for kind in (ARGUMENTS, TEXT)}
    assert told == {ARGUMENTS: '{"what": "it"}', TEXT: "Let me see."}
    assert [frame["type"] for frame in frames].count("TEXT_MESSAGE_START") == 1


async def test_nothing_is_told_twice_when_a_process_dies_between_branches() -> None:
    story = VoteStory()
    for number in range(2, 6):
        stage, model = StoryProcesses(story), ScriptedModel(story.script(calls("note", what="deed")))
        agents = story.agents()
        with suppress(ProcessStopped):
            async with stage.process(
                *agents, model=model, fault=StopAfter(number), add=[HostileTools]
            ) as runs:
                await start(runs, agents[0])
        async with stage.play(model.restarted()) as (runs, _):
            (state,) = await stage.states()
            if not state.is_terminal:
                await resume(runs, state.id)
            events = await told(runs, state.id)
        steps = [event.step_name for event in events if isinstance(event, StepFinishedEvent)]
        assert [step for step in steps if step.startswith("debate")] == ["debate.answered"] * 2, number
        arguments = [event for event in events if isinstance(event, ToolCallArgsDeltaEvent)]
        assert "".join(event.args_delta for event in arguments).count('"deed"') == 1, number


class Seen:
    """What tools know of their run."""

    def __init__(self) -> None:
        self.contexts: list[RunContext] = []


@Pod
class Looking:
    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    @agent_tool(effects=ToolEffects.read_only())
    async def whoami(self) -> str:
        """Say for whom the run works."""
        self.seen.contexts.append(get_run_context())
        return "seen"


@Agent(spec=AgentExecutionSpec(name="clerk", instructions="You are the clerk."))
class Clerk:
    def __init__(self, looking: Looking) -> None:
        self.looking = looking


@Agent(
    spec=AgentExecutionSpec(
        name="chief", instructions="You are the chief.", architecture=Supervisor(workers={"clerk": Clerk})
    )
)
class Chief:
    def __init__(self, looking: Looking) -> None:
        self.looking = looking


async def test_tools_of_workers_know_tenant_user_conversation_and_metadata_of_the_run_above() -> None:
    seen = Seen()
    delegate = calls("delegate", worker="clerk", instructions="look")
    model = ScriptedModel(
        [
            replies_of("clerk", calls("whoami"), says("Seen.")),
            replies_of("chief", calls("whoami"), delegate, says("Done.")),
        ]
    )
    app = Application("office").add(Chief, Clerk, Looking, seen, model, *MemoryStore().ports)
    initialize(app)
    async with app:
        given = RunAgentInput("r1", "go", conversation_id="talk-7", metadata={"ticket": "T1"})
        await (await app.get(AgentRuns).start(Chief, given, principal=Principal("ada", "acme"))).result()
    above, below = seen.contexts
    assert (above.tenant_id, above.user_id, above.session_id) == ("acme", "ada", "talk-7")
    assert (below.tenant_id, below.user_id, below.session_id) == ("acme", "ada", "talk-7")
    assert below.metadata == above.metadata
    assert below.run_id != above.run_id


def test_specs_are_no_agents_of_the_application() -> None:
    specs: dict[str, Any] = {name: AgentExecutionSpec(instructions=name) for name in ("pro", "con")}
    assert Debate(specs).declared_workers() == {}
