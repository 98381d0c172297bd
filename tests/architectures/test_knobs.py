"""Every knob of every architecture takes effect: a table of two values each, and what differs between them.

A knob that a constructor has and the table has not fails the test of the signatures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import pytest
from tools.prompt_table import LOOPS as DOCUMENTED
from tools.prompt_table import PAGE as WRITTEN
from tools.prompt_table import page

from pilotage import (
    Agent,
    AgentDefinitionError,
    AgentExecutionSpec,
    ModelRequest,
    Pod,
    ToolEffects,
    agent_tool,
    run,
)
from pilotage.agent import MemoryScope, ModelFinishReason, ModelResponse, ModelStreamEvent
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.run_values import RunResult
from pilotage.architectures import (
    ActorCritic,
    Blackboard,
    Coordination,
    Debate,
    PlanAndExecute,
    Position,
    React,
    Reflexion,
    Rewoo,
    Router,
    Ruling,
    SelfRefine,
    Supervisor,
    Swarm,
    TreeOfThoughts,
    Verdict,
)
from pilotage.architectures.blackboard import NextTurn
from pilotage.architectures.plan_and_execute import Plan, PlanStep, StepReport, StepStatus
from pilotage.architectures.reflexion import Evaluation
from pilotage.architectures.rewoo import CallPlan, PlannedCall
from pilotage.architectures.router import Route
from pilotage.architectures.self_refine import Critique, Issue
from pilotage.architectures.tree_of_thoughts import Thoughts
from pilotage.testing import MemoryAgentMemory, ScriptedModel, calls, says, turn, when
from pilotage.testing.architecture_proofs import (
    PAGE,
    ArchitectureStory,
    StoryProcesses,
    proof_agent,
    replies_of,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import start

LOOPS: tuple[type[Any], ...] = (
    ActorCritic,
    Blackboard,
    Debate,
    PlanAndExecute,
    React,
    Reflexion,
    Rewoo,
    Router,
    SelfRefine,
    Supervisor,
    Swarm,
    TreeOfThoughts,
)


@dataclass(frozen=True)
class Seen:
    """What came of a run."""

    result: RunResult
    model: ScriptedModel
    memory: MemoryAgentMemory
    open_questions: int
    kept: int = 0

    @property
    def asked(self) -> str:
        """Everything that was said to the model, tools included."""
        requests = self.model.requests
        tools = [tool.description or "" for each in requests for tool in _offered(each)]
        return "\n".join([message.text for each in requests for message in each.messages] + tools)

    @property
    def calls(self) -> int:
        return len(self.model.requests)


def _offered(request: Any) -> Sequence[Any]:
    return request.tool_calling.tools if request.tool_calling else ()


class KnobStory(ArchitectureStory):
    def __init__(self, loop: Architecture, memory: MemoryAgentMemory) -> None:
        self._loop, self._memory = loop, memory

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("boss", self._loop, **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return []

    def add(self) -> Sequence[object]:
        return [self._memory]


async def observed(loop: Architecture, script: Sequence[ScriptEntry]) -> Seen:
    memory = MemoryAgentMemory()
    stage, model = StoryProcesses(KnobStory(loop, memory)), ScriptedModel(script)
    async with stage.play(model) as (runs, chosen):
        result = await start(runs, chosen, "go")
        questions = len(await runs.questions(result.state.id))
    kept = await memory.export(MemoryScope("default", "local"))
    return Seen(result, model, memory, questions, len(kept))


@dataclass(frozen=True)
class Knob:
    """Two values of a knob, the script they are played with, and what is looked at."""

    loop: type[Any]
    name: str
    one: object
    other: object
    script: Sequence[ScriptEntry]
    look: Callable[[Seen], object]
    rest: Mapping[str, Any] | None = None


def worker(name: str) -> AgentExecutionSpec:
    return AgentExecutionSpec(instructions=f"You are the {name}.")


def outcome(seen: Seen) -> object:
    return seen.result.output, seen.result.interruption_reason, (seen.result.error or {}).get("message")


def how_often(seen: Seen) -> int:
    return seen.calls


def said(words: str) -> Callable[[Seen], object]:
    return lambda seen: words in seen.asked


A, B = worker("a"), worker("b")
TWO = {"a": A, "b": B}
LOOK = calls("look", what="x")
FAIL = calls("fail", what="x")
CUT = says("Half. ", finish_reason=ModelFinishReason.LENGTH)
TWO_LOOKS = turn(calls("look", what="x"), calls("look", what="y"))


def critique(score: float, *, done: bool = False) -> ScriptedReply:
    return says(output=Critique(score, done, [Issue("short")]))


def evaluation(score: float, lesson: str = "look first") -> ScriptedReply:
    return says(output=Evaluation(score, lesson))


def verdict(*scores: float) -> ScriptEntry:
    return replies_of("b", *(says(output=Verdict(score, "more")) for score in scores))


def thinks(*replies: ScriptedReply) -> ScriptEntry:
    return when("no thought yet", *replies)


def plan(*ids: str) -> ScriptedReply:
    return says(output=Plan([PlanStep(each, f"do {each}") for each in ids]))


def report(status: StepStatus = StepStatus.DONE) -> ScriptedReply:
    return says(output=StepReport("done", status))


def position(answer: str) -> ScriptedReply:
    return says(output=Position(answer))


def both(*replies: ScriptedReply) -> list[ScriptEntry]:
    return [replies_of("a", *replies), replies_of("b", *replies)]


def call_plan(*tools: str) -> ScriptedReply:
    planned = [
        PlannedCall(f"c{number}", tool, [{"name": "what", "value": "x"}])  # type: ignore[list-item]
        for number, tool in enumerate(tools)
    ]
    return says(output=CallPlan(planned))


def replaced(loop: type[Any], name: str, script: Sequence[ScriptEntry], rest: Mapping[str, Any]) -> Knob:
    """A prompt: another one is what the model gets instead."""
    default: str = signature(loop).parameters[name].default
    return Knob(loop, name, default, f"MY OWN WORDS. {default}", script, said("MY OWN WORDS."), rest)


REFINE = [says("D."), critique(0.3), says("E."), critique(0.9, done=True)]
LEARN = [says("D."), evaluation(0.3), says("E."), evaluation(0.9)]
CRITIC: Mapping[str, Any] = {"critic": B}
ACT = [replies_of("boss", says("D."), says("E."), says("F.")), verdict(0.3, 0.6, 0.7)]
PLAN = [
    when("Make a plan", plan("s")),
    when("Plan what is left", plan("t")),
    when("Carry out", report(StepStatus.FAILED), report()),
    when("All steps are done", says("A.")),
]
DEBATE = both(position("7"), position("7"))
SPLIT = [replies_of("a", position("7"), position("8")), replies_of("b", position("9"), position("9"))]
JUDGE = replies_of("judge", says(output=Ruling("b", agreed=True)))
ROUTE = [says(output=Route("a", 0.6)), replies_of("a", says("A.")), replies_of("b", says("B."))]
LEAD = [
    turn(
        calls("delegate", worker="a", instructions="x"),
        calls("delegate", worker="b", instructions="y"),
    ),
    says("A."),
    *both(says("w")),
]
HAND = [replies_of("a", calls("handoff_to_b", reason="r"), says("A.")), replies_of("b", says("B."))]
BOARD = [
    when("You coordinate", says(output=NextTurn(["a", "b"], False)), says(output=NextTurn([], True))),
    *both(says("w"), says("v")),
    when("stands on the board", says("A.")),
]
TREE = [
    thinks(says(output=Thoughts(["x", "y"]))),
    when("1. x\nHow", says(output={"score": 0.6})),
    when("1. y\nHow", says(output={"score": 0.5})),
    when("1. x\nPropose", says(output=Thoughts(["z"]))),
    when("2. z\nHow", says(output={"score": 0.7})),
    when("1. y\nPropose", says(output=Thoughts(["w"]))),
    when("2. w\nHow", says(output={"score": 0.2})),
    when("best line", says("A.")),
]
SMALL: Mapping[str, Any] = {"branch_factor": 2, "max_depth": 2, "beam_width": 1}


def tree_size(seen: Seen) -> object:
    return len(seen.result.artifacts["tree"]), outcome(seen)  # type: ignore[arg-type]


KNOBS: Sequence[Knob] = (
    Knob(React, "max_turns", 1, 2, [LOOK, says("A.")], outcome),
    Knob(React, "max_tool_errors", 1, 2, [FAIL, says("A.")], outcome),
    Knob(React, "max_repairs", 0, 1, [says("no"), says(output=7)], outcome),
    Knob(React, "max_continuations", 0, 1, [CUT, says("Whole.")], outcome),
    replaced(React, "continue_prompt", [CUT, says("Whole.")], {}),
    replaced(React, "brief_prompt", [says("", finish_reason=ModelFinishReason.LENGTH), says("A.")], {}),
    replaced(React, "empty_prompt", [says(""), says("A.")], {}),
    replaced(
        React,
        "uncalled_prompt",
        [turn(LOOK, says("", finish_reason=ModelFinishReason.LENGTH)), says("A.")],
        {},
    ),
    replaced(React, "repair_prompt", [says("no"), says(output=7)], {}),
    Knob(SelfRefine, "base", React(), React(max_turns=1), [LOOK, *REFINE], outcome),
    Knob(SelfRefine, "max_rounds", 1, 2, [*REFINE[:3], critique(0.4), says("F."), critique(0.5)], how_often),
    replaced(SelfRefine, "critic_prompt", REFINE, {}),
    replaced(SelfRefine, "refiner_prompt", REFINE, {}),
    Knob(
        Reflexion,
        "base",
        React(),
        React(max_turns=1),
        [when("How good", evaluation(0.9)), LOOK, says("D.")],
        outcome,
        {"max_attempts": 1},
    ),
    Knob(Reflexion, "max_attempts", 1, 2, LEARN, how_often),
    Knob(Reflexion, "threshold", 0.2, 0.8, LEARN, how_often),
    Knob(
        Reflexion,
        "max_lessons",
        1,
        2,
        [says("D."), evaluation(0.1, "one"), says("E."), evaluation(0.1, "two")],
        lambda seen: seen.kept,
        {"max_attempts": 2},
    ),
    Knob(Reflexion, "asks_to_keep", False, True, [PAGE, *LEARN], lambda seen: seen.open_questions),
    replaced(Reflexion, "evaluator_prompt", LEARN, {}),
    replaced(Reflexion, "lessons_prompt", LEARN, {}),
    Knob(ActorCritic, "critic", A, B, [*ACT, replies_of("a", says(output=Verdict(1, "")))], how_often),
    Knob(
        ActorCritic,
        "actor",
        None,
        A,
        [*ACT, replies_of("a", says("Mine."), says("M."), says("N."))],
        outcome,
        {
            **CRITIC,
            "max_rounds": 2,
        },
    ),
    Knob(ActorCritic, "max_rounds", 1, 2, ACT, how_often, CRITIC),
    Knob(ActorCritic, "approval_threshold", 0.2, 0.5, ACT, how_often, CRITIC),
    replaced(ActorCritic, "critic_prompt", ACT, {**CRITIC, "max_rounds": 2}),
    replaced(ActorCritic, "actor_prompt", ACT, {**CRITIC, "max_rounds": 2}),
    Knob(
        PlanAndExecute,
        "base",
        React(),
        React(max_turns=1),
        [when("Make a plan", plan("s")), when("Carry out", LOOK, report()), when("All steps", says("A."))],
        outcome,
        {"max_replans": 0},
    ),
    Knob(
        PlanAndExecute,
        "max_steps",
        1,
        2,
        [when("Make a plan", plan("s", "t"), plan("s")), when("Carry out", report(), report()), PLAN[3]],
        said("there are 2 steps; 1 are allowed"),
    ),
    Knob(PlanAndExecute, "max_replans", 0, 1, PLAN, outcome),
    replaced(PlanAndExecute, "planner_prompt", PLAN, {}),
    replaced(PlanAndExecute, "replanner_prompt", PLAN, {}),
    replaced(PlanAndExecute, "step_prompt", PLAN, {}),
    replaced(PlanAndExecute, "synthesis_prompt", PLAN, {}),
    Knob(Rewoo, "max_steps", 1, 2, [call_plan("look", "look"), says("A."), says("B.")], outcome),
    replaced(Rewoo, "planner_prompt", [call_plan("look"), says("A.")], {}),
    replaced(Rewoo, "solver_prompt", [call_plan("look"), says("A.")], {}),
    Knob(
        TreeOfThoughts,
        "base",
        React(),
        React(max_turns=1),
        [*TREE[:3], when("best line", LOOK, says("A."))],
        outcome,
        {"max_depth": 1},
    ),
    Knob(
        TreeOfThoughts,
        "branch_factor",
        1,
        2,
        [thinks(says(output=Thoughts(["x", "y"])), says(output=Thoughts(["x"]))), *TREE[1:]],
        said("there are 2 thoughts; 1 are allowed"),
        {"max_depth": 1},
    ),
    Knob(TreeOfThoughts, "max_depth", 1, 2, TREE, tree_size, {"beam_width": 1}),
    Knob(TreeOfThoughts, "beam_width", 1, 2, TREE, tree_size, {"max_depth": 2}),
    Knob(TreeOfThoughts, "solved_threshold", 0.6, 0.9, TREE, tree_size, {"max_depth": 2, "beam_width": 1}),
    Knob(TreeOfThoughts, "min_score", 0.1, 0.9, TREE, outcome, SMALL),
    replaced(TreeOfThoughts, "proposer_prompt", TREE, SMALL),
    replaced(TreeOfThoughts, "scorer_prompt", TREE, SMALL),
    replaced(TreeOfThoughts, "answer_prompt", TREE, SMALL),
    Knob(
        Debate,
        "debaters",
        TWO,
        {"a": A, "c": worker("c")},
        [*SPLIT, replies_of("c", position("7"))],
        how_often,
    ),
    Knob(Debate, "judge", None, worker("judge"), [*SPLIT, JUDGE], outcome, {"debaters": TWO}),
    Knob(Debate, "rounds", 1, 2, SPLIT, how_often, {"debaters": TWO}),
    Knob(
        Debate,
        "quorum",
        2,
        3,
        [*DEBATE, replies_of("c", *[says("")] * 4)],
        outcome,
        {"debaters": {**TWO, "c": worker("c")}},
    ),
    replaced(Debate, "opening_prompt", SPLIT, {"debaters": TWO}),
    replaced(Debate, "rebuttal_prompt", SPLIT, {"debaters": TWO}),
    replaced(Debate, "judge_prompt", [*SPLIT, JUDGE], {"debaters": TWO, "judge": worker("judge")}),
    Knob(Router, "routes", {"a": A}, {"a": B}, ROUTE, outcome),
    Knob(Router, "fallback", None, B, ROUTE, outcome, {"routes": {"a": A}, "min_confidence": 0.9}),
    Knob(Router, "min_confidence", 0.5, 0.9, ROUTE, outcome, {"routes": {"a": A}}),
    replaced(Router, "router_prompt", ROUTE, {"routes": {"a": A}}),
    Knob(Supervisor, "workers", TWO, {"a": A}, LEAD, how_often),
    Knob(Supervisor, "base", React(), React(max_turns=1), LEAD, outcome, {"workers": TWO}),
    replaced(Supervisor, "delegate_prompt", LEAD, {"workers": TWO}),
    replaced(Supervisor, "forward_prompt", LEAD, {"workers": TWO}),
    Knob(Swarm, "peers", TWO, {"a": A, "b": A}, HAND, outcome, {"entry": "b"}),
    Knob(Swarm, "entry", "a", "b", HAND, how_often, {"peers": TWO}),
    Knob(Swarm, "max_handoffs", 0, 1, HAND, outcome, {"peers": TWO, "entry": "a"}),
    Knob(
        Swarm,
        "pass_full_history",
        False,
        True,
        [replies_of("a", LOOK, calls("handoff_to_b", reason="r")), HAND[1]],
        said("a found: saw x"),
        {"peers": TWO, "entry": "a"},
    ),
    replaced(Swarm, "handoff_prompt", HAND, {"peers": TWO, "entry": "a"}),
    Knob(Blackboard, "agents", TWO, {"a": A, "b": A}, BOARD, said("You are the b.")),
    Knob(
        Blackboard,
        "coordinator",
        Coordination.MODEL,
        Coordination.ROUND_ROBIN,
        BOARD,
        said("You coordinate"),
        {"agents": TWO, "max_rounds": 2},
    ),
    Knob(
        Blackboard,
        "decider",
        None,
        worker("judge"),
        [*BOARD, replies_of("judge", says("J."))],
        outcome,
        {"agents": TWO},
    ),
    Knob(
        Blackboard,
        "max_rounds",
        1,
        2,
        [when("You coordinate", *[says(output=NextTurn(["a"], False))] * 2), *BOARD[1:]],
        how_often,
        {"agents": TWO},
    ),
    replaced(Blackboard, "coordinator_prompt", BOARD, {"agents": TWO}),
    replaced(Blackboard, "contributor_prompt", BOARD, {"agents": TWO}),
    replaced(
        Blackboard,
        "decider_prompt",
        [*BOARD, replies_of("judge", says("J."))],
        {"agents": TWO, "decider": worker("judge")},
    ),
    replaced(Blackboard, "closing_prompt", BOARD, {"agents": TWO}),
)

ELSEWHERE = {
    (React, "parallel_tools"): "test_without_parallel_tools_all_calls_are_made_one_by_one",
    (Debate, "closing_prompt"): "test_the_closing_prompt_of_a_debate_is_for_an_output_type",
    **{(loop, "max_parallel"): "test_max_parallel_bounds_what_runs_side_by_side" for loop in LOOPS},
}
"""Knobs whose effect is seen in another way, and the test that looks."""


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: f"{knob.loop.__name__}.{knob.name}")
async def test_a_knob_takes_effect(knob: Knob) -> None:
    rest = dict(knob.rest or {})
    typed = knob.name in ("max_repairs", "repair_prompt")
    found = []
    for given in (knob.one, knob.other):
        loop = knob.loop(**{**rest, knob.name: given})
        seen = await (observed_typed if typed else observed)(loop, knob.script)
        found.append(knob.look(seen))
    assert found[0] != found[1], found


class Crowd:
    """Counts what is under way together."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def visit(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(40):
            await asyncio.sleep(0)
        self.now -= 1


class CrowdedModel(ScriptedModel):
    """A scripted model that counts its calls under way."""

    def __init__(self, script: Sequence[ScriptEntry]) -> None:
        super().__init__(script)
        self.crowd = Crowd()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await self.crowd.visit()
        return await super().complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        await self.crowd.visit()
        async for event in super().stream(request):
            yield event


@Pod
class Square:
    """A tool that counts its calls under way."""

    def __init__(self) -> None:
        self.crowd = Crowd()

    @agent_tool(effects=ToolEffects.read_only())
    async def visit(self, what: str) -> str:
        """Visit the square."""
        await self.crowd.visit()
        return what


SIDE_BY_SIDE: Mapping[type[Any], tuple[Mapping[str, Any], Sequence[ScriptEntry]]] = {
    PlanAndExecute: (
        {},
        [when("Make a plan", plan("s", "t")), when("Carry out", report(), report()), PLAN[3]],
    ),
    TreeOfThoughts: (SMALL, TREE),
    Debate: ({"debaters": TWO}, SPLIT),
    Supervisor: ({"workers": TWO}, LEAD),
    Blackboard: ({"agents": TWO}, BOARD),
}


@pytest.mark.parametrize("loop", [each for each in LOOPS if "max_parallel" in signature(each).parameters])
async def test_max_parallel_bounds_what_runs_side_by_side(loop: type[Any]) -> None:
    found = [await (_visited if loop in (React, Rewoo) else _spoken)(loop, most) for most in (1, None)]
    assert found == [1, 2]


async def _spoken(loop: type[Any], most: int | None) -> int:
    rest, script = SIDE_BY_SIDE[loop]
    story = KnobStory(loop(**rest, max_parallel=most), MemoryAgentMemory())
    model = CrowdedModel(script)
    async with StoryProcesses(story).play(model) as (runs, chosen):
        result = await start(runs, chosen, "go")
    assert result.error is None
    return model.crowd.most


async def _visited(loop: type[Any], most: int | None) -> int:
    visits = turn(calls("visit", what="x"), calls("visit", what="y"))
    script = [call_plan("visit", "visit") if loop is Rewoo else visits, says("A.")]

    @Agent(spec=AgentExecutionSpec(architecture=loop(max_parallel=most)))
    class Walker:
        """You walk."""

        def __init__(self, square: Square) -> None:
            self.square = square

    square = Square()
    result = await run(Walker, "go", model=ScriptedModel(script), add=[square])
    assert result.error is None
    return square.crowd.most


async def observed_typed(loop: Architecture, script: Sequence[ScriptEntry]) -> Seen:
    class Typed(KnobStory):
        def agents(self, **spec: Any) -> Sequence[type[object]]:
            return super().agents(output_type=int, **spec)

    memory = MemoryAgentMemory()
    stage, model = StoryProcesses(Typed(loop, memory)), ScriptedModel(script)
    async with stage.play(model) as (runs, chosen):
        return Seen(await start(runs, chosen, "go"), model, memory, 0)


async def test_the_closing_prompt_of_a_debate_is_for_an_output_type() -> None:
    loop = Debate(TWO, closing_prompt="MY OWN WORDS.")
    seen = await observed_typed(loop, [*DEBATE, when("MY OWN WORDS.", says(output=7))])
    assert seen.result.output == 7


@pytest.mark.parametrize("loop", LOOPS)
def test_every_knob_is_in_the_table(loop: type[Any]) -> None:
    known = {knob.name for knob in KNOBS if knob.loop is loop}
    known |= {name for each, name in ELSEWHERE if each is loop}
    assert set(signature(loop).parameters) - known == set()


@pytest.mark.parametrize("loop", [loop for loop in LOOPS if hasattr(loop, "prompt_guides")])
def test_every_prompt_is_a_field_with_a_guide_and_a_wrong_place_is_an_error(loop: type[Any]) -> None:
    fields = signature(loop).parameters
    assert {name for name in fields if name.endswith("_prompt")} == set(loop.prompt_guides)
    rest: Mapping[str, Any] = {
        ActorCritic: CRITIC,
        Debate: {"debaters": TWO},
        Router: {"routes": TWO},
        Supervisor: {"workers": TWO},
        Swarm: {"peers": TWO, "entry": "a"},
        Blackboard: {"agents": TWO},
    }.get(loop, {})
    for name in loop.prompt_guides:
        for wrong, words in ((" ", "is blank"), ("{nothing}", "not given"), ("{", "is no template")):
            with pytest.raises(AgentDefinitionError, match=words):
                loop(**{**rest, name: wrong})
        with pytest.raises(AgentDefinitionError, match="more than a name"):
            loop(**{**rest, name: "{a.b}"})


def test_the_page_of_prompts_shows_all_of_them_with_their_defaults() -> None:
    assert WRITTEN.read_text() == page(), "run: make reference"
    assert set(DOCUMENTED) == set(LOOPS)
