"""The recorded actions of a run, and what to do with each: reuse, repeat, reconcile, ask a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.action import RESULT, Action
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.seals import has_record
from pilotage.values import value


@dataclass(slots=True)
class RecordedAction:
    """The rows of one action: the last attempt's BEFORE, and the AFTER where it has one.

    `counts` says whether the program itself must ask for it: not if it belongs to another action, or to the end of the
    run.
    """

    before: JournalRow | None = None
    after: JournalRow | None = None
    is_used: bool = False
    counts: bool = True

    @property
    def row(self) -> JournalRow:
        """Any row of the action: id, kind and fingerprint are the same in all of them."""
        row = self.after or self.before
        if row is None:
            raise AssertionError("a recorded action has at least one row")
        return row

    @property
    def is_question(self) -> bool:
        """Whether it is a wait for a person."""
        return self.row.kind is AgentActionKind.APPROVAL_WAIT

    @property
    def attempt(self) -> int:
        """The number of the last attempt."""
        return self.row.attempt


class Recording:
    """All recorded actions of a run by id, and which of them the program has asked for again.

    What belongs to another recorded action (a question about it, what a tool did inside, a branch that is folded) is
    not asked for by the program itself once that action is done.
    """

    def __init__(self, rows: Iterable[JournalRow]) -> None:
        self._actions: dict[str, RecordedAction] = {}
        self._kinds: set[AgentActionKind | None] = set()
        self._inside: dict[str, list[JournalRow]] | None = None
        for row in rows:
            if row.kind is not None:
                self._fold(row)
        self._unused = self._decide_what_counts()
        if self._unused == len(self._actions):
            self._inside = {}

    @property
    def is_used_up(self) -> bool:
        """Whether the program has asked for everything that is recorded: from here on it is live."""
        return self._unused == 0

    def under_way(self) -> list[tuple[Action, int]]:
        """The actions that were begun and have no outcome, with the number of their last attempt."""
        return [
            (recorded_action(recorded.row), recorded.attempt)
            for recorded in self._actions.values()
            if recorded.after is None and not recorded.is_question
        ]

    def take(self, action: Action) -> RecordedAction | None:
        """What is recorded of the action the program asks for.

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
        """Whether anything is recorded of the action."""
        return action_id in self._actions

    def has_any(self, kind: AgentActionKind) -> bool:
        """Whether any action of a kind is recorded."""
        return kind in self._kinds

    def outcome_of(self, action_id: str) -> JournalRow | None:
        """The row that says what came of an action; None where it has not come to its end."""
        recorded = self._actions.get(action_id)
        return recorded.after if recorded else None

    def inside(self, action_id: str) -> Sequence[JournalRow]:
        """The rows of what happened inside a folded branch or turn."""
        if self._inside is None:
            self._inside = self._sorted_into_actions()
        return self._inside.get(action_id, ())

    def finished_turns(self, loop_id: str) -> list[JournalRow]:
        """The rows of the folded turns of a loop; replay starts behind them and does not ask for the earlier ones."""
        turns: list[JournalRow] = []
        while (row := self.outcome_of(f"{loop_id}/{len(turns) + 1}")) and row.stage is JournalStage.FOLDED:
            turns.append(row)
            self._use(self._actions[row.action_id])
        return turns

    def check_used_up(self) -> None:
        """Refuse to go on past actions that were done and are not asked for any more.

        Raises:
            RunDiverged: the program leaves out what is recorded.
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
        """Most actions of a run stand in few scopes: what holds for one in there holds for all of them."""
        in_scopes: dict[str, bool] = {}
        unused = 0
        for action_id, recorded in self._actions.items():
            above = action_id.rpartition("/")[0]
            if above not in in_scopes:
                in_scopes[above] = self._is_asked_for_in(above)
            recorded.counts = in_scopes[above]
            unused += recorded.counts
        return unused

    def _is_asked_for_in(self, scope: str) -> bool:
        if scope == RESULT:
            return False
        while scope:
            if scope in self._actions:
                return False
            scope = scope.rpartition("/")[0]
        return True

    def _sorted_into_actions(self) -> dict[str, list[JournalRow]]:
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
    """The action a row belongs to, as far as the row tells."""
    kind = row.kind or AgentActionKind.STEP
    return Action(row.action_id, kind, row.action_id, None, None, row.idempotency, False, row.fingerprint)


def _difference(row: JournalRow, action: Action) -> str:
    if action.kind is AgentActionKind.APPROVAL_WAIT:
        return f"a person was asked about {action.name!r} with other arguments than the program asks for now"
    if row.kind is not action.kind:
        return f"{_named(row)} is recorded, and the program asks for the {action.kind.value} {action.name!r}"
    return f"{_named(row)} is recorded with other arguments than the program asks for now: {action.view!r}"


def _named(row: JournalRow) -> str:
    kind = row.kind.value if row.kind else row.stage.value
    return f"the {kind} {row.action_id.rpartition('/')[2].partition('#')[0]!r}"


@value
class Reuse:
    """It is done: return what was recorded, and do nothing."""

    row: JournalRow


@value
class FetchAgain:
    """It was only read, and what was read could not be kept: it is read once more, and nothing is written."""


@value
class Repeat:
    """It may have happened, and doing it again with the same key changes nothing."""

    attempt: int


@value
class Reconcile:
    """It may have happened, and the tool can find out by its key."""

    attempt: int


@value
class AskHuman:
    """It may have happened, and only a person can find out."""

    attempt: int


Recovery: TypeAlias = Reuse | FetchAgain | Repeat | Reconcile | AskHuman


def recovery_for(action: Action, recorded: RecordedAction, *, can_reconcile: bool) -> Recovery:
    """Return what the table of 'what a crash leads to' says for one action."""
    if recorded.after is not None:
        return Reuse(recorded.after) if has_record(recorded.after) else FetchAgain()
    if can_reconcile and not action.is_read_only:
        return Reconcile(recorded.attempt)
    if action.may_be_repeated:
        return Repeat(recorded.attempt)
    return AskHuman(recorded.attempt)
