"""Reflexion: an attempt, a typed evaluation with a lesson, another attempt that knows the lesson; the best one wins.

Lessons outlive the run in the application's memory, where there is one, apart for every tenant and user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Architecture, Dependencies, workers_of
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.parts import Candidates, aside, carry_out, take_up
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.architectures.wording import as_text, is_something
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.safety.trust import TrustLabel
from pilotage.values import shared, value

_MOST = 5


class Lessons:
    """What an agent has learned for one user. Without a memory, nothing is recalled and nothing kept."""

    def __init__(self, deps: Dependencies) -> None:
        self._runtime = deps.runtime
        self._memory = deps.memory
        self._scope = MemoryScope.of(deps.context, deps.attribution.agent_id)

    async def recalled(self, question: str) -> list[str]:
        """Return the lessons that fit a question, then the latest; raise `AgentMemoryError` if the search failed."""
        if self._memory is None:
            return []
        found = {item.id: item for item in await self._memory.recall(self._scope, question, limit=_MOST)}
        if len(found) < _MOST:
            latest = await self._memory.recall(self._scope, "", limit=_MOST)
            found |= {item.id: item for item in latest}
        return [item.text for item in found.values()][:_MOST]

    async def keep(self, lesson: str) -> None:
        """Keep a lesson with the label of what the run knows; raise `AgentMemoryError` if it could not be kept."""
        text = lesson.strip()
        if self._memory is not None and text:
            # The memory of a run adds the label of what the run knows.
            item = MemoryItem(await self._runtime.uid(), MemoryKind.EPISODE, text, TrustLabel())
            await self._memory.remember(self._scope, item)


@value
class Evaluation:
    """How good an attempt is, from 0 to 1, and what to do differently next time."""

    score: Share
    lesson: str


@value
class Reflexion:
    """Try, evaluate, learn, try again.

    base: the loop that makes an attempt, with the agent's tools.
    max_attempts: how many attempts there are at most.
    threshold: from 0 to 1, the score with which an attempt is good enough.
    """

    base: Architecture = field(default_factory=shared(React))
    max_attempts: int = 3
    threshold: float = 0.8

    name = "reflexion"
    version = 1

    def __post_init__(self) -> None:
        reject_not_positive(self, max_attempts=self.max_attempts)
        reject_outside_unit(self, threshold=self.threshold)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Attempt until one is good enough or the attempts are over.

        An attempt that stopped short is judged by what it came to. Where it is the best one, the run stops short too.

        Raises:
            AgentStructuredOutputError: the model gives no evaluation, asked twice.
            AgentMemoryError: lessons could not be recalled or kept.
        """
        take_up(session, prompt)
        candidates, lessons = Candidates(session), Lessons(deps)
        known = await lessons.recalled(prompt)
        for number in range(1, self.max_attempts + 1):
            attempt = await self._attempt(session, deps, prompt, known)
            yield deps.progress("reflexion.attempted", attempt=number)
            evaluation = await decide(session, deps, Evaluation, _evaluating(attempt))
            candidates.add(attempt.output, evaluation.score, attempt.interruption_reason)
            yield deps.progress("reflexion.evaluated", attempt=number, score=evaluation.score)
            if evaluation.score >= self.threshold:
                return
            known = [*known, evaluation.lesson]
            await lessons.keep(evaluation.lesson)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Those of the base."""
        return workers_of(self.base)

    async def _attempt(
        self, session: AgentSession, deps: Dependencies, prompt: str, known: Sequence[str]
    ) -> AgentSession:
        """Until there is a candidate, what the first attempt says is the best there is."""
        learned = "\n".join(f"- {lesson}" for lesson in known)
        told = aside(session)
        if known:
            note = f"What earlier attempts have taught you:\n{learned}"
            told.messages.insert(-1, ModelMessage.evidence(note, source="reflexion"))
        try:
            return await carry_out(self.base, told, deps, "attempt", prompt)
        finally:
            if not is_something(session.output):
                session.output = told.output


def _evaluating(attempt: AgentSession) -> str:
    stopped = f"\n(It stopped short: {attempt.interruption_reason}.)" if attempt.interrupted else ""
    return (
        f"This is an attempt at an answer:\n{as_text(attempt.output)}{stopped}\n\nHow good is it, from 0 to 1? "
        "What is the lesson for the next attempt, in a sentence that makes sense on its own?"
    )
