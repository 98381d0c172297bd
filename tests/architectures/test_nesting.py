"""Architectures inside architectures, crashed anywhere: reflexion over supervisor over plan and execute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.agent import MessageDeltaEvent
from pilotage.agent.ports.architecture import workers_of
from pilotage.architectures import PlanAndExecute, Reflexion, Supervisor
from pilotage.architectures.plan_and_execute import Plan, PlanStep, StepReport
from pilotage.architectures.reflexion import Evaluation
from pilotage.testing import ScriptedModel, calls, says, when
from pilotage.testing.architecture_proofs import (
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    StoryProcesses,
    WrongOutput,
    proof_agent,
    replies_of,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import start, told

DELEGATE = calls("delegate", worker="clerk", instructions="pay Ada")
POOR, GOOD = says(output=Evaluation(0.2, "be brief")), says(output=Evaluation(0.9, "fine"))
PLAN = says(output=Plan([PlanStep("pay", "send the money")]))


class WorkersThatPlan(ArchitectureStory):
    """The worker of the supervisor is an agent that plans and executes."""

    expected = "Paid, briefly."
    steps = ("reflexion.attempted", "reflexion.evaluated", "reflexion.attempted", "reflexion.evaluated")

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        clerk = proof_agent("clerk", PlanAndExecute())
        chief = Reflexion(base=Supervisor(workers={"clerk": clerk}), max_attempts=2)
        return proof_agent("chief", chief, **spec), clerk

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        done = [*deeds, says(output=StepReport("sent"))]
        clerk = replies_of("clerk", PLAN, *done, says("The money is on its way."))
        chief = [DELEGATE, says("Paid at length."), POOR, says("Paid, briefly."), GOOD]
        return [clerk, replies_of("chief", *chief)]


class TestReflexionOverSupervisorOverWorkersThatPlan(ArchitectureProofs):
    story = WorkersThatPlan()

    async def test_what_a_worker_tells_carries_its_parent_and_its_branch(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script(WRITE))
        async with stage.play(model) as (runs, chosen):
            result = await start(runs, chosen)
            events = await told(runs, result.state.id)
        of_child = [event.attribution for event in events if event.attribution.run_id != result.state.id]
        assert {by.parent_run_id for by in of_child} == {result.state.id}
        place = "attempt#1/delegate#1/0/child:clerk#1"
        assert {by.branch for by in of_child} == {
            place,
            f"{place}/step#1/0/base#1",
            f"{place}/synthesis#1",
        }
        own = [event for event in events if event.attribution.run_id == result.state.id]
        said = {
            event.attribution.branch: event.delta for event in own if isinstance(event, MessageDeltaEvent)
        }
        assert set(said) == {"attempt#1", "attempt#2"}


class SupervisorThatPlans(ArchitectureStory):
    """The supervisor itself plans and executes; its steps delegate, in branches of branches."""

    expected = "All paid."

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        clerk = proof_agent("clerk")
        chief = Reflexion(base=Supervisor(workers={"clerk": clerk}, base=PlanAndExecute()), max_attempts=1)
        return proof_agent("chief", chief, **spec), clerk

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        step = when("only this one: send the money", DELEGATE, says(output=StepReport("sent")))
        return [
            replies_of("clerk", *deeds, says("Sent.")),
            step,
            replies_of("chief", PLAN, says("All paid."), GOOD),
        ]

    def wrong(self) -> Mapping[str, WrongOutput]:
        forward = calls("forward", worker="clerk")
        step = when("only this one: send the money", forward, says(output=StepReport("not sent")))
        return {
            "words are not forwarded out of a branch": WrongOutput(
                [step, replies_of("chief", PLAN, says("Nothing."), GOOD)], "Nothing."
            )
        }


class TestReflexionOverSupervisorThatPlans(ArchitectureProofs):
    story = SupervisorThatPlans()


def test_wrappers_declare_the_workers_of_their_base() -> None:
    inner = Supervisor(workers={"clerk": "clerk"}, base=PlanAndExecute())
    assert workers_of(Reflexion(base=PlanAndExecute(base=inner))) == {"clerk": "clerk"}
