"""Reflexion: an attempt, a typed evaluation with a lesson, another attempt with that lesson; the best one wins.

Lessons outlive the run in the application's memory, where there is one, apart for every tenant and user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Architecture, Dependencies, workers_of
from pilotage.agent.ports.memory import LONGEST_TEXT, IAgentMemory, MemoryItem, MemoryKind, MemoryScope
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.parts import (
    ROUNDS_OVER,
    Candidates,
    add_question,
    branch_session,
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
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.errors import AgentMemoryError, ToolError
from pilotage.jsonvalue import text_digest
from pilotage.safety.trust import TrustLabel
from pilotage.values import shared, value

_SHOWN = 5


class Lessons:
    """Lessons of an agent for one user, best-effort: a memory that fails loses lessons, never an answer.

    Equal lessons are stored once. One that was learned from untrusted content stays in the run, unless a person agrees
    to store it. Without a memory, or a user, nothing is recalled and nothing stored.
    """

    def __init__(self, deps: Dependencies, most: int) -> None:
        self._deps = deps
        self._most = most
        self._scope: MemoryScope | None = None
        self._memory: IAgentMemory | None = None
        if deps.memory is not None and deps.context.user_id is not None:
            self._scope, self._memory = MemoryScope.of(deps.context, deps.attribution.agent_id), deps.memory
        self._stored: set[str] = set()
        self._unasked: list[MemoryItem] = []

    async def recalled(self, question: str) -> list[str]:
        """Return the lessons that fit a question, then the latest."""
        found = {item.id: item for item in await self._recall(question)}
        if len(found) < _SHOWN:
            found |= {item.id: item for item in await self._recall("")}
        return [item.text for item in found.values()][:_SHOWN]

    async def store(self, lesson: str) -> str | None:
        """Store a lesson beyond the run, or ask a person whether to; return why it is lost, if it is."""
        text = " ".join(lesson.split())
        if self._memory is None or not text:
            return None
        if len(text) > LONGEST_TEXT:
            return f"it has {len(text)} characters, {LONGEST_TEXT} can be stored"
        # The memory of a run adds the trust label of the run.
        item = MemoryItem(_lesson_id(text), MemoryKind.EPISODE, text, TrustLabel())
        if item.id in self._stored:
            return None
        self._stored.add(item.id)
        if self._deps.trust.is_untrusted:
            self._unasked.append(item)
            return None
        return await self._store(item, is_agreed=True)

    async def ask(self) -> None:
        """Ask a person about the lessons that were learned from untrusted content."""
        for item in self._unasked:
            await self._store(item, is_agreed=False)

    async def _recall(self, query: str) -> Sequence[MemoryItem]:
        if self._memory is None or self._scope is None:
            return ()
        try:
            return await self._memory.recall(self._scope, query, limit=_SHOWN)
        except (AgentMemoryError, ToolError):
            return ()

    async def _store(self, item: MemoryItem, *, is_agreed: bool) -> str | None:
        if self._memory is None or self._scope is None:
            return None
        try:
            if is_agreed:
                await self._memory.remember(self._scope, item)
            else:
                await self._memory.remember_if_agreed(self._scope, item, _FROM_STRANGERS)
            await self._memory.trim(self._scope, self._most)
        except (AgentMemoryError, ToolError) as error:
            return str(error)
        return None


def _lesson_id(text: str) -> str:
    """Return the id of a lesson: the same words are the same lesson."""
    return f"lesson-{text_digest(text.casefold())[:24]}"


_FROM_STRANGERS = "the lesson was learned from untrusted content; stored, it would be shown to later runs"


@value
class Evaluation:
    """Score of an attempt, from 0 to 1, and a lesson for the next one."""

    score: Share
    lesson: str


@value
class Reflexion:
    """Try, evaluate, learn, try again.

    base: the loop that makes an attempt, with the agent's tools.
    max_attempts: how many attempts there are at most.
    threshold: from 0 to 1, the score with which an attempt is good enough.
    max_lessons: how many lessons are stored for a user; the oldest are removed.
    asks_to_keep: whether a person is asked, at the end, to keep lessons that were learned from untrusted content.
    evaluator_prompt: asks for the evaluation of an attempt.
    lessons_prompt: shows the next attempt what was learned.
    """

    base: Architecture = field(default_factory=shared(React))
    max_attempts: int = 3
    threshold: float = 0.8
    max_lessons: int = 50
    asks_to_keep: bool = False
    evaluator_prompt: str = (
        "This is an attempt at an answer:\n{attempt}\n\nHow good is it, from 0 to 1? "
        "What is the lesson for the next attempt, in a sentence that makes sense on its own?"
    )
    lessons_prompt: str = "What earlier attempts have taught you:\n{lessons}"

    name = "reflexion"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "evaluator_prompt": PromptGuide(("attempt",), "`Evaluation`"),
        "lessons_prompt": PromptGuide(("lessons",), "nothing: it stands before the question"),
    }

    def __post_init__(self) -> None:
        reject_not_positive(self, max_attempts=self.max_attempts, max_lessons=self.max_lessons)
        reject_outside_unit(self, threshold=self.threshold)
        check_prompts(self, self.prompt_guides)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Attempt until one is good enough or the attempts are over.

        An attempt that stopped short is judged by its output. Without a complete attempt the run stops short too.

        Raises:
            AgentStructuredOutputError: the model gives no evaluation, asked twice.
        """
        add_question(session, prompt)
        candidates, lessons = Candidates(session), Lessons(deps, self.max_lessons)
        known = await lessons.recalled(prompt)
        for number in range(1, self.max_attempts + 1):
            attempt = await self._attempt(session, deps, prompt, known)
            yield deps.progress("reflexion.attempted", attempt=number)
            evaluating = fill(self.evaluator_prompt, attempt=_shown(attempt))
            evaluation = await decide(session, deps, Evaluation, evaluating)
            candidates.add(attempt.output, evaluation.score, attempt.interruption_reason)
            yield deps.progress("reflexion.evaluated", attempt=number, score=evaluation.score)
            if evaluation.score >= self.threshold and not attempt.interrupted:
                break
            known = [*known, evaluation.lesson]
            if (lost := await lessons.store(evaluation.lesson)) is not None:
                yield deps.progress("reflexion.lesson_lost", attempt=number, why=lost)
        else:
            settle_for_best(session, ROUNDS_OVER)
        if self.asks_to_keep:
            await lessons.ask()

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the workers of the base."""
        return workers_of(self.base)

    async def _attempt(
        self, session: AgentSession, deps: Dependencies, prompt: str, known: Sequence[str]
    ) -> AgentSession:
        """Run one attempt; until there is a candidate, its output is the output of the session."""
        branch = branch_session(session)
        if known:
            note = fill(self.lessons_prompt, lessons="\n".join(f"- {lesson}" for lesson in known))
            branch.messages.insert(-1, ModelMessage.evidence(note, source="reflexion"))
        try:
            return await carry_out(self.base, branch, deps, "attempt", prompt)
        finally:
            if not is_something(session.output):
                session.output = branch.output


def _shown(attempt: AgentSession) -> str:
    stopped = f"\n(It stopped short: {attempt.interruption_reason}.)" if attempt.interrupted else ""
    return as_text(attempt.output) + stopped
