"""The recorded actions of a run: looked up by id, compared with what the program requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import RecoveryDone, RecoveryRetried
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.divergence import (
    Sides,
    asked_about_side,
    asked_side,
    asking_line,
    label_of,
    recorded_side,
)
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.question_record import answers_inside
from pilotage.runtime.journal.record_fields import decode_row
from pilotage.runtime.journal.record_rows import is_skip
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.seals import has_record
from pilotage.runtime.journal.start_record import suspended_in

_BEFORE, _FOLDED = JournalStage.BEFORE, JournalStage.FOLDED
_ASKED_ABOUT = (AgentActionKind.TOOL_CALL, AgentActionKind.STEP)


@dataclass(slots=True)
class RecordedAction:
    """The rows of one action: the last attempt's BEFORE, and the AFTER where it has one."""

    before: JournalRow | None = None
    after: JournalRow | None = None

    @property
    def row(self) -> JournalRow:
        """Return any row of the action: id, kind and fingerprint are the same in all of them."""
        row = self.after or self.before
        if row is None:
            raise AssertionError("a recorded action has at least one row")
        return row

    @property
    def is_question(self) -> bool:
        """Return whether the action is a question to a person."""
        return self.row.kind is AgentActionKind.APPROVAL_WAIT

    @property
    def attempt(self) -> int:
        """Return the number of the last attempt."""
        return self.row.attempt


class Recording:
    """All recorded actions of a run by id."""

    skipped: frozenset[str] = frozenset()
    """The ids of calls that a person has skipped."""
    _suspended: dict[str, int] | None = None
    _inside: dict[str, list[JournalRow]] | None = None
    _scopes: set[str] | None = None
    _answers_inside: dict[str, RecoveryRetried | RecoveryDone] | None = None

    def __init__(self, rows: Iterable[JournalRow], claims: Sequence[JournalRow] = ()) -> None:
        self.claims = claims
        """The CLAIMED rows of the run."""
        self._actions: dict[str, RecordedAction] = {}
        self._kinds: set[AgentActionKind | None] = set()
        for row in rows:
            if row.kind is not None:
                self._fold(row)

    def under_way(self) -> list[tuple[Action, int]]:
        """Return the actions that were begun and have no outcome, with the number of their last attempt."""
        return [
            (recorded_action(recorded.row), recorded.attempt)
            for recorded in self._actions.values()
            if recorded.after is None and not recorded.is_question
        ]

    def take(self, action: Action) -> RecordedAction | None:
        """Return the record of the action that the program requests; None if there is none.

        Raises:
            RunDiverged: another action is recorded at this place.
        """
        recorded = self._actions.get(action.id)
        if recorded is None:
            return None
        row = recorded.row
        if row.fingerprint != action.fingerprint:
            raise RunDiverged(action.id, difference(row, action), _sides(recorded, action))
        return recorded

    def reusable(self, action: Action) -> JournalRow | None:
        """Return the row with the outcome of the action that the program requests; None if it has to be looked into."""
        recorded = self._actions.get(action.id)
        row = None if recorded is None else recorded.after
        is_found = row is not None and row.fingerprint == action.fingerprint and has_record(row)
        return row if is_found else None

    def knows(self, action_id: str) -> bool:
        """Return whether the action has a row."""
        return action_id in self._actions

    def fingerprint_of(self, action_id: str) -> str | None:
        """Return the fingerprint of a recorded action, or that of a question asked before it began; else None."""
        recorded = self._actions.get(action_id) or self._question_about(action_id)
        return recorded.row.fingerprint if recorded is not None else None

    def _question_about(self, action_id: str) -> RecordedAction | None:
        """Return the question that was asked before an action began; None if there was none."""
        asked = (self._actions.get(f"{action_id}/{label}") for label in (words.APPROVAL, words.RESULT))
        return next((each for each in asked if each is not None), None)

    def open_inside(self, action_id: str) -> list[RecordedAction]:
        """Return the tool calls and steps inside of an action that were begun and have no outcome, outer ones first.

        Actions inside of an action with an outcome are not made again.
        """
        return [
            each
            for each_id, each in self._actions.items()
            if each_id.startswith(f"{action_id}/")
            and each.after is None
            and each.row.kind in _ASKED_ABOUT
            and not self._is_inside_of_finished(each_id)
        ]

    def _is_inside_of_finished(self, action_id: str) -> bool:
        above = action_id.rpartition("/")[0]
        while above:
            if self.outcome_of(above) is not None:
                return True
            above = above.rpartition("/")[0]
        return False

    def answers_inside(self) -> dict[str, RecoveryRetried | RecoveryDone]:
        """Return the last answer to each action that was asked about together with the one around it."""
        if self._answers_inside is None:
            questions = (each.after for each in self._actions.values() if each.is_question)
            answers = [decode_row(row, answers_inside) for row in questions if row is not None]
            self._answers_inside = {answer.action_id: answer for each in answers for answer in each}
        return self._answers_inside

    def answer_inside(self, action_id: str, attempt: int) -> RecoveryRetried | RecoveryDone | None:
        """Return the answer to an attempt that was asked about together with the action around it."""
        answer = self.answers_inside().get(action_id)
        is_of_earlier = isinstance(answer, RecoveryRetried) and answer.attempt != attempt + 1
        return None if is_of_earlier else answer

    def is_suspended(self, action_id: str, attempt: int) -> bool:
        """Return whether a pause or a hand-over interrupted an attempt between two calls inside: no crash did."""
        if self._suspended is None:
            self._suspended = suspended_in(self.claims)
        return self._suspended.get(action_id) == attempt or self._was_paused_inside(action_id)

    def _was_paused_inside(self, action_id: str) -> bool:
        """Return whether an action waits for a person's approval inside of another one: its run was paused there.

        Of versions that did not record which actions a pause suspends.
        """
        below = f"{action_id}/"
        return any(
            each.is_question
            and not each.row.number
            and question.startswith(below)
            and question.rpartition("/")[0] != action_id
            and question.rpartition("/")[0] not in self._actions
            for question, each in self._actions.items()
        )

    def has_scope(self, path: str) -> bool:
        """Return whether an action is recorded below a path."""
        if self._scopes is None:
            self._scopes = set()
            for action_id in self._actions:
                above = action_id.rpartition("/")[0]
                while above and above not in self._scopes:
                    self._scopes.add(above)
                    above = above.rpartition("/")[0]
        return path in self._scopes

    def has_any(self, kind: AgentActionKind) -> bool:
        """Return whether an action of a kind is recorded."""
        return kind in self._kinds

    def outcomes_of(self, kind: AgentActionKind) -> list[JournalRow]:
        """Return the rows with the outcomes of all actions of a kind."""
        if kind not in self._kinds:
            return []
        return [
            each.after
            for each in self._actions.values()
            if each.after is not None and each.after.kind is kind
        ]

    def outcome_of(self, action_id: str) -> JournalRow | None:
        """Return the row with the outcome of an action; None if it has no outcome."""
        recorded = self._actions.get(action_id)
        return recorded.after if recorded else None

    def inside(self, action_id: str) -> Sequence[JournalRow]:
        """Return the rows of the actions inside a folded branch or turn."""
        if self._inside is None:
            self._inside = self._rows_by_action()
        return self._inside.get(action_id, ())

    def finished_turns(self, loop_id: str) -> list[JournalRow]:
        """Return the rows of the folded turns of a loop; replay starts after the last of them."""
        turns: list[JournalRow] = []
        while (row := self.outcome_of(f"{loop_id}/{len(turns) + 1}")) and row.stage is JournalStage.FOLDED:
            turns.append(row)
        return turns

    def _rows_by_action(self) -> dict[str, list[JournalRow]]:
        found: dict[str, list[JournalRow]] = {}
        for action_id, recorded in self._actions.items():
            above = action_id.rpartition("/")[0]
            while above:
                if above in self._actions and recorded.after is not None:
                    found.setdefault(above, []).append(recorded.after)
                above = above.rpartition("/")[0]
        return found

    def _fold(self, row: JournalRow) -> None:
        recorded = self._actions.get(row.action_id)
        if recorded is None:
            recorded = self._actions[row.action_id] = RecordedAction()
            if row.stage is not _FOLDED:
                self._kinds.add(row.kind)
        if row.stage is _BEFORE:
            recorded.before = row
        else:
            recorded.after = row
            # Only an outcome that took a turn can be a skip.
            if row.turn is not None and is_skip(row):
                self.skipped |= {row.action_id}


def recorded_action(row: JournalRow) -> Action:
    """Return the action that a row belongs to, with the fields that the row has."""
    kind = row.kind or AgentActionKind.STEP
    return Action(
        id=row.action_id,
        kind=kind,
        name=row.action_id,
        asked=None,
        view=None,
        idempotency=row.idempotency,
        is_read_only=False,
        fingerprint=row.fingerprint,
    )


def difference(row: JournalRow, action: Action) -> str:
    """Return how a recorded action differs from the one that the program asks for now."""
    if action.kind is AgentActionKind.APPROVAL_WAIT:
        return f"a person was asked about {action.name!r} with other arguments than the program asks for now"
    if row.kind is not action.kind or label_of(row.action_id) != label_of(action.id):
        return f"{named(row)} is recorded, and the program asks for the {action.kind.value} {action.name!r}"
    return f"{named(row)} is recorded with other arguments than the program asks for now: {action.view!r}"


def _sides(recorded: RecordedAction, action: Action) -> Sides:
    """Return the sides of a divergence; those of a question are the call that it is about."""
    if action.kind is not AgentActionKind.APPROVAL_WAIT:
        return Sides(recorded_side(recorded.before, recorded.after), asked_side(action), asking_line())
    call_id, number = action.id.rpartition("/")[0], recorded.row.number
    shown = asked_about_side(call_id, number, recorded.before or recorded.row)
    asked = replace(shown, arguments=action.view, row=None, is_open=False, fingerprint=action.fingerprint)
    return Sides(shown, asked, asking_line())


def named(row: JournalRow) -> str:
    """Return the kind and the label of a recorded action."""
    kind = row.kind.value if row.kind else row.stage.value
    return f"the {kind} {label_of(row.action_id)!r}"


def name_in(action_id: str) -> str:
    """Return the name of the tool or step in the id of an action."""
    label = label_of(action_id)
    return label.partition(":")[2] or label
