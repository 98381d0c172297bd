"""Plan and execute: a typed plan, its steps carried out by another loop, a new one where a step failed, the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import ClassVar, cast

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    Architecture,
    BranchFailure,
    Dependencies,
    FailurePolicy,
    workers_of,
)
from pilotage.architectures.deciding import decide
from pilotage.architectures.graph import graph_problems, levels
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import add_question, branch_session, carry_out, conclude, interrupt
from pilotage.architectures.prompts import PromptGuide, PromptGuides, as_text, check_prompts, fill, listed
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.jsonvalue import to_json_value
from pilotage.values import shared, value

_PLAN = (
    "Make a plan that leads to the answer. Each step is a task for somebody with tools; say which steps need the "
    "results of which others. Steps that need nothing of each other are done side by side."
)
_AGAIN = (
    "A step has failed, or what it found changes the plan. Plan what is left to do, with new ids; the new steps may "
    "need the results of those that are done."
)
_HOW = (
    "Report what came of it. The status is 'done', 'failed', or 'surprising' where what you found makes the rest of "
    "the plan wrong."
)
_OFFER = "At most {max_steps} steps. Tools for the steps:\n{tools}"


@value
class PlanStep:
    """One step: what to do, and the ids of the steps whose results it needs."""

    id: str
    task: str
    needs: Sequence[str] = ()


@value
class Plan:
    """The steps that lead to the answer."""

    steps: Sequence[PlanStep]

    @property
    def needs(self) -> dict[str, Sequence[str]]:
        """The steps by id, each with the ids of the steps whose results it needs."""
        return {step.id: step.needs for step in self.steps}


class StepStatus(StrEnum):
    """Status of a step; a surprising result requires a new plan."""

    DONE = "done"
    FAILED = "failed"
    SURPRISING = "surprising"


@value
class StepReport:
    """Result of a step."""

    result: str
    status: StepStatus = StepStatus.DONE


@value
class PlanAndExecute:
    """Plan first, then do.

    base: the loop that carries a step out, with the agent's tools.
    max_steps: how many steps a plan may have.
    max_replans: how often a failed or surprising step leads to a new plan.
    max_parallel: how many steps run at once; None for all that can.
    planner_prompt: asks for the plan.
    replanner_prompt: asks for a new one, when a step has failed or what it found changes the plan.
    step_prompt: gives the base one step to carry out.
    synthesis_prompt: asks for the answer, when all steps are done.
    """

    base: Architecture = field(default_factory=shared(React))
    max_steps: int = 10
    max_replans: int = 2
    max_parallel: int | None = None
    planner_prompt: str = f"{_PLAN} {_OFFER}"
    replanner_prompt: str = f"{_AGAIN} {_OFFER}"
    step_prompt: str = f"Carry out this step, and only this one: {{task}}{{known}}\n{_HOW}"
    synthesis_prompt: str = "All steps are done. Answer the question from what they came to."

    name = "plan_and_execute"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "planner_prompt": PromptGuide(("max_steps", "tools"), "`Plan`"),
        "replanner_prompt": PromptGuide(("max_steps", "tools"), "`Plan`"),
        "step_prompt": PromptGuide(("task", "known"), "`StepReport`"),
        "synthesis_prompt": PromptGuide((), "the answer"),
    }

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        reject_not_positive(self, max_steps=self.max_steps, max_parallel=self.max_parallel)
        reject_negative(self, max_replans=self.max_replans)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Plan, carry the steps out level by level, and ask the model for the answer.

        Raises:
            AgentStructuredOutputError: the model makes no plan that can be carried out, asked twice.
        """
        add_question(session, prompt)
        done: dict[str, StepReport] = {}
        for replan in range(self.max_replans + 1):
            plan = await self._planned(session, deps, done)
            yield deps.progress("plan.made", steps=[step.id for step in plan.steps], replan=replan)
            is_through = True
            for level in levels(plan.needs, done):
                steps = [step for step in plan.steps if step.id in level]
                for step in steps:
                    yield deps.progress("plan.step_started", id=step.id)
                reports = await self._carried_out(steps, done, session, deps)
                done |= reports
                _publish_results(session, plan, done)
                for step_id, report in reports.items():
                    yield deps.progress("plan.step_finished", id=step_id, status=report.status.value)
                if any(report.status is not StepStatus.DONE for report in reports.values()):
                    is_through = False
                    break
            if is_through:
                await conclude(session, deps, "synthesis", fill(self.synthesis_prompt))
                return
        interrupt(session, StopReason.PLAN_FAILED)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the workers of the base."""
        return workers_of(self.base)

    async def _planned(
        self, session: AgentSession, deps: Dependencies, done: Mapping[str, StepReport]
    ) -> Plan:
        def problems(plan: Plan) -> list[str]:
            steps = [(step.id, step.needs) for step in plan.steps]
            blank = [f"the task of {step.id!r} is blank." for step in plan.steps if not step.task.strip()]
            return [*graph_problems(steps, most=self.max_steps, known=done), *blank]

        tools = deps.tools.calling
        offered = listed({tool.name: tool.description or "" for tool in tools.tools}) if tools else "none"
        template = self.replanner_prompt if done else self.planner_prompt
        question = fill(template, max_steps=self.max_steps, tools=offered)
        return await decide(session, deps, Plan, question, check=problems)

    async def _carried_out(
        self,
        steps: Sequence[PlanStep],
        done: Mapping[str, StepReport],
        session: AgentSession,
        deps: Dependencies,
    ) -> dict[str, StepReport]:
        branches = [partial(self._report, step, done, session, deps) for step in steps]
        ended = await deps.runtime.gather(
            "step", branches, limit=self.max_parallel, policy=FailurePolicy.COLLECT
        )
        return {step.id: _as_report(end) for step, end in zip(steps, ended, strict=True)}

    async def _report(
        self, step: PlanStep, done: Mapping[str, StepReport], session: AgentSession, deps: Dependencies
    ) -> StepReport:
        needed = {need: done[need].result for need in step.needs}
        found = f"\nWhat you know from earlier steps:\n{listed(needed)}" if needed else ""
        task = fill(self.step_prompt, task=step.task, known=found)
        reporting = deps.with_output(StructuredOutputSpec.from_type(StepReport))
        part = await carry_out(self.base, branch_session(session), reporting, "base", task)
        if part.interrupted:
            words = f"{as_text(part.output)} ({part.interruption_reason})"
            return StepReport(words.strip(), StepStatus.FAILED)
        return cast(StepReport, part.output)


def _as_report(end: StepReport | BranchFailure) -> StepReport:
    return StepReport(end.error, StepStatus.FAILED) if isinstance(end, BranchFailure) else end


def _publish_results(session: AgentSession, plan: Plan, done: Mapping[str, StepReport]) -> None:
    """Make the results so far the output of the session and a message for later model calls."""
    found = listed({step: f"{report.result} ({report.status.value})" for step, report in done.items()})
    note = ModelMessage.evidence(f"What the steps came to:\n{found}", source="plan_and_execute")
    if session.messages and session.messages[-1].metadata.get("source") == "plan_and_execute":
        session.messages.pop()
    session.messages.append(note)
    session.output = "\n".join(
        report.result for report in done.values() if report.status is not StepStatus.FAILED
    )
    session.metadata["plan"] = to_json_value(plan)
    session.metadata["steps"] = to_json_value(done)
