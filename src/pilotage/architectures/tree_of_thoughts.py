"""Tree of thoughts: several next thoughts for each good line of thought, scored, the best kept; then the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import ClassVar, TypeVar

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    Architecture,
    BranchFailure,
    Dependencies,
    FailurePolicy,
    workers_of,
)
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import add_question, adopt_result, branch_session, carry_out, interrupt
from pilotage.architectures.prompts import PromptGuide, PromptGuides, check_prompts, fill
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.errors import ToolError
from pilotage.jsonvalue import to_json_value
from pilotage.values import shared, value

T = TypeVar("T")


@value
class Thoughts:
    """Different next thoughts."""

    thoughts: Sequence[str]


@value
class Rating:
    """Score of a line of thought, from 0 to 1; 1 has solved it."""

    score: Share
    reason: str = ""


@value
class Line:
    """A line of thought and its score."""

    thoughts: tuple[str, ...] = ()
    score: float = 0.0

    @property
    def text(self) -> str:
        """The thoughts one below the other."""
        return "\n".join(f"{number}. {thought}" for number, thought in enumerate(self.thoughts, start=1))


@value
class TreeOfThoughts:
    """Search for a line of thought with a beam, then answer from the best one.

    base: the loop that answers in the end, with the agent's tools; thinking uses none.
    branch_factor: how many next thoughts are proposed for a line.
    max_depth: how many thoughts a line has at most.
    beam_width: how many lines are kept at each depth.
    solved_threshold: from 0 to 1, the score with which a line has solved it, and the search ends.
    min_score: from 0 to 1, what a line needs to be kept at all.
    max_parallel: how many lines are thought about at once; None for all of them.
    proposer_prompt: asks for the next thoughts of a line.
    scorer_prompt: asks how promising a line is.
    answer_prompt: shows the base the best line, before the question.
    """

    base: Architecture = field(default_factory=shared(React))
    branch_factor: int = 3
    max_depth: int = 3
    beam_width: int = 2
    solved_threshold: float = 0.9
    min_score: float = 0.1
    max_parallel: int | None = None
    proposer_prompt: str = (
        "Think towards the answer, and do not give it yet.\n{line}\nPropose the next thought in "
        "{branch_factor} ways that differ from each other."
    )
    scorer_prompt: str = "{line}\nHow promising is this line of thought, from 0 to 1? 1 has solved it."
    answer_prompt: str = "Your best line of thought:\n{line}"

    name = "tree_of_thoughts"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "proposer_prompt": PromptGuide(("line", "branch_factor"), "`Thoughts`"),
        "scorer_prompt": PromptGuide(("line",), "`Rating`"),
        "answer_prompt": PromptGuide(("line",), "nothing: it stands before the question"),
    }

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        reject_not_positive(
            self, branch_factor=self.branch_factor, max_depth=self.max_depth, beam_width=self.beam_width
        )
        reject_not_positive(self, max_parallel=self.max_parallel)
        reject_outside_unit(self, solved_threshold=self.solved_threshold, min_score=self.min_score)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Search, then answer from the best line; without one that is good enough the run ends short.

        A line without a usable score, or without usable next thoughts, is dropped.

        Raises:
            ToolError: no line is left, because none of the first thoughts or none of the first scores can be used.
        """
        add_question(session, prompt)
        beam, best = [Line()], Line()
        tree: list[Line] = []
        for depth in range(1, self.max_depth + 1):
            lines = await self._grown(beam, session, deps, has_line=bool(tree))
            tree += lines
            session.metadata["tree"] = to_json_value(tree)
            best_lines = [line for line in ranked(lines) if line.score >= self.min_score][: self.beam_width]
            yield deps.progress("tree.scored", depth=depth, lines=len(lines), kept=len(best_lines))
            best = ranked([*tree, best])[0]
            session.output = best.text
            if not best_lines or best.score >= self.solved_threshold:
                break
            beam = best_lines
        if best.score < self.min_score:
            interrupt(session, StopReason.UNRESOLVED)
            return
        branch = branch_session(session)
        note = fill(self.answer_prompt, line=best.text)
        branch.messages.insert(-1, ModelMessage.evidence(note, source="tree"))
        adopt_result(session, await carry_out(self.base, branch, deps, "answer", prompt))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the workers of the base."""
        return workers_of(self.base)

    async def _grown(
        self, beam: Sequence[Line], session: AgentSession, deps: Dependencies, *, has_line: bool
    ) -> list[Line]:
        """Return the next lines with their scores: proposed side by side, each of them once, then scored side by side.

        Raises:
            ToolError: all of them failed, and there is no line of an earlier depth.
        """
        proposing = [partial(self._proposed, line, session, deps) for line in beam]
        proposed = await self._usable("propose", proposing, deps, has_line=has_line)
        grown = [
            (*line.thoughts, thought)
            for line, found in zip(beam, proposed, strict=True)
            if found is not None
            for thought in found.thoughts
        ]
        new = list(dict.fromkeys(grown))
        scoring = [partial(self._score, thoughts, session, deps) for thoughts in new]
        ratings = await self._usable("score", scoring, deps, has_line=has_line)
        rated = zip(new, ratings, strict=True)
        return [Line(thoughts, rating.score) for thoughts, rating in rated if rating is not None]

    async def _usable(
        self,
        label: str,
        branches: Sequence[Callable[[], Awaitable[T]]],
        deps: Dependencies,
        *,
        has_line: bool,
    ) -> list[T | None]:
        """Return the results of branches, None for one that failed.

        Raises:
            ToolError: all of them failed, and there is no line of an earlier depth.
        """
        ended: Sequence[T | BranchFailure] = await deps.runtime.gather(
            label, branches, limit=self.max_parallel, policy=FailurePolicy.COLLECT
        )
        failures = [end for end in ended if isinstance(end, BranchFailure)]
        if failures and len(failures) == len(ended) and not has_line:
            raise ToolError(failures[0].error)
        return [None if isinstance(end, BranchFailure) else end for end in ended]

    async def _proposed(self, line: Line, session: AgentSession, deps: Dependencies) -> Thoughts:
        def problems(found: Thoughts) -> list[str]:
            return thought_problems(found.thoughts, self.branch_factor)

        question = fill(self.proposer_prompt, line=_so_far(line), branch_factor=self.branch_factor)
        return await decide(branch_session(session), deps, Thoughts, question, check=problems)

    async def _score(self, thoughts: tuple[str, ...], session: AgentSession, deps: Dependencies) -> Rating:
        question = fill(self.scorer_prompt, line=_so_far(Line(thoughts)))
        return await decide(branch_session(session), deps, Rating, question)


def ranked(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, best first; equals as they came."""
    return sorted(lines, key=lambda line: -line.score)


def thought_problems(thoughts: Sequence[str], most: int) -> list[str]:
    """Return the problems of proposals, each as a sentence for the model."""
    problems = ["there is no thought."] if not thoughts else []
    problems += [f"there are {len(thoughts)} thoughts; {most} are allowed."] if len(thoughts) > most else []
    problems += ["a thought is blank."] if any(not thought.strip() for thought in thoughts) else []
    return problems + (["a thought is there twice."] if len(set(thoughts)) < len(thoughts) else [])


def _so_far(line: Line) -> str:
    return f"The line of thought so far:\n{line.text}" if line.thoughts else "There is no thought yet."
