"""The recorded actions of a run: looked up by id, compared with what the program requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.action import RESULT, Action
from pilotage.runtime.journal.interruptions import RunDiverged


@dataclass(slots=True)
class RecordedAction:
    """The rows of one action: the last attempt's BEFORE, and the AFTER where it has one.

    `counts` is True if the program itself must request the action again: not if it belongs to another action, or to the
    end of the run.
    """

    before: JournalRow | None = None
    after: JournalRow | None = None
    is_used: bool = False
    counts: bool = True

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
    """All recorded actions of a run by id, and which of them the program has requested again.

    Actions that belong to another recorded action (a question about it, the actions within a tool, a folded branch)
    are not requested by the program once that action is done.
    """

    def __init__(self, rows: Iterable[JournalRow]) -> None:
        self._actions: dict[str, RecordedAction] = {}
        self._kinds: set[AgentActionKind | None] = set()
        self._inside: dict[str, list[JournalRow]] | None = None
        self._unused = 0
        for row in rows:
            if row.kind is not None:
                self._fold(row)
        if self._actions:
            self._unused = self._decide_what_counts()
        if self._unused == len(self._actions):
            self._inside = {}

    @property
    def is_used_up(self) -> bool:
        """Return whether the program has requested all recorded actions: from here on it is live."""
        return self._unused == 0

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
            RunDiverged: something else is recorded at this place.
        """
        recorded = self._actions.get(action.id)
        if recorded is None:
            return None
        row = recorded.row
        if row.fingerprint != action.fingerprint:
            raise RunDiverged(action.id, _difference(row, action))
        self._use(recorded)
        return recorded

    def knows(self, action_id: str) -> bool:
        """Return whether the action has a row."""
        return action_id in self._actions

    def has_any(self, kind: AgentActionKind) -> bool:
        """Return whether an action of a kind is recorded."""
        return kind in self._kinds

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
            self._use(self._actions[row.action_id])
        return turns

    def check_used_up(self) -> None:
        """Check that the program has requested every recorded action.

        Raises:
            RunDiverged: the program leaves out a recorded action.
        """
        for action_id, recorded in self._actions.items():
            if not recorded.is_used and recorded.counts:
                raise RunDiverged(
                    action_id, f"{_named(recorded.row)} is recorded, and the program left it out"
                )

    def _use(self, recorded: RecordedAction) -> None:
        if not recorded.is_used:
            recorded.is_used = True
            self._unused -= recorded.counts

    def _decide_what_counts(self) -> int:
        """Set `counts` of every action and return how many count; decided once per scope, which is cheap."""
        in_scopes: dict[str, bool] = {}
        unused = 0
        for action_id, recorded in self._actions.items():
            above = action_id.rpartition("/")[0]
            if above not in in_scopes:
                in_scopes[above] = self._is_requested_in(above)
            recorded.counts = in_scopes[above]
            unused += recorded.counts
        return unused

    def _is_requested_in(self, scope: str) -> bool:
        if scope == RESULT:
            return False
        while scope:
            if scope in self._actions:
                return False
            scope = scope.rpartition("/")[0]
        return True

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
            self._kinds.add(row.kind)
        if row.stage is JournalStage.BEFORE:
            recorded.before = row
        else:
            recorded.after = row


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


def _difference(row: JournalRow, action: Action) -> str:
    if action.kind is AgentActionKind.APPROVAL_WAIT:
        return f"a person was asked about {action.name!r} with other arguments than the program asks for now"
    if row.kind is not action.kind:
        return f"{_named(row)} is recorded, and the program asks for the {action.kind.value} {action.name!r}"
    return f"{_named(row)} is recorded with other arguments than the program asks for now: {action.view!r}"


def _named(row: JournalRow) -> str:
    kind = row.kind.value if row.kind else row.stage.value
    return f"the {kind} {row.action_id.rpartition('/')[2].partition('#')[0]!r}"
