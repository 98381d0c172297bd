"""Blackboard: agents post contributions on a board that all of them read, until a decider answers from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
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
from pilotage.architectures.deciding import Flag, judge
from pilotage.architectures.parts import (
    WorkerRef,
    add_question,
    ask_worker,
    check_worker,
    check_workers,
    conclude,
    declared_agents,
    purpose_of,
    take_output,
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
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value


class Coordination(StrEnum):
    """Choice of the next contributors: by the agent's model, or in turn."""

    MODEL = "model"
    ROUND_ROBIN = "round_robin"


@value
class NextTurn:
    """The next contributors, which work in parallel; or that the board holds enough."""

    contributors: Sequence[str]
    done: Flag


@value
class Post:
    """An entry on the board: its author, round and text."""

    author: str
    round: int
    text: str
    failed: bool = False


@value
class Blackboard:
    """Let agents work on one board.

    agents: the contributors, by name.
    coordinator: picks the contributors of a round: the agent's own model, all in turn, or a worker: an
        agent with `output_type=NextTurn`, or a spec.
    decider: gives the answer; without one the agent itself, without tools.
    max_rounds: how many rounds there are at most.
    max_parallel: how many contributors of a round work at once; None for all of them.
    coordinator_prompt: asks for the next contributors.
    contributor_prompt: asks a contributor for its part.
    decider_prompt: asks the decider for the answer.
    closing_prompt: asks the agent itself for it, where there is no decider.
    """

    agents: Mapping[str, WorkerRef]
    coordinator: Coordination | WorkerRef = Coordination.MODEL
    decider: WorkerRef | None = None
    max_rounds: int = 4
    max_parallel: int | None = None
    coordinator_prompt: str = (
        "You coordinate work on a board.\nThe board:\n{board}\n\nWho may contribute:\n{contributors}\n\n"
        "Who contributes next? Several work side by side. If the board holds enough for the answer, you are done."
    )
    contributor_prompt: str = (
        "{question}\n\nThe board, which others read too:\n{board}\n\nAdd what you can contribute."
    )
    decider_prompt: str = "{question}\n\nThe board:\n{board}\n\nAnswer the question from it."
    closing_prompt: str = "Answer the question from what stands on the board."

    name = "blackboard"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "coordinator_prompt": PromptGuide(("board", "contributors"), "`NextTurn`"),
        "contributor_prompt": PromptGuide(("question", "board"), "a contribution"),
        "decider_prompt": PromptGuide(("question", "board"), "the answer"),
        "closing_prompt": PromptGuide((), "the answer"),
    }

    def __post_init__(self) -> None:
        check_workers(self, "agents", self.agents, decider=self.decider)
        check_worker(self, "coordinator", self._coordinator)
        check_prompts(self, self.prompt_guides)
        reject_not_positive(self, max_rounds=self.max_rounds, max_parallel=self.max_parallel)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Fill the board round by round, then close it.

        Raises:
            AgentStructuredOutputError: the coordinator names no contributors, asked twice.
            ToolError: all contributors failed, or the decider.
        """
        add_question(session, prompt)
        board: list[Post] = []
        for round_ in range(1, self.max_rounds + 1):
            turn = await self._next(round_, board, prompt, session, deps)
            if turn.done:
                break
            yield deps.progress("board.round_started", round=round_, contributors=list(turn.contributors))
            board += await self._posts(turn.contributors, round_, board, prompt, session=session, deps=deps)
            session.output = _shown(board)
            session.metadata["board"] = to_json_value(board)
            yield deps.progress("board.round_finished", round=round_, posts=len(board))
        if all(post.failed for post in board):
            raise ToolError(f"all contributors failed: {board[0].text}")
        await self._close(board, prompt, session, deps)
        yield deps.progress("board.closed", posts=len(board))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the contributors, the coordinator and the decider."""
        return declared_agents(self.agents, coordinator=self._coordinator, decider=self.decider)

    @property
    def _coordinator(self) -> WorkerRef | None:
        return None if isinstance(self.coordinator, Coordination) else self.coordinator

    async def _next(
        self, round_: int, board: Sequence[Post], prompt: str, session: AgentSession, deps: Dependencies
    ) -> NextTurn:
        def problems(turn: NextTurn) -> list[str]:
            return turn_problems(turn, board)

        names = list(self.agents)
        if self.coordinator is Coordination.ROUND_ROBIN:
            return NextTurn([names[(round_ - 1) % len(names)]], done=False)
        known = listed({name: purpose_of(worker) for name, worker in self.agents.items()})
        coordinator = self._coordinator
        question = fill(
            self.coordinator_prompt,
            board=_shown(board) or "(empty)",
            contributors=known,
        )
        if coordinator is not None:
            # The session has the question; a worker must be given it.
            question = f"{briefing(session, prompt)}\n\n{question}"
        choices = {"contributors": names}
        return await judge(
            coordinator,
            "coordinator",
            NextTurn,
            question,
            session=session,
            deps=deps,
            choices=choices,
            check=problems,
        )

    async def _posts(
        self,
        contributors: Sequence[str],
        round_: int,
        board: Sequence[Post],
        prompt: str,
        session: AgentSession,
        deps: Dependencies,
    ) -> list[Post]:
        """Return the posts of the contributors, with a note for one that failed."""
        shown = _shown(board) or "(empty)"
        task = fill(self.contributor_prompt, question=briefing(session, prompt), board=shown)
        branches = [partial(self._contributed, name, task, session, deps) for name in contributors]
        ended = await deps.runtime.gather(
            "contribute", branches, limit=self.max_parallel, policy=FailurePolicy.COLLECT
        )
        return [_posted(name, round_, end) for name, end in zip(contributors, ended, strict=True)]

    async def _contributed(
        self, name: str, task: str, session: AgentSession, deps: Dependencies
    ) -> JsonValue:
        return await ask_worker(self.agents[name], name, task, session, deps)

    async def _close(
        self, board: Sequence[Post], prompt: str, session: AgentSession, deps: Dependencies
    ) -> None:
        if self.decider is not None:
            question = briefing(session, prompt)
            task = fill(self.decider_prompt, question=question, board=_shown(board))
            take_output(session, deps, await ask_worker(self.decider, "decider", task, session, deps))
            return
        session.messages.append(ModelMessage.evidence(f"The board:\n{_shown(board)}", source="blackboard"))
        await conclude(session, deps, "decider", fill(self.closing_prompt))


def turn_problems(turn: NextTurn, board: Sequence[Post]) -> list[str]:
    """Return the problems with a decision about the next round, each as a sentence for the coordinator."""
    problems = (
        ["you are not done, and name no contributor."] if not turn.done and not turn.contributors else []
    )
    if turn.done and turn.contributors:
        problems.append("you are done, and name contributors. Give one.")
    if turn.done and all(post.failed for post in board):
        problems.append("you are done, and the board is empty.")
    twice = len(set(turn.contributors)) < len(turn.contributors)
    return problems + (["a contributor is named twice."] if twice else [])


def _posted(author: str, round_: int, end: JsonValue | BranchFailure) -> Post:
    if isinstance(end, BranchFailure):
        return Post(author, round_, f"(failed: {end.error})", failed=True)
    text = as_text(end)
    return Post(author, round_, text) if text.strip() else Post(author, round_, "(said nothing)", failed=True)


def _shown(board: Sequence[Post]) -> str:
    return "\n".join(f"[{post.round}] {post.author}: {post.text}" for post in board)
