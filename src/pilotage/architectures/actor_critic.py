"""Actor and critic: the actor answers and revises until the critic approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures.deciding import Share, judge
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import (
    ROUNDS_OVER,
    Candidates,
    WorkerRef,
    add_question,
    adopt_result,
    ask_worker,
    carry_out,
    check_worker,
    declared_agents,
    settle_for_best,
    take_output,
)
from pilotage.architectures.prompts import (
    PromptGuide,
    PromptGuides,
    as_text,
    briefing,
    check_prompts,
    fill,
    is_something,
)
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.errors import AgentStructuredOutputError, ToolError
from pilotage.values import value

_ACTING = React()


@value
class Verdict:
    """Score of an answer, from 0 to 1, and feedback that would improve it."""

    score: Share
    feedback: str


@value
class ActorCritic:
    """Answer, be judged by a critic, revise.

    critic: judges: an agent with `output_type=Verdict`, or a spec.
    actor: answers; without one the agent itself, with its tools.
    max_rounds: how often an answer is revised.
    approval_threshold: from 0 to 1, the score with which an answer is approved.
    critic_prompt: asks the critic for the verdict.
    actor_prompt: asks the actor for a better answer; the first one is asked for with the prompt of the run.
    """

    critic: WorkerRef
    actor: WorkerRef | None = None
    max_rounds: int = 3
    approval_threshold: float = 0.8
    critic_prompt: str = (
        "Judge an answer.\n\nThe question:\n{question}\n\nThe answer:\n{answer}\n\n"
        "Give a score from 0 to 1, and feedback that says what would make it better."
    )
    actor_prompt: str = (
        "{question}\n\nYou answered:\n{answer}\n\nA critic says:\n{feedback}\n\nAnswer again, and better."
    )

    name = "actor_critic"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "critic_prompt": PromptGuide(("question", "answer"), "`Verdict`"),
        "actor_prompt": PromptGuide(("question", "answer", "feedback"), "the answer"),
    }

    def __post_init__(self) -> None:
        check_worker(self, "critic", self.critic)
        check_worker(self, "actor", self.actor)
        reject_not_positive(self, max_rounds=self.max_rounds)
        reject_outside_unit(self, approval_threshold=self.approval_threshold)
        check_prompts(self, self.prompt_guides)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Revise until the critic approves or the rounds are over; the best-scored answer wins.

        A revision that fails or stops short is not judged: the best answer before it is the answer.

        Raises:
            AgentStructuredOutputError: the critic gives no verdict, asked twice.
            ToolError: the critic failed, or the actor at its first answer.
        """
        add_question(session, prompt)
        candidates, task = Candidates(session), prompt
        for round_ in range(self.max_rounds + 1):
            answer = await self._answer(task, session, deps, is_revising=bool(candidates))
            if isinstance(answer, _NoAnswer):
                settle_for_best(session, answer.why)
                yield deps.progress("critic.settled", round=round_, why=answer.why)
                return
            yield deps.progress("critic.answered", round=round_)
            if session.interrupted:
                return
            question = fill(self.critic_prompt, question=briefing(session, prompt), answer=as_text(answer))
            verdict = await judge(self.critic, "critic", Verdict, question, session=session, deps=deps)
            candidates.add(answer, verdict.score)
            yield deps.progress("critic.judged", round=round_, score=verdict.score)
            if verdict.score >= self.approval_threshold:
                return
            task = fill(self.actor_prompt, question=prompt, answer=as_text(answer), feedback=verdict.feedback)
        settle_for_best(session, ROUNDS_OVER)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the critic and the actor."""
        return declared_agents({"critic": self.critic}, actor=self.actor)

    async def _answer(
        self, task: str, session: AgentSession, deps: Dependencies, *, is_revising: bool
    ) -> object | _NoAnswer:
        """Return the actor's answer, or the reason why a revision gave none; the session is unchanged then."""
        if self.actor is not None:
            return await self._worked(self.actor, task, session, deps, is_revising=is_revising)
        part = await carry_out(_ACTING, session, deps, "actor", task)
        if is_revising and (part.interrupted or not is_something(part.output)):
            return _NoAnswer(part.interruption_reason or StopReason.EMPTY_REPLY)
        if part.interrupted:
            adopt_result(session, part)
        return part.output

    async def _worked(
        self,
        actor: WorkerRef,
        task: str,
        session: AgentSession,
        deps: Dependencies,
        *,
        is_revising: bool,
    ) -> object | _NoAnswer:
        try:
            output = await ask_worker(actor, "actor", briefing(session, task), session, deps)
            answer = AgentSession(session.id, session.instructions)
            take_output(answer, deps, output)
        except (ToolError, AgentStructuredOutputError) as error:
            if not is_revising:
                raise
            return _NoAnswer(str(error))
        return answer.output if is_something(answer.output) or not is_revising else _NoAnswer("it is empty")


@value
class _NoAnswer:
    """A revision without an answer, and the reason."""

    why: str
