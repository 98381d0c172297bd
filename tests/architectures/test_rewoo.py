"""ReWOO: the whole plan first, typed references, and no result that changes the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.agent import ToolCallResultEvent, ToolCallStartEvent
from pilotage.architectures import Rewoo
from pilotage.architectures.rewoo import Argument, CallPlan, PlannedCall
from pilotage.testing import ScriptedModel, calls, says
from pilotage.testing.architecture_proofs import (
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    StoryProcesses,
    WrongOutput,
    played,
    proof_agent,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import start, told

LOOK = PlannedCall("E1", "look", [Argument("what", "order 7")])
AGAIN = PlannedCall("E2", "look", [Argument("what", result_of="E1")])
ANSWER = says("Paid and noted.")


def planned(*deeds: ScriptedReply) -> list[PlannedCall]:
    """Deeds as calls of a plan, each behind the one before."""
    made = [call for deed in deeds for call in deed.calls]
    return [
        PlannedCall(f"D{n}", call.name, [Argument(name, given) for name, given in call.arguments.items()])
        for n, call in enumerate(made)
    ]


def plan(*made: PlannedCall) -> ScriptedReply:
    return says(output=CallPlan(made))


class RewooStory(ArchitectureStory):
    expected = "Paid and noted."
    steps = ("rewoo.planned", "rewoo.level_done", "rewoo.level_done")
    partials = {1: "- E1: saw order 7\n- D0: deed\n- E2: saw saw order 7"}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("planner", Rewoo(max_steps=4), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [plan(LOOK, *planned(*deeds), AGAIN), ANSWER]

    def wrong(self) -> Mapping[str, WrongOutput]:
        unknown = plan(PlannedCall("E1", "guess", []))
        cyclic = plan(
            PlannedCall("E1", "look", [Argument("what", result_of="E2")]),
            PlannedCall("E2", "look", [Argument("what", result_of="E1")]),
        )
        dangling = plan(PlannedCall("E1", "look", [Argument("what", result_of="E9")]))
        misnamed = plan(PlannedCall("E1", "look", [Argument("whom", "x")]))
        torn = plan(PlannedCall("E1", "look", [Argument("what", "x", member="y")]))
        both = plan(LOOK, PlannedCall("E2", "look", [Argument("what", "x", result_of="E1")]))
        good = plan(LOOK)
        failing = plan(PlannedCall("E1", "fail", [Argument("what", "x")]), AGAIN)
        deep = plan(LOOK, PlannedCall("E2", "look", [Argument("what", result_of="E1", member="price")]))
        return {
            "an unknown tool is repaired": WrongOutput([unknown, good, ANSWER], "Paid and noted."),
            "an unknown tool twice is an error": WrongOutput(
                [unknown, unknown], error="'guess', which is no tool"
            ),
            "a cyclic plan twice is an error": WrongOutput([cyclic, cyclic], error="wait for each other"),
            "a bad reference twice is an error": WrongOutput(
                [dangling, dangling], error="needs 'E9', which is no step"
            ),
            "a wrong argument twice is an error": WrongOutput(
                [misnamed, misnamed], error="takes no argument 'whom'"
            ),
            "a member of nothing twice is an error": WrongOutput(
                [torn, torn], error="a member without a result_of"
            ),
            "a value and a reference at once is an error": WrongOutput([both, both], error="Give one"),
            "prose is repaired": WrongOutput([says("I would look."), good, ANSWER], "Paid and noted."),
            "an empty plan is repaired": WrongOutput([plan(), good, ANSWER], "Paid and noted."),
            "an empty plan twice is an error": WrongOutput([plan(), plan()], error="there is no step"),
            "a call that fails keeps those that need it from being made": WrongOutput(
                [failing, says("No.")], "No."
            ),
            "a member that is not there is told to the solver": WrongOutput(
                [deep, says("No price.")], "No price."
            ),
        }


class TestRewoo(ArchitectureProofs):
    story = RewooStory()

    async def test_the_planner_never_sees_a_result(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
        async with stage.play(model) as (runs, chosen):
            await start(runs, chosen)
        planner, solver = model.requests
        assert not any("saw order 7" in message.text for message in planner.messages)
        assert any("saw order 7" in message.text for message in solver.messages)
        assert planner.tool_calling is None
        assert solver.tool_calling is None

    async def test_every_call_is_told_with_its_result(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel([plan(LOOK, AGAIN), ANSWER])
        async with stage.play(model) as (runs, chosen):
            result = await start(runs, chosen)
            events = await told(runs, result.state.id)
        starts = [event.call_id for event in events if isinstance(event, ToolCallStartEvent)]
        results = {event.call_id: event.result for event in events if isinstance(event, ToolCallResultEvent)}
        assert starts == list(results)
        assert list(results.values()) == ["saw order 7", "saw saw order 7"]

    async def test_a_call_of_a_tool_is_not_the_answer_of_the_solver(self) -> None:
        result, stage = await played(self.story, [plan(LOOK), calls("write", what="deed"), says("Fine.")])
        assert (result.output, stage.world.done) == ("Fine.", {})
