"""What the rows of a run say about its state and its signals. Pure.

Everything that follows from the rows is compared. What they leave open (whether an active run is driven by anybody,
why a person paused it) is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.actions.action import RESULT
from pilotage.runtime.attempts.cancellation import cancellation_error
from pilotage.runtime.journal.recording import Recording

_APPROVALS = frozenset({AgentStateReason.APPROVAL_REQUIRED, AgentStateReason.APPROVAL_DEFERRED})


def disagreement(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """What the state says that the rows do not bear out, in words; None where they agree."""
    if not rows:
        return f"its state is {state.status}, and its journal has no rows"
    result = next((row for row in reversed(rows) if row.action_id == RESULT and row.kind is not None), None)
    if result is not None and result.stage is JournalStage.AFTER:
        return _about_the_end(state, rows, cast(JsonObject, result.view))
    if state.is_terminal and cancellation_error(state) is None:
        return f"its state is {state.status}, and there is no result in its journal"
    return _about_what_is_left(state, rows) if state.is_terminal else _about_the_wait(state, rows)


def still_pending(rows: Iterable[JournalRow], pending: Sequence[AgentSignal]) -> str | None:
    """A signal that was taken in and is still in the queue, in words."""
    taken = {signal_id for row in rows for signal_id in _taken_in(row)}
    left = next((signal for signal in pending if signal.id in taken), None)
    return None if left is None else f"signal {left.id!r} was taken in, and is still in the queue"


def _about_the_end(state: AgentState, rows: Sequence[JournalRow], result: JsonObject) -> str | None:
    if not state.is_terminal:
        return f"it has a result in its journal, and its state is {state.status}"
    has_failed = result.get("error") is not None
    if has_failed is (state.status is AgentStatus.COMPLETED):
        came_to = "an error" if has_failed else "an answer"
        return f"it came to {came_to} by its journal, and its state is {state.status}"
    return _about_what_is_left(state, rows)


def _about_what_is_left(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    left = Recording(rows).under_way()
    return f"{left[0][0].id!r} has no outcome, and its state is {state.status}" if left else None


def _about_the_wait(state: AgentState, rows: Sequence[JournalRow]) -> str | None:
    """A run waits for people exactly where somebody was asked, by itself or by a run it belongs to."""
    if state.status is not AgentStatus.INTERRUPTED or state.reason not in _APPROVALS:
        return None
    closed = {row.action_id for row in rows if row.stage is not JournalStage.BEFORE}
    waits = (AgentActionKind.APPROVAL_WAIT, AgentActionKind.DELEGATION)
    if any(row.kind in waits and row.action_id not in closed for row in rows):
        return None
    return f"its state is {state.status} ({state.reason}), and nobody was asked anything"


def _taken_in(row: JournalRow) -> list[str]:
    if row.kind is not AgentActionKind.SIGNAL or not isinstance(row.view, dict):
        return []
    signals = cast("list[JsonObject]", row.view["result"])
    return [cast(str, signal["id"]) for signal in signals]
