"""Plan and execute: typed plans, steps side by side, a new plan where one fails, the answer from what they came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import PlanAndExecute
from pilotage.architectures.plan_and_execute import Plan, PlanStep, StepReport, StepStatus
from pilotage.testing import says, when
from pilotage.testing.architecture_proofs import (
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    proof_agent,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry

PLAN = Plan(
    [
        PlanStep("look", "find the order"),
        PlanStep("pay", "give it back"),
        PlanStep("tell", "write a mail", ["look", "pay"]),
    ]
)
LOOK = when("only this one: find the order", says(output=StepReport("order 7")))
TELL = when("only this one: write a mail", says(output=StepReport("mailed")))
ANSWER = when("All steps are done", says("Ada has her money."))


def pay(*deeds: ScriptedReply) -> ScriptEntry:
    return when("only this one: give it back", *deeds, says(output=StepReport("paid")))


def plans(*made: ScriptedReply) -> ScriptEntry:
    return when("Tools for the steps", *made)


class PlanStory(ArchitectureStory):
    expected = "Ada has her money."
    steps = (
        *("plan.made", "plan.step_started", "plan.step_started", "plan.step_finished", "plan.step_finished"),
        *("plan.step_started", "plan.step_finished"),
    )
    partials = {1: "", 4: "order 7\npaid", 5: "order 7\npaid\nmailed"}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("planner", PlanAndExecute(max_replans=1, max_steps=3), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [LOOK, pay(*deeds), TELL, ANSWER, plans(says(output=PLAN))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        cyclic = says(output=Plan([PlanStep("a", "first", ["b"]), PlanStep("b", "second", ["a"])]))
        unknown = says(output=Plan([PlanStep("a", "first", ["z"])]))
        long = says(output=Plan([PlanStep(str(n), "something") for n in range(4)]))
        twins = says(output=Plan([PlanStep("a", "first"), PlanStep("a", "second")]))
        good, rest = says(output=PLAN), [LOOK, pay(), TELL, ANSWER]
        failed = when("only this one: give it back", says(output=StepReport("no funds", StepStatus.FAILED)))
        again = says(output=Plan([PlanStep("borrow", "give it back later", ["look"])]))
        later = when("only this one: give it back later", says(output=StepReport("paid later")))
        return {
            "a cyclic plan is repaired": WrongOutput([*rest, plans(cyclic, good)], "Ada has her money."),
            "a cyclic plan twice is an error": WrongOutput(
                [plans(cyclic, cyclic)], error="wait for each other"
            ),
            "an unknown need twice is an error": WrongOutput(
                [plans(unknown, unknown)], error="needs 'z', which is no step"
            ),
            "a plan that is too long twice is an error": WrongOutput(
                [plans(long, long)], error="there are 4 steps; 3"
            ),
            "one id twice is an error": WrongOutput([plans(twins, twins)], error="'a' is used 2 times"),
            "prose instead of a plan is repaired": WrongOutput(
                [*rest, plans(says("First..."), good)], "Ada has her money."
            ),
            "a failed step leads to a new plan": WrongOutput(
                [LOOK, later, failed, ANSWER, plans(good, again)], "Ada has her money."
            ),
            "a plan that fails again ends with what there is": WrongOutput(
                [
                    LOOK,
                    when(
                        "only this one: give it back", *[says(output=StepReport("no", StepStatus.FAILED))] * 2
                    ),
                    plans(good, again),
                ],
                "order 7",
                reason="agent_plan_failed",
            ),
            "a step that never reports is a failed step": WrongOutput(
                [
                    LOOK,
                    later,
                    when("only this one: give it back", says("done!"), says("really")),
                    ANSWER,
                    plans(good, again),
                ],
                "Ada has her money.",
            ),
        }


class TestPlanAndExecute(ArchitectureProofs):
    story = PlanStory()
