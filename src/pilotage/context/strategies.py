"""The built-in ways to make a context smaller.

Pure. Each of them does all it can at once instead of just enough: what stands at the beginning of a request
is cached by servers, and a beginning that changes with every call is paid for every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.compaction.estimate import TokenEstimator, message_tokens
from pilotage.agent.compaction.plan import CompactionPlan, NothingToDo, Rewrite, SummaryNeeded
from pilotage.agent.compaction.rules import untouchable
from pilotage.agent.compaction.summary import is_summary, spoken
from pilotage.agent.compaction.turns import older_than, units_of
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_SHORTEST_TRIM = 100
"""The note about what is missing must fit."""


@value
class KeepRecent:
    """Leaves out all turns but the last ones, with what was asked in between."""

    turns: int = 8

    def __post_init__(self) -> None:
        reject_not_positive(self, turns=self.turns)

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        del estimator
        old = _old(messages, self.turns) if excess > 0 else ()
        dropped = frozenset(index for index in old if not is_summary(messages[index]))
        return Rewrite("keep_recent", tuple(messages), dropped) if dropped else NothingToDo()


@value
class TrimToolResults:
    """Shows long results of tools only in part, except those of the last turns."""

    max_chars: int = 2_000
    keep_last: int = 2

    def __post_init__(self) -> None:
        reject_negative(self, keep_last=self.keep_last)
        if self.max_chars < _SHORTEST_TRIM:
            raise AgentDefinitionError(
                f"TrimToolResults.max_chars is {self.max_chars!r}. Use at least {_SHORTEST_TRIM}: what is left "
                "out is said in a note, and the note must fit."
            )

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        units = older_than(units_of(messages), self.keep_last) if excess > 0 else ()
        old = sorted(index for unit in units for index in unit.members)
        trimmed = {
            index: _trimmed(messages[index], self.max_chars) for index in old if _is_result(messages[index])
        }
        shorter = {
            index: message
            for index, message in trimmed.items()
            if message_tokens(message, estimator) < message_tokens(messages[index], estimator)
        }
        return Rewrite("trim_tool_results", tuple(messages), replaced=shorter) if shorter else NothingToDo()


@value
class SummariseOldTurns:
    """Puts a summary in the place of all turns but the last ones; an earlier summary goes into the new one.

    Nothing is done where the old turns are hardly longer than a summary may be.
    """

    keep_recent: int = 4
    max_summary_chars: int = 4_000

    def __post_init__(self) -> None:
        reject_not_positive(self, keep_recent=self.keep_recent, max_summary_chars=self.max_summary_chars)

    def plan(
        self, messages: Sequence[ModelMessage], *, excess: int, estimator: TokenEstimator
    ) -> CompactionPlan:
        del estimator
        old = _old(messages, self.keep_recent) if excess > 0 else ()
        length = sum(len(spoken(messages[index])) for index in old if not is_summary(messages[index]))
        if length <= self.max_summary_chars:
            return NothingToDo()
        return SummaryNeeded("summarise_old_turns", tuple(messages), frozenset(old), self.max_summary_chars)


def _old(messages: Sequence[ModelMessage], turns: int) -> tuple[int, ...]:
    """The messages before the last turns that may go."""
    staying = untouchable(messages)
    old = (index for unit in older_than(units_of(messages), turns) for index in unit.members)
    return tuple(index for index in old if index not in staying)


def _is_result(message: ModelMessage) -> bool:
    return message.role is ModelMessageRole.TOOL


def _trimmed(message: ModelMessage, max_chars: int) -> ModelMessage:
    text = message.text
    if len(text) <= max_chars:
        return message
    note = f"\n[{len(text):,} characters in all; the rest was left out to save room]"
    short = text[: max_chars - len(note)] + note
    if isinstance(message.content, str):
        return replace(message, content=short)
    media = [part for part in message.content if isinstance(part, MediaPart)]
    return replace(message, content=(TextPart(short), *media))
