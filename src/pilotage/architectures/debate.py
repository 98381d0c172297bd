"""Debate: agents answer in parallel, read the other answers and answer again; agreement, a judge or a vote ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    BranchFailure,
    Dependencies,
    FailurePolicy,
)
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.deciding import Flag, judge
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import (
    WorkerRef,
    add_question,
    ask_worker,
    check_workers,
    conclude,
    declared_agents,
    interrupt,
)
from pilotage.architectures.prompts import (
    PromptGuide,
    PromptGuides,
    as_text,
    briefing,
    check_prompts,
    fill,
    listed,
)
from pilotage.architectures.turn import Events
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value


@value
class Position:
    """A final answer, short enough to be compared, and its reasoning."""

    answer: str
    reasoning: str = ""


@value
class Ruling:
    """The debater with the best answer, and whether all answers mean the same."""

    winner: str
    agreed: Flag
    reason: str = ""


@value
class Debate:
    """Let several agents answer, and read the answers of the others.

    debaters: agents with `output_type=Position`, or specs; of another output, all of it is the answer.
    judge: an agent with `output_type=Ruling`, or a spec; without one, equal answers agree and most votes win.
    rounds: how often each debater answers at most.
    max_parallel: how many debaters answer at once; None for all of them.
    quorum: how many debaters must have a position for the debate to be decided; None for a majority of them.
    opening_prompt: asks a debater for the first answer.
    rebuttal_prompt: asks it again, with the answers of the others.
    judge_prompt: asks the judge for the ruling.
    closing_prompt: asks for the answer in the output type of the agent, where it has one.
    """

    debaters: Mapping[str, WorkerRef]
    judge: WorkerRef | None = None
    rounds: int = 2
    max_parallel: int | None = None
    quorum: int | None = None
    opening_prompt: str = (
        "{question}\n\nGive your final answer, as short as it can be, and what speaks for it."
    )
    rebuttal_prompt: str = (
        "{question}\n\n{own}Others say:\n{others}\n\nThink about what the others say, keep your answer or change "
        "it, and give it as short as it can be."
    )
    judge_prompt: str = (
        "Judge a debate.\n\nThe question:\n{question}\n\nThe answers:\n{answers}\n\n"
        "Who has the best answer? Do all of them mean the same?"
    )
    closing_prompt: str = "Give this answer in the form that is asked for."

    name = "debate"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "opening_prompt": PromptGuide(("question",), "`Position`"),
        "rebuttal_prompt": PromptGuide(("question", "own", "others"), "`Position`"),
        "judge_prompt": PromptGuide(("question", "answers"), "`Ruling`"),
        "closing_prompt": PromptGuide((), "the answer"),
    }

    def __post_init__(self) -> None:
        check_workers(self, "debaters", self.debaters, judge=self.judge)
        reject_not_positive(self, rounds=self.rounds, max_parallel=self.max_parallel, quorum=self.quorum)
        check_prompts(self, self.prompt_guides)
        count = len(self.debaters)
        if count < 2:
            raise AgentDefinitionError(f"Debate.debaters has {count} member. A debate needs two or more.")
        if self.quorum is not None and not 2 <= self.quorum <= count:
            raise AgentDefinitionError(
                f"Debate.quorum is {self.quorum} of {count} debaters. Use a number from 2 to {count}."
            )

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Debate until there is agreement or the rounds are over.

        A debater that fails keeps its earlier position. With fewer positions than the quorum nothing is decided: the
        run ends unresolved, with the leading answer as its output.

        Raises:
            AgentStructuredOutputError: the judge gives no ruling, asked twice.
            ToolError: all debaters failed, or the judge.
        """
        add_question(session, prompt)
        question, rounds = briefing(session, prompt), list[JsonValue]()
        positions: dict[str, Position] = {}
        is_quorate = False
        for round_ in range(1, self.rounds + 1):
            positions = await self._answered(question, positions, session, deps)
            rounds.append(to_json_value(positions))
            session.metadata["rounds"] = list(rounds)
            winner, is_agreed = leading(positions)
            session.output = positions[winner].answer.strip()
            yield deps.progress("debate.answered", round=round_, debaters=list(positions))
            is_quorate = len(positions) >= (self.quorum or len(self.debaters) // 2 + 1)
            if not is_quorate or len(positions) < 2:
                is_agreed = False
                continue
            if self.judge is not None:
                winner, is_agreed = await self._ruled(question, positions, session, deps)
                session.output = positions[winner].answer.strip()
                yield deps.progress("debate.judged", round=round_, winner=winner, agreed=is_agreed)
            if is_agreed:
                break
        if not is_quorate:
            interrupt(session, StopReason.UNRESOLVED)
        elif deps.output is not None:
            decided = f"A debate has ended. The answer it came to:\n{as_text(session.output)}"
            session.messages.append(ModelMessage.evidence(decided, source="debate"))
            await conclude(session, deps, "closing", fill(self.closing_prompt))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the debaters and the judge."""
        return declared_agents(self.debaters, judge=self.judge)

    async def _answered(
        self, question: str, before: Mapping[str, Position], session: AgentSession, deps: Dependencies
    ) -> dict[str, Position]:
        """Return the positions of this round; a debater that fails keeps its earlier one, if there is one."""
        branches = [
            partial(self._argue, name, question, before, session=session, deps=deps) for name in self.debaters
        ]
        ended = await deps.runtime.gather(
            "debater", branches, limit=self.max_parallel, policy=FailurePolicy.COLLECT
        )
        failures = [end for end in ended if isinstance(end, BranchFailure)]
        if len(failures) == len(self.debaters):
            raise ToolError(f"all debaters failed: {failures[0].error}")
        ends = zip(self.debaters, ended, strict=True)
        now = {name: end for name, end in ends if not isinstance(end, BranchFailure)}
        held = {**before, **now}
        return {name: held[name] for name in self.debaters if name in held}

    async def _argue(
        self,
        name: str,
        question: str,
        before: Mapping[str, Position],
        session: AgentSession,
        deps: Dependencies,
    ) -> Position:
        debater = self.debaters[name]
        if isinstance(debater, AgentExecutionSpec):
            debater = replace(debater, output_type=Position)
        others = {
            other: f"{each.answer} ({each.reasoning})" for other, each in before.items() if other != name
        }
        task = fill(self.opening_prompt, question=question)
        if others:
            own = f"You said: {before[name].answer}\n" if name in before else ""
            task = fill(self.rebuttal_prompt, question=question, own=own, others=listed(others))
        return position_in(await ask_worker(debater, name, task, session, deps))

    async def _ruled(
        self, question: str, positions: Mapping[str, Position], session: AgentSession, deps: Dependencies
    ) -> tuple[str, bool]:
        answers = listed({name: f"{each.answer} ({each.reasoning})" for name, each in positions.items()})
        asked = fill(self.judge_prompt, question=question, answers=answers)
        choices = {"winner": list(positions)}
        ruling = await judge(self.judge, "judge", Ruling, asked, session=session, deps=deps, choices=choices)
        return ruling.winner, ruling.agreed


def position_in(output: JsonValue) -> Position:
    """Return the position that an output holds; of any other output, all of it is the answer."""
    if isinstance(output, Mapping) and isinstance(answer := output.get("answer"), str):
        return Position(answer, as_text(output.get("reasoning")))
    return Position(as_text(output))


def leading(positions: Mapping[str, Position]) -> tuple[str, bool]:
    """Return the debater whose answer is the most frequent, the first among equals, and whether all agree."""
    given = {name: position.answer.strip().casefold() for name, position in positions.items()}
    votes = Counter(given.values())
    winner = max(given, key=lambda name: votes[given[name]])
    return winner, len(votes) == 1
