"""Actor and critic: one answers, another one judges, the first revises, until the critic approves."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures.deciding import Share, judge
from pilotage.architectures.parts import (
    Candidates,
    WorkerRef,
    ask_worker,
    carry_out,
    check_worker,
    declared,
    hand_up,
    take_output,
    take_up,
)
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.architectures.wording import as_text, briefing
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.values import value

_ACTING = React()


@value
class Verdict:
    """How good an answer is, from 0 to 1, and what would make it better."""

    score: Share
    feedback: str


@value
class ActorCritic:
    """Answer, be judged by somebody else, revise.

    critic: who judges: an agent with `output_type=Verdict`, or a spec.
    actor: who answers; without one the agent itself, with its tools.
    max_rounds: how often an answer is revised.
    approval_threshold: from 0 to 1, the score with which an answer is approved.
    """

    critic: WorkerRef
    actor: WorkerRef | None = None
    max_rounds: int = 3
    approval_threshold: float = 0.8

    name = "actor_critic"
    version = 1

    def __post_init__(self) -> None:
        check_worker(self, "critic", self.critic)
        check_worker(self, "actor", self.actor)
        reject_not_positive(self, max_rounds=self.max_rounds)
        reject_outside_unit(self, approval_threshold=self.approval_threshold)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Revise until the critic approves or the rounds are over; the best-scored answer wins.

        Raises:
            AgentStructuredOutputError: the critic gives no verdict, asked twice.
            ToolError: a worker failed.
        """
        take_up(session, prompt)
        candidates, task = Candidates(session), prompt
        for round_ in range(self.max_rounds + 1):
            answer = await self._answer(task, session, deps)
            yield deps.progress("critic.answered", round=round_)
            if session.interrupted:
                return
            question = _judging(briefing(session, prompt), as_text(answer))
            verdict = await judge(self.critic, "critic", Verdict, question, session=session, deps=deps)
            candidates.add(answer, verdict.score)
            yield deps.progress("critic.judged", round=round_, score=verdict.score)
            if verdict.score >= self.approval_threshold:
                return
            task = _revising(prompt, as_text(answer), verdict)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """The critic and the actor."""
        return declared({"critic": self.critic}, actor=self.actor)

    async def _answer(self, task: str, session: AgentSession, deps: Dependencies) -> object:
        if self.actor is None:
            part = await carry_out(_ACTING, session, deps, "actor", task)
            if part.interrupted:
                hand_up(session, part)
            return part.output
        said = await ask_worker(self.actor, "actor", briefing(session, task), session, deps)
        answer = AgentSession(session.id, session.instructions)
        take_output(answer, deps, said)
        return answer.output


def _judging(question: str, answer: str) -> str:
    return (
        f"Judge an answer.\n\nThe question:\n{question}\n\nThe answer:\n{answer}\n\n"
        "Give a score from 0 to 1, and feedback that says what would make it better."
    )


def _revising(prompt: str, answer: str, verdict: Verdict) -> str:
    return f"{prompt}\n\nYou answered:\n{answer}\n\nA critic says:\n{verdict.feedback}\n\nAnswer again, and better."
