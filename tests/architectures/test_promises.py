"""What the loops promise beyond their stories, each attacked and crashed at every write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pilotage import AgentDefinitionError, AgentExecutionLimits, AgentExecutionSpec, AgentStatus
from pilotage.agent import ModelFinishReason
from pilotage.agent.ports.architecture import Architecture
from pilotage.agent.signals import RejectionPolicy
from pilotage.agent.state import AgentStateReason
from pilotage.architectures import (
    ActorCritic,
    Blackboard,
    Coordination,
    Debate,
    PlanAndExecute,
    Position,
    Router,
    Ruling,
    SelfRefine,
    Supervisor,
    Swarm,
    TreeOfThoughts,
    Verdict,
)
from pilotage.architectures.blackboard import NextTurn
from pilotage.architectures.router import Route
from pilotage.architectures.self_refine import Critique
from pilotage.architectures.tree_of_thoughts import Thoughts
from pilotage.testing import ScriptedModel, calls, says, turn, when
from pilotage.testing.architecture_proofs import (
    ASK,
    WRITE,
    ArchitectureStory,
    StoryProcesses,
    played,
    proof_agent,
    replies_of,
    survived,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import resume, start

REFUSES = says("I will not.", finish_reason=ModelFinishReason.REFUSAL)
CUT = says("Half of", finish_reason=ModelFinishReason.LENGTH)
EMPTY = says("")


class Story(ArchitectureStory):
    """One loop with some workers, played as a test says."""

    def __init__(self, name: str, loop: Architecture, *workers: type[object], **spec: Any) -> None:
        self._make = lambda **more: (proof_agent(name, loop, **{**spec, **more}), *workers)

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return self._make(**spec)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return []


# The best, not the last.

POOR, GOOD = says(output=Critique(0.4, False)), says(output=Critique(0.9, True))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([REFUSES], "agent_refusal"),
        ([CUT, CUT], "agent_finish_length"),
        ([EMPTY, EMPTY], "agent_empty_reply"),
    ],
)
async def test_a_revision_that_is_refused_cut_off_or_empty_does_not_replace_a_draft(
    bad: list[ScriptedReply], why: str
) -> None:
    refining = Story("writer", SelfRefine())
    result = await survived(refining, [WRITE, says("Draft."), POOR, *bad])
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Draft.")
    assert result.artifacts["settled"] == why
    critic = proof_agent("critic", output_type=Verdict)
    acting = Story("stage", ActorCritic(critic=critic), critic)
    judged = replies_of("critic", says(output=Verdict(0.3, "vague")))
    result = await survived(acting, [replies_of("stage", WRITE, says("Draft."), *bad), judged])
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Draft.")
    assert result.artifacts["settled"] == why


@pytest.mark.parametrize("is_spec", [True, False])
async def test_a_revision_of_another_actor_that_fails_does_not_replace_a_draft(is_spec: bool) -> None:
    critic = proof_agent("critic", output_type=Verdict)
    actor = AgentExecutionSpec(instructions="You are the actor.") if is_spec else proof_agent("actor")
    others = (critic,) if isinstance(actor, AgentExecutionSpec) else (critic, actor)
    story = Story("stage", ActorCritic(critic=critic, actor=actor), *others)
    judged = replies_of("critic", says(output=Verdict(0.3, "vague")))
    result = await survived(story, [replies_of("actor", says("Draft."), REFUSES), judged])
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Draft.")
    result, _ = await played(story, [replies_of("actor", REFUSES), judged])
    assert (result.status, result.interruption_reason) == (AgentStatus.INTERRUPTED, "agent_refusal")


async def test_an_equal_score_does_not_replace_a_draft_and_the_end_of_the_rounds_is_said() -> None:
    story = Story("writer", SelfRefine(max_rounds=1))
    result = await survived(story, [says("Draft."), POOR, says("Other."), POOR])
    assert (result.output, result.artifacts["settled"]) == ("Draft.", "rounds_over")


# Swarm.

TO_BILLING = turn(says("Money, I think."), calls("handoff_to_billing", reason="money"))
TO_FRONT = turn(says("Not mine."), calls("handoff_to_front", reason="not mine"))


def swarm(*, specs: bool = False, **knobs: Any) -> Story:
    if specs:
        peers: dict[str, Any] = {
            name: AgentExecutionSpec(instructions=f"You are the {name}.") for name in ("front", "billing")
        }
        return Story("swarm", Swarm(peers, entry="front", **knobs))
    front, billing = proof_agent("front"), proof_agent("billing")
    return Story("swarm", Swarm({"front": front, "billing": billing}, entry="front", **knobs), front, billing)


@pytest.mark.parametrize("specs", [False, True])
async def test_a_handoff_in_circles_is_answered_inside_the_run_of_the_peer(specs: bool) -> None:
    script = [
        replies_of("front", TO_BILLING, WRITE, TO_BILLING, says("I answer.")),
        replies_of("billing", TO_FRONT),
    ]
    result = await survived(swarm(specs=specs), script)
    assert result.output == "I answer."
    stage, model = StoryProcesses(swarm(specs=specs)), ScriptedModel(script)
    async with stage.play(model) as (runs, chosen):
        await start(runs, chosen)
    # The peer paid once, is told in its own run, and has no way out any more.
    last = model.requests[-1]
    assert stage.world.done == {"deed": 1}
    assert "it was done before with the same words" in last.messages[-1].text
    offered = [tool.name for tool in last.tool_calling.tools] if last.tool_calling else []
    assert not [name for name in offered if name.startswith("handoff")]
    assert len(await stage.states()) == (1 if specs else 4)
    assert [handoff["to"] for handoff in result.artifacts["handoffs"]] == ["billing", "front"]  # type: ignore[index,union-attr,call-overload]


@pytest.mark.parametrize("specs", [False, True])
async def test_a_peer_gets_the_trail(specs: bool) -> None:
    script = [
        replies_of("front", calls("look", what="order 7"), TO_BILLING, says("Done.")),
        replies_of("billing", TO_FRONT),
    ]
    for knobs, found in (({}, False), ({"pass_full_history": True}, True)):
        stage, model = StoryProcesses(swarm(specs=specs, **knobs)), ScriptedModel(script)
        async with stage.play(model) as (runs, chosen):
            await start(runs, chosen, "Where is it?")
        told = [request.messages[-1].text for request in model.requests]
        assert "The last words of front:\nMoney, I think." in told[2]
        assert 'front to billing: {"reason":"money"} Last words: Money, I think.' in told[3]
        assert "The last words of billing:\nNot mine." in told[3]
        assert ("front found: saw order 7" in told[3]) is found


# Debate.


def position(answer: str) -> ScriptedReply:
    return says(output=Position(answer, "because"))


def debate(**knobs: Any) -> Story:
    debaters = {name: proof_agent(name, output_type=Position) for name in ("pro", "con", "third")}
    return Story("panel", Debate(debaters, **knobs), *debaters.values())


DEAD = [EMPTY, EMPTY]


async def test_who_fails_keeps_the_earlier_position() -> None:
    script = [
        replies_of("pro", position("7"), position("8")),
        replies_of("con", position("9"), *DEAD),
        replies_of("third", WRITE, position("7"), position("9")),
    ]
    result = await survived(debate(), script)
    assert result.output == "9"
    rounds: Any = result.artifacts["rounds"]
    assert rounds[1]["con"]["answer"] == "9"


async def test_one_voice_is_no_agreement_and_a_quorum_is_needed() -> None:
    alone = [
        replies_of("pro", position("7"), position("7")),
        replies_of("con", *DEAD * 2),
        replies_of("third", *DEAD * 2),
    ]
    result = await survived(debate(), alone)
    assert (result.status, result.interruption_reason) == (AgentStatus.INTERRUPTED, "agent_unresolved")
    assert result.output == "7"
    two = [alone[0], replies_of("con", position("7"), position("7")), replies_of("third", *DEAD * 2)]
    result, _ = await played(debate(), two)
    assert (result.status, result.output, len(result.artifacts["rounds"])) == ("completed", "7", 1)  # type: ignore[arg-type]
    result, _ = await played(debate(quorum=3), two)
    assert (result.status, result.interruption_reason) == (AgentStatus.INTERRUPTED, "agent_unresolved")


def test_a_debate_needs_two_and_a_quorum_of_them() -> None:
    with pytest.raises(AgentDefinitionError, match="A debate needs two or more"):
        Debate({"pro": "pro"})
    for quorum in (1, 3):
        with pytest.raises(AgentDefinitionError, match="Use a number from 2 to 2"):
            Debate({"pro": "pro", "con": "con"}, quorum=quorum)


# Tree of thoughts.


def thinks(*thoughts: str) -> ScriptEntry:
    return when("no thought yet", says(output=Thoughts(thoughts)))


def rates(thought: str, *scores: object) -> ScriptEntry:
    replies = [says(output={"score": score, "reason": ""}) for score in scores]
    return when(f"1. {thought}\nHow promising", *replies)


async def test_an_unusable_score_drops_its_line_and_none_left_is_an_error() -> None:
    story = Story("thinker", TreeOfThoughts(branch_factor=2, max_depth=1))
    answer = when("Your best line of thought:\n1. ride", WRITE, says("Ride."))
    script = [thinks("walk", "ride"), rates("walk", 9, 9), rates("ride", 0.95), answer]
    assert (await survived(story, script)).output == "Ride."
    result, _ = await played(story, [thinks("walk", "ride"), rates("walk", 9, 9), rates("ride", True, "0.9")])
    assert result.status is AgentStatus.FAILED
    assert "score" in str(result.error)


async def test_a_line_without_next_thoughts_is_dropped_too() -> None:
    story = Story("thinker", TreeOfThoughts(branch_factor=2, max_depth=2, beam_width=1))
    script = [
        thinks("ride"),
        rates("ride", 0.5),
        when("1. ride\nPropose", says("Hm."), says("Hm?")),
        when("Your best line of thought:\n1. ride", says("Ride.")),
    ]
    assert (await survived(story, script)).output == "Ride."


# Router.


async def test_the_fallback_takes_an_unknown_route() -> None:
    billing, other = proof_agent("billing"), proof_agent("other")
    story = Story("desk", Router({"billing": billing}, fallback=other), billing, other)
    script = [says(output=Route("nowhere", 0.9)), replies_of("other", WRITE, says("Mine."))]
    assert (await survived(story, script)).output == "Mine."


# Blackboard.


def board(coordinator: Any = Coordination.MODEL, *more: type[object]) -> Story:
    radar, sonar = proof_agent("radar"), proof_agent("sonar")
    contributors = {"radar": radar, "sonar": sonar}
    return Story(
        "bridge", Blackboard(contributors, coordinator=coordinator, max_rounds=2), radar, sonar, *more
    )


def picks(*names: str, done: bool = False) -> ScriptedReply:
    return says(output=NextTurn(names, done))


CLOSE = when("what stands on the board", says("A ship."))
SHIP = replies_of("radar", WRITE, says("a ship"))


async def test_contributors_that_all_failed_are_a_failure() -> None:
    dead = [replies_of("radar", *DEAD), replies_of("sonar", *DEAD)]
    coordinating = when("You coordinate", picks("radar"), picks("sonar"))
    result = await survived(board(), [*dead, coordinating])
    assert (result.status, "all contributors failed" in str(result.error)) == (AgentStatus.FAILED, True)


@pytest.mark.parametrize("wrong", [picks(done=True), picks("radar", done=True), picks("radar", "nobody")])
async def test_contradictory_and_premature_decisions_are_repaired(wrong: ScriptedReply) -> None:
    coordinating = when("You coordinate", wrong, picks("radar"), picks(done=True))
    assert (await survived(board(), [SHIP, coordinating, CLOSE])).output == "A ship."


@pytest.mark.parametrize("is_spec", [True, False])
async def test_the_coordinator_may_be_a_worker(is_spec: bool) -> None:
    captain: Any = AgentExecutionSpec(instructions="You are the captain.")
    captain = captain if is_spec else proof_agent("captain", output_type=NextTurn)
    story = board(captain, *(() if is_spec else (captain,)))
    coordinating = replies_of("captain", picks("radar", done=True), picks("radar"), picks(done=True))
    assert (await survived(story, [SHIP, coordinating, CLOSE])).output == "A ship."


# Supervisor.


async def test_a_failure_of_a_worker_clears_what_could_be_forwarded() -> None:
    clerk = proof_agent("clerk")
    story = Story("chief", Supervisor({"clerk": clerk}), clerk)
    asked = [calls("delegate", worker="clerk", instructions=what) for what in ("pay", "pay again")]
    forwarded = calls("forward", worker="clerk")
    script = [
        replies_of("clerk", WRITE, says("Paid."), *DEAD),
        replies_of("chief", *asked, forwarded, says("It failed later.")),
    ]
    assert (await survived(story, script)).output == "It failed later."


# Decisions, refusals, plans.


@pytest.mark.parametrize("score", [True, "0.9", "high", None, 1.1, -1])
async def test_what_is_no_score_is_repaired(score: object) -> None:
    wrong = says(output={"score": score, "done": False})
    result, _ = await played(Story("writer", SelfRefine()), [says("Draft."), wrong, GOOD])
    assert result.output == "Draft."
    assert len(result.artifacts["candidates"]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("done", ["true", 1, "yes", None])
async def test_what_is_no_truth_value_is_repaired(done: object) -> None:
    wrong = says(output={"score": 0.9, "done": done})
    result, _ = await played(Story("writer", SelfRefine()), [says("Draft."), wrong, GOOD])
    assert result.output == "Draft."


async def test_a_verdict_of_an_agent_is_decoded_as_strictly() -> None:
    critic = proof_agent("critic", output_type=Verdict)
    story = Story("stage", ActorCritic(critic=critic), critic)
    wrong = says(output={"score": "0.9", "feedback": "fine"})
    judged = replies_of("critic", wrong, says(output=Verdict(0.9, "fine")))
    result, _ = await played(story, [replies_of("stage", says("Draft.")), judged])
    assert result.output == "Draft."


@pytest.mark.parametrize("reason", [ModelFinishReason.REFUSAL, ModelFinishReason.CONTENT_FILTER])
async def test_a_refused_decision_keeps_its_own_code_and_is_not_asked_for_again(
    reason: ModelFinishReason,
) -> None:
    stopped = says("No.", finish_reason=reason)
    result = await survived(Story("writer", SelfRefine()), [WRITE, says("Draft."), stopped])
    code = "agent_refusal" if reason is ModelFinishReason.REFUSAL else "agent_content_filter"
    assert (result.state.reason, result.interruption_reason) == (AgentStateReason.LIMIT_REACHED, code)
    assert ((result.error or {})["code"], result.output) == (code, "Draft.")


@pytest.mark.parametrize("is_spec", [True, False])
async def test_the_refusal_of_a_worker_keeps_its_own_code(is_spec: bool) -> None:
    billing: Any = AgentExecutionSpec(instructions="You are the billing.")
    billing = billing if is_spec else proof_agent("billing")
    story = Story("desk", Router({"billing": billing}), *(() if is_spec else (billing,)))
    script = [replies_of("desk", says(output=Route("billing", 0.9))), replies_of("billing", REFUSES)]
    result = await survived(story, script)
    assert (result.state.reason, result.interruption_reason) == (
        AgentStateReason.LIMIT_REACHED,
        "agent_refusal",
    )


async def test_an_empty_plan_is_refused() -> None:
    empty = says(output={"steps": []})
    result, _ = await played(Story("planner", PlanAndExecute()), [empty, empty])
    assert (result.status, "there is no step" in str(result.error)) == (AgentStatus.FAILED, True)


# Workers that are specs and workers that are agents.


def supervised(is_spec: bool, **spec: Any) -> Story:
    clerk: Any = AgentExecutionSpec(instructions="You are the clerk.")
    clerk = clerk if is_spec else proof_agent("clerk")
    return Story("chief", Supervisor({"clerk": clerk}), *(() if is_spec else (clerk,)), **spec)


DELEGATE = turn(says("Asking."), calls("delegate", worker="clerk", instructions="pay"))


@pytest.mark.parametrize("is_spec", [True, False])
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (AgentExecutionLimits(max_steps=2), "agent_max_steps_exceeded"),
        (AgentExecutionLimits(max_tool_calls=1), "agent_max_tool_calls_exceeded"),
    ],
)
async def test_a_worker_that_starves_at_the_limit_of_its_parent_stops_the_parent_with_that_reason(
    is_spec: bool, limits: AgentExecutionLimits, code: str
) -> None:
    more = calls("note", what="again")
    script = [
        replies_of("clerk", WRITE, more, says("Paid.")),
        replies_of("chief", DELEGATE, says("All paid.")),
    ]
    story = supervised(is_spec, limits=limits)
    result = await survived(story, script)
    assert (result.state.reason, result.interruption_reason) == (AgentStateReason.LIMIT_REACHED, code)
    assert result.output == "Asking."
    stage, model = StoryProcesses(story), ScriptedModel(script)
    async with stage.play(model) as (runs, chosen):
        stopped = await start(runs, chosen)
    async with stage.play(model.restarted()) as (runs, _):
        higher = AgentExecutionLimits(max_steps=9, max_tool_calls=9)
        gone_on = await (await runs.resume(stopped.state.id, limits=higher)).result()
    assert (gone_on.output, stage.world.done) == ("All paid.", {"deed": 1, "again": 1})


@pytest.mark.parametrize("is_spec", [True, False])
@pytest.mark.parametrize("policy", RejectionPolicy)
async def test_a_rejection_inside_a_worker_means_the_same(is_spec: bool, policy: RejectionPolicy) -> None:
    story = supervised(is_spec, on_rejection=policy)
    script = [
        replies_of("clerk", ASK, says("Not paid.")),
        replies_of("chief", DELEGATE, says("It was not to be.")),
    ]
    stage, model = StoryProcesses(story), ScriptedModel(script)
    async with stage.play(model) as (runs, chosen):
        paused = await start(runs, chosen)
        (question,) = await runs.questions(paused.state.id)
        await runs.reject(question.id, comment="no", resume=False)
    async with stage.play(model.restarted()) as (runs, _):
        result = await resume(runs, paused.state.id)
    assert stage.world.done == {}
    if policy is RejectionPolicy.TELL_MODEL:
        assert result.output == "It was not to be."
    else:
        assert (result.status, result.state.reason) == (
            AgentStatus.FAILED,
            AgentStateReason.APPROVAL_REJECTED,
        )


def test_a_ruling_is_a_value() -> None:
    assert Ruling("pro", agreed=True).winner == "pro"
