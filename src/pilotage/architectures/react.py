"""ReAct: the model reasons, calls tools, reads their results, and continues until it answers.

Plain control flow: `moves` decides, this module acts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    Dependencies,
    FoldedTurn,
    IScopedTools,
    ToolCallOutcome,
)
from pilotage.architectures.moves import (
    BE_BRIEF,
    GO_ON,
    NOT_CALLED,
    REPAIR,
    SPEAK,
    CallTools,
    Course,
    Move,
    Notes,
    RefuseTools,
    RetriesLeft,
    StopReason,
)
from pilotage.architectures.prompts import PromptGuide, PromptGuides, asked, check_prompts, fill
from pilotage.architectures.turn import Events, ModelTurn, close_stream, lead_of
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.errors import AgentStructuredOutputError
from pilotage.values import value


@value
class React:
    """The default loop. All bounds but `max_turns` count what happens in a row.

    max_turns: how often the model is asked; None leaves it to the agent's limits.
    parallel_tools: the read-only calls of one reply run side by side; else all of them one by one.
    max_parallel: how many of them run at once; None for all.
    max_tool_errors: so many turns in which every call failed end the loop.
    max_repairs: how often the model may correct an answer that is not of the type asked for.
    max_continuations: how often a reply that was cut off by the length limit may go on.
    continue_prompt: asks the model to go on after a cut.
    brief_prompt: asks again, when the cut came before the first word.
    empty_prompt: asks again after an empty reply.
    uncalled_prompt: the error of tool calls whose arguments may be cut.
    repair_prompt: asks again for an answer of the type asked for.
    """

    max_turns: int | None = None
    parallel_tools: bool = True
    max_tool_errors: int = 3
    max_repairs: int = 1
    max_continuations: int = 1
    max_parallel: int | None = None
    continue_prompt: str = GO_ON
    brief_prompt: str = BE_BRIEF
    empty_prompt: str = SPEAK
    uncalled_prompt: str = NOT_CALLED
    repair_prompt: str = REPAIR

    name = "react"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "continue_prompt": PromptGuide((), "the rest of the reply"),
        "brief_prompt": PromptGuide((), "a reply"),
        "empty_prompt": PromptGuide((), "a reply"),
        "uncalled_prompt": PromptGuide((), "the calls again"),
        "repair_prompt": PromptGuide(("problems",), "the answer in its type"),
    }
    takes_exits = True
    cancels_calls = False

    def __post_init__(self) -> None:
        reject_not_positive(self, max_turns=self.max_turns, max_tool_errors=self.max_tool_errors)
        reject_not_positive(self, max_parallel=self.max_parallel)
        reject_negative(self, max_repairs=self.max_repairs, max_continuations=self.max_continuations)
        check_prompts(self, self.prompt_guides)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Drive the agent from the prompt to its answer; a prompt that the session ends with is not asked again.

        The answer is the session's output; a control call that ends the loop gives it too. Where there is none the
        session is interrupted, with the reason, and its output is the best partial text.

        Raises:
            ModelCallError: the model failed.
            AgentStructuredOutputError: the answer is not of the type asked for, and no repair is left.
        """
        session.messages[:] = asked(session, prompt)
        lead = lead_of(session)
        course = Course(session, _retries_of(self), self.max_tool_errors)
        with deps.turns() as turns:
            for _ in range(self.max_turns or deps.max_turns):
                turn = ModelTurn(session, deps, lead)
                folded = turns.folded()
                if folded is not None:
                    if _take(folded, turn, course):
                        return
                    continue
                yield turn.begin()
                stream = turn.stream()
                try:
                    async for sent in stream:
                        for event in turn.project(sent):
                            yield event
                        if sent.response is not None:
                            turn.reply = sent.response
                            break
                except AgentStructuredOutputError as error:
                    turn.miss(error)
                finally:
                    await close_stream(stream)
                yield turn.end()
                course.take_text(turn.reply.content)
                move = turn.move(course.retries)
                outcomes = await self._answered(move, deps.tools)
                for outcome in outcomes:
                    yield turn.add_result(outcome)
                if course.follow(move, outcomes):
                    return
                turns.ended(_calls_in(move))
        course.interrupt(StopReason.MAX_STEPS)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return no workers: the agent works alone."""
        return {}

    def _answered(self, move: Move, tools: IScopedTools) -> Awaitable[Sequence[ToolCallOutcome]]:
        """Return the outcomes of the calls of a reply: of those that are made, or are refused."""
        if not isinstance(move, CallTools):
            return _refused(move)
        if self.parallel_tools:
            return tools.call_all(move.calls, limit=self.max_parallel)
        return _one_by_one(move.calls, tools)


@lru_cache(maxsize=256)
def _retries_of(loop: React) -> RetriesLeft:
    """Return the retries of a loop, which are the same for all its runs."""
    notes = Notes(
        fill(loop.continue_prompt),
        fill(loop.brief_prompt),
        fill(loop.empty_prompt),
        fill(loop.uncalled_prompt),
        loop.repair_prompt,
    )
    return RetriesLeft(loop.max_repairs, loop.max_continuations, notes=notes)


def _take(folded: FoldedTurn, turn: ModelTurn, course: Course) -> bool:
    """Take a turn that is not made again; return whether the loop is over."""
    turn.recall(folded)
    course.take_text(turn.reply.content)
    move = turn.move(course.retries)
    made = folded.outcomes(move.calls if isinstance(move, CallTools) else ())
    outcomes = made or _refusals(move)
    for outcome in outcomes:
        turn.add(outcome)
    return course.follow(move, outcomes)


def _calls_in(move: Move) -> int:
    """Return the number of tool calls that a move makes."""
    return len(move.calls) if isinstance(move, CallTools) else 0


def _refusals(move: Move) -> Sequence[ToolCallOutcome]:
    """Return the outcomes of calls that are refused; none for a reply without any."""
    if not isinstance(move, RefuseTools):
        return ()
    return [ToolCallOutcome(call, error=move.why) for call in move.calls]


async def _refused(move: Move) -> Sequence[ToolCallOutcome]:
    return _refusals(move)


async def _one_by_one(calls: Sequence[ModelToolCall], tools: IScopedTools) -> Sequence[ToolCallOutcome]:
    return [await tools.call(call) for call in calls]
