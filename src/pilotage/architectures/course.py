"""How far a loop has come: the patience left, the failures in a row, the best text so far; and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.architecture import AgentSession, ToolCallOutcome
from pilotage.architectures.moves import (
    AskAgain,
    CallTools,
    Move,
    Patience,
    RefuseTools,
    Stop,
    StopReason,
    TextAnswer,
    TypedAnswer,
)


class Course:
    """Follows the moves of one loop. At its end the session holds the answer, or why there is none."""

    def __init__(self, session: AgentSession, patience: Patience, max_tool_errors: int) -> None:
        self._session = session
        self._fresh = self.patience = patience
        self._max_tool_errors = max_tool_errors
        self._failed_turns = 0
        self._begun = ""
        self._text = ""

    def hear(self, reply: str) -> None:
        """Take in the text of a reply: until there is an answer, the best text so far stands for it.

        So a limit that ends the run from outside the loop finds it in the session.
        """
        # A reply that goes on after a cut is one text with what was said before the cut.
        self._text = self._begun + reply
        if self._text and not self._text.isspace():
            self._session.output = self._text

    def follow(self, move: Move, outcomes: Sequence[ToolCallOutcome] = ()) -> bool:
        """Take in a move, and what came of its calls; whether the loop is over."""
        match move:
            case CallTools():
                return self._after_tools(outcomes)
            case TextAnswer():
                return True
            case TypedAnswer(output):
                self._session.output = output
                return True
            case Stop(reason):
                return self.interrupt(reason)
            case AskAgain(note, patience, is_cut):
                self._session.messages.append(ModelMessage.evidence(note, source="react"))
                self.patience = patience
                self._begun = self._text if is_cut else self._begun
                return False
            case RefuseTools():
                self.patience, self._begun = move.patience, ""
                return False
            case _:
                assert_never(move)

    def interrupt(self, reason: StopReason) -> bool:
        """End without the answer: the best text stands for it, and the reason says why."""
        self._session.interrupted = True
        self._session.interruption_reason = reason.value
        return True

    def _after_tools(self, outcomes: Sequence[ToolCallOutcome]) -> bool:
        self.patience, self._begun, has_worked = self._fresh, "", False
        for outcome in outcomes:
            if outcome.ends:
                self._session.output = outcome.result
                return True
            has_worked = has_worked or outcome.error is None
        self._failed_turns = 0 if has_worked else self._failed_turns + 1
        if self._failed_turns < self._max_tool_errors:
            return False
        return self.interrupt(StopReason.TOOL_ERRORS)
