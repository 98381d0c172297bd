"""Self-refine: a draft, a typed critique of it by the same agent, a better draft, until the critique is content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from pilotage.agent.ports.architecture import AgentRef, AgentSession, Architecture, Dependencies, workers_of
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.parts import Candidates, carry_out, hand_up, take_up
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.architectures.wording import as_text
from pilotage.checks import reject_not_positive
from pilotage.values import shared, value


class Severity(StrEnum):
    """How much an issue matters."""

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
    """What is wrong with a draft, how good it is from 0 to 1, and whether it may stay as it is."""

    score: Share
    done: bool
    issues: Sequence[Issue] = ()


@value
class SelfRefine:
    """Draft, criticise, refine.

    base: the loop that drafts and refines, with the agent's tools.
    max_rounds: how often a draft is refined.
    """

    base: Architecture = field(default_factory=shared(React))
    max_rounds: int = 3

    name = "self_refine"
    version = 1

    def __post_init__(self) -> None:
        reject_not_positive(self, max_rounds=self.max_rounds)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Refine until the critique is content or the rounds are over; the best draft is the answer.

        Raises:
            AgentStructuredOutputError: the model gives no critique, asked twice.
        """
        take_up(session, prompt)
        candidates = Candidates(session)
        draft = await carry_out(self.base, session, deps, "draft", prompt)
        for round_ in range(self.max_rounds + 1):
            if draft.interrupted:
                hand_up(session, draft)
                return
            critique = await decide(session, deps, Critique, _critical(draft.output))
            candidates.add(draft.output, critique.score)
            yield deps.progress("refine.criticised", round=round_, score=critique.score, done=critique.done)
            if critique.done or round_ == self.max_rounds:
                return
            best = as_text(candidates.best.output)
            draft = await carry_out(self.base, session, deps, "refine", _refining(best, critique))
            yield deps.progress("refine.refined", round=round_ + 1)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Those of the base."""
        return workers_of(self.base)


def _critical(draft: object) -> str:
    return (
        f"This is a draft of your answer:\n{as_text(draft)}\n\nCriticise it: what is wrong, how severe is it, how "
        "good is the draft from 0 to 1, and is it done?"
    )


def _refining(draft: str, critique: Critique) -> str:
    issues = (
        "\n".join(f"- {issue.severity.value}: {issue.text}" for issue in critique.issues) or "- none named"
    )
    wrong = f"What is wrong with it:\n{issues}"
    return f"This is a draft of your answer:\n{draft}\n\n{wrong}\n\nWrite the answer anew, without that."
