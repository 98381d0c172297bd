"""Self-refine: a draft, a typed critique of it by the same agent, a better draft, until the critique is content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from pilotage.agent.ports.architecture import AgentRef, AgentSession, Architecture, Dependencies, workers_of
from pilotage.architectures.deciding import Flag, Share, decide
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import (
    ROUNDS_OVER,
    Candidates,
    add_question,
    adopt_result,
    carry_out,
    settle_for_best,
)
from pilotage.architectures.prompts import (
    PromptGuide,
    PromptGuides,
    as_text,
    check_prompts,
    fill,
    is_something,
)
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.checks import reject_not_positive
from pilotage.values import shared, value


class Severity(StrEnum):
    """Severity of an issue."""

    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


@value
class Issue:
    """One thing that is wrong with a draft."""

    text: str
    severity: Severity = Severity.MAJOR


@value
class Critique:
    """Issues of a draft, its score from 0 to 1, and whether it is done."""

    score: Share
    done: Flag
    issues: Sequence[Issue] = ()


@value
class SelfRefine:
    """Draft, criticise, refine.

    base: the loop that drafts and refines, with the agent's tools.
    max_rounds: how often a draft is refined.
    critic_prompt: asks for the critique of a draft.
    refiner_prompt: asks for a better draft.
    """

    base: Architecture = field(default_factory=shared(React))
    max_rounds: int = 3
    critic_prompt: str = (
        "This is a draft of your answer:\n{draft}\n\nCriticise it: what is wrong, how severe is it, how "
        "good is the draft from 0 to 1, and is it done?"
    )
    refiner_prompt: str = (
        "This is a draft of your answer:\n{draft}\n\nWhat is wrong with it:\n{issues}\n\n"
        "Write the answer anew, without that."
    )

    name = "self_refine"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "critic_prompt": PromptGuide(("draft",), "`Critique`"),
        "refiner_prompt": PromptGuide(("draft", "issues"), "the answer"),
    }

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        reject_not_positive(self, max_rounds=self.max_rounds)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Refine until the critique is content or the rounds are over; the best draft is the answer.

        A draft that stopped short (refused, cut off, empty) is not judged: with an earlier one that is the answer,
        else the run stops short.

        Raises:
            AgentStructuredOutputError: the model gives no critique, asked twice.
        """
        add_question(session, prompt)
        candidates = Candidates(session)
        draft = await carry_out(self.base, session, deps, "draft", prompt)
        for round_ in range(self.max_rounds + 1):
            if (draft.interrupted or not is_something(draft.output)) and candidates:
                settle_for_best(session, draft.interruption_reason or StopReason.EMPTY_REPLY)
                yield deps.progress("refine.settled", round=round_, why=session.metadata["settled"])
                return
            if draft.interrupted:
                adopt_result(session, draft)
                return
            criticising = fill(self.critic_prompt, draft=as_text(draft.output))
            critique = await decide(session, deps, Critique, criticising)
            candidates.add(draft.output, critique.score)
            yield deps.progress("refine.criticised", round=round_, score=critique.score, done=critique.done)
            if critique.done:
                return
            if round_ == self.max_rounds:
                settle_for_best(session, ROUNDS_OVER)
                return
            refining = fill(
                self.refiner_prompt, draft=as_text(candidates.best.output), issues=_listed(critique.issues)
            )
            draft = await carry_out(self.base, session, deps, "refine", refining)
            yield deps.progress("refine.refined", round=round_ + 1)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the workers of the base."""
        return workers_of(self.base)


def _listed(issues: Sequence[Issue]) -> str:
    return "\n".join(f"- {issue.severity.value}: {issue.text}" for issue in issues) or "- none named"
