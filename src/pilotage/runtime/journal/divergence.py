"""A divergence in its parts: the recorded call and the requested one, side by side, and the line that asks.

Everything in it is for readers of the run: arguments are evidence views, never records.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import currentframe
from pathlib import PurePath
from types import FrameType

from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.scope import Action
from pilotage.values import value

_OWN = "pilotage."
_NO_PROGRAM = ("asyncio", "concurrent.futures", "threading")
"""Modules below which there is no frame of the program."""


@value
class CallShown:
    """One side of a divergence. `row` is the first row of a recorded call; `is_open` says that it has no outcome."""

    action: str
    kind: str
    number: int = 0
    arguments: JsonValue = None
    row: int | None = None
    is_open: bool = False
    fingerprint: str = ""

    @property
    def label(self) -> str:
        """Return the last part of the id without its ordinal."""
        return label_of(self.action)

    def to_json(self) -> JsonObject:
        """Return this side for readers; what is not known of it is left out."""
        facts: dict[str, JsonValue] = {
            words.ACTION: self.action,
            words.KIND: self.kind,
            words.LABEL: self.label,
        }
        if self.number:
            facts[words.NUMBER] = self.number
        if self.arguments is not None:
            facts[words.ARGUMENTS] = self.arguments
        if self.row is not None:
            facts |= {words.ROW: self.row, words.IS_OPEN: self.is_open}
        if self.fingerprint:
            facts[words.FINGERPRINT] = self.fingerprint
        return facts


@value
class Sides:
    """The recorded call and the one that the program asks for; None for one that is not there.

    `line` is that of the asking call.
    """

    recorded: CallShown | None = None
    asked: CallShown | None = None
    line: str | None = None

    def to_json(self) -> JsonObject:
        """Return both sides for readers."""
        sides: dict[str, JsonValue] = {
            words.RECORDED: None if self.recorded is None else self.recorded.to_json(),
            words.ASKED: None if self.asked is None else self.asked.to_json(),
        }
        return sides if self.line is None else {**sides, words.LINE: self.line}


NO_SIDES = Sides()


def recorded_side(before: JournalRow | None, after: JournalRow | None) -> CallShown | None:
    """Return a recorded call as readers see it, by its rows; None if it has none."""
    first = before or after
    if first is None:
        return None
    view = object_or_empty(None if before is None else before.view)
    return CallShown(
        first.action_id,
        "" if first.kind is None else first.kind.value,
        first.number,
        view.get(words.EXECUTED, view.get(words.ASKED)),
        row=first.seq,
        is_open=after is None,
    )


def asked_about_side(action_id: str, number: int, question: JournalRow) -> CallShown:
    """Return a recorded call that had not begun as readers see it, by the question about it."""
    is_tool = label_of(action_id).startswith(words.TOOL)
    kind = AgentActionKind.TOOL_CALL if is_tool else AgentActionKind.STEP
    arguments = object_or_empty(question.view).get(words.ARGUMENTS)
    return CallShown(action_id, kind.value, number, arguments, row=question.seq, is_open=True)


def asked_side(action: Action, number: int = 0) -> CallShown:
    """Return the call that the program asks for as readers see it."""
    return CallShown(action.id, action.kind.value, number, action.view, fingerprint=action.fingerprint)


def label_of(action_id: str) -> str:
    """Return the label in the id of an action."""
    return action_id.rpartition("/")[2].partition("#")[0]


def asking_line() -> str | None:
    """Return file and line of the program's code that makes the running call; None if there is none on the stack.

    The file is named as its module is: no directory of the machine is shown.
    """
    frame = currentframe()
    while frame is not None and _module(frame).startswith(_OWN):
        frame = frame.f_back
    if frame is None or _module(frame).startswith(_NO_PROGRAM):
        return None
    return f"{_file(frame)}:{frame.f_lineno} in {frame.f_code.co_name}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _file(frame: FrameType) -> str:
    path = PurePath(frame.f_code.co_filename)
    depth = 1 if _module(frame) == "__main__" else _module(frame).count(".") + 1
    if path.stem == "__init__":
        depth += 1
    return "/".join(path.parts[-depth:])


def is_stuck(state: AgentState) -> bool:
    """Return whether no answer lets an interrupted run go on: it diverged, its record is damaged, or it is quarantined.

    Versions before the reason DIVERGED interrupted a diverged run with the reason of a damaged one. The facts of an
    earlier interruption may still be in a state of theirs: only those count that its activity speaks of.
    """
    if state.reason in (AgentStateReason.DIVERGED, AgentStateReason.POISONED):
        return True
    if state.reason is not AgentStateReason.RECOVERY_REQUIRES_HITL:
        return False
    activity = state.current_activity or ""
    return any(
        isinstance(facts := state.metadata.get(key), Mapping) and str(facts.get(part)) in activity
        for key, part in ((words.DIVERGENCE, words.DIFFERENCE), (words.DAMAGE, words.REASON))
    )
