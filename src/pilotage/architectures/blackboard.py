"""Blackboard: agents post what they know on a board that all of them read, until somebody closes it with the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    BranchFailure,
    Dependencies,
    FailurePolicy,
)
from pilotage.architectures.deciding import decide
from pilotage.architectures.parts import (
    WorkerRef,
    ask_worker,
    check_workers,
    close_with,
    declared,
    purpose_of,
    take_output,
    take_up,
)
from pilotage.architectures.turn import Events
from pilotage.architectures.wording import as_text, briefing, listed
from pilotage.checks import reject_not_positive
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.values import value


class Coordination(StrEnum):
    """Who says who contributes next: the agent's model, or one after the other."""

    MODEL = "model"
    ROUND_ROBIN = "round_robin"


@value
class NextTurn:
    """Who contributes next, side by side; or that the board holds enough."""

    contributors: Sequence[str]
    done: bool


@value
class Post:
    """What somebody wrote on the board, in which round."""

    author: str
    round: int
    text: str


@value
class Blackboard:
    """Let agents work on one board.

    agents: who may contribute, by name.
    coordinator: who picks the contributors of a round.
    decider: who closes with the answer; without one the agent itself, without tools.
    max_rounds: how many rounds there are at most.
    max_parallel: how many contributors of a round work at once; None for all of them.
    """

    agents: Mapping[str, WorkerRef]
    coordinator: Coordination = Coordination.MODEL
    decider: WorkerRef | None = None
    max_rounds: int = 4
    max_parallel: int | None = None

    name = "blackboard"
    version = 1

    def __post_init__(self) -> None:
        check_workers(self, "agents", self.agents, decider=self.decider)
        reject_not_positive(self, max_rounds=self.max_rounds, max_parallel=self.max_parallel)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Fill the board round by round, then close it.

        Raises:
            AgentStructuredOutputError: the model does not say who is next, asked twice.
            ToolError: the decider failed.
        """
        take_up(session, prompt)
        board: list[Post] = []
        for round_ in range(1, self.max_rounds + 1):
            turn = await self._next(round_, board, session, deps)
            if turn.done:
                break
            yield deps.progress("board.round_started", round=round_, contributors=list(turn.contributors))
            board += await self._posts(turn.contributors, round_, board, prompt, session=session, deps=deps)
            session.output = _shown(board)
            session.metadata["board"] = to_json_value(board)
            yield deps.progress("board.round_finished", round=round_, posts=len(board))
        await self._close(board, prompt, session, deps)
        yield deps.progress("board.closed", posts=len(board))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """The contributors and the decider."""
        return declared(self.agents, decider=self.decider)

    async def _next(
        self, round_: int, board: Sequence[Post], session: AgentSession, deps: Dependencies
    ) -> NextTurn:
        names = list(self.agents)
        if self.coordinator is Coordination.ROUND_ROBIN:
            return NextTurn([names[(round_ - 1) % len(names)]], done=False)
        known = listed({name: purpose_of(worker) for name, worker in self.agents.items()})
        question = (
            f"You coordinate work on a board.\nThe board:\n{_shown(board) or '(empty)'}\n\n"
            f"Who may contribute:\n{known}\n\n"
            "Who contributes next? Several work side by side. If the board holds enough for the answer, you are done."
        )
        return await decide(
            session, deps, NextTurn, question, check=_turn_problems, choices={"contributors": names}
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
        """What the contributors write; who fails leaves a note, so that the coordinator knows."""
        task = _contributing(briefing(session, prompt), board)
        branches = [partial(self._contributed, name, task, session, deps) for name in contributors]
        ended = await deps.runtime.gather(
            "contribute", branches, limit=self.max_parallel, policy=FailurePolicy.COLLECT
        )
        return [Post(name, round_, _words(end)) for name, end in zip(contributors, ended, strict=True)]

    async def _contributed(
        self, name: str, task: str, session: AgentSession, deps: Dependencies
    ) -> JsonValue:
        return await ask_worker(self.agents[name], name, task, session, deps)

    async def _close(
        self, board: Sequence[Post], prompt: str, session: AgentSession, deps: Dependencies
    ) -> None:
        if self.decider is not None:
            task = _deciding(briefing(session, prompt), board)
            take_output(session, deps, await ask_worker(self.decider, "decider", task, session, deps))
            return
        session.messages.append(ModelMessage.evidence(f"The board:\n{_shown(board)}", source="blackboard"))
        await close_with(session, deps, "decider", "Answer the question from what stands on the board.")


def _turn_problems(turn: NextTurn) -> list[str]:
    problems = (
        ["you are not done, and nobody contributes."] if not turn.done and not turn.contributors else []
    )
    twice = len(set(turn.contributors)) < len(turn.contributors)
    return problems + (["a contributor is named twice."] if twice else [])


def _words(end: JsonValue | BranchFailure) -> str:
    return f"(failed: {end.error})" if isinstance(end, BranchFailure) else as_text(end)


def _shown(board: Sequence[Post]) -> str:
    return "\n".join(f"[{post.round}] {post.author}: {post.text}" for post in board)


def _contributing(question: str, board: Sequence[Post]) -> str:
    shown = _shown(board) or "(empty)"
    return f"{question}\n\nThe board, which others read too:\n{shown}\n\nAdd what you can contribute."


def _deciding(question: str, board: Sequence[Post]) -> str:
    return f"{question}\n\nThe board:\n{_shown(board)}\n\nAnswer the question from it."
