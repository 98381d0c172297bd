"""`Replay`: what an attempt knows of the attempts before it, and which of its calls may still act.

The narrow value between the door and the kernel of replay: what is recorded of a call, its outcome, the wait, the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.liveness import Liveness
from pilotage.runtime.journal.recording import RecordedAction, Recording
from pilotage.runtime.journal.scope import Scope


class Replay:
    """The record of one attempt and the calls that are under way."""

    def __init__(self, ledger: Ledger, rows: Sequence[JournalRow] = ()) -> None:
        self._recording = Recording.of(rows)
        self.liveness = Liveness(ledger)
        self.has_record = bool(rows) and not self._recording.is_empty
        """Whether an earlier attempt did anything."""
        self.has_questions = self.has_record and self._recording.has_any(AgentActionKind.APPROVAL_WAIT)
        self.has_signals = self.has_record and self._recording.has_any(AgentActionKind.SIGNAL)

    def enter(self, scope: Scope) -> None:
        """Begin a call. `leave` follows, whatever comes of it.

        Raises:
            RunInterruption: this attempt, or this branch of it, is over; the call has not begun.
        """
        self.liveness.begin(scope)

    def leave(self, scope: Scope, end: BaseException | None = None) -> None:
        """End a call, with what it raised."""
        self.liveness.ended(scope, end)

    @property
    def is_over(self) -> bool:
        """Whether the program has asked for everything that is recorded: from here on it is live."""
        return self._recording.is_used_up

    def recorded(self, action: Action) -> RecordedAction | None:
        """Return what is recorded of the action that the program asks for.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        return self._recording.take(action)

    def folded(self, action: Action) -> JournalRow | None:
        """Return the row of a finished branch or turn.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        recorded = self._recording.take(action) if self.has_record else None
        return recorded.after if recorded is not None else None

    def finished_turns(self, loop_id: str) -> list[JournalRow]:
        """Return the rows of the finished turns of a loop, in order."""
        turns = range(self._recording.finished_turns(loop_id))
        rows = [self._recording.outcome_of(f"{loop_id}/{turn + 1}") for turn in turns]
        return [row for row in rows if row is not None]

    def knows(self, action_id: str) -> bool:
        """Return whether anything is recorded of the action."""
        return self.has_record and self._recording.knows(action_id)

    def outcome_of(self, action_id: str) -> JournalRow | None:
        """Return the row with the outcome of an action; None where it has none."""
        return self._recording.outcome_of(action_id) if self.has_record else None

    def inside(self, action_id: str) -> Sequence[JournalRow]:
        """Return the rows of what happened inside an action that replay does not enter."""
        return self._recording.inside(action_id) if self.has_record else ()

    def open_actions(self) -> list[tuple[Action, int]]:
        """Return the actions that were begun before and have no outcome, with the number of their last attempt."""
        return self._recording.under_way() if self.has_record else []

    def finish(self) -> None:
        """Check that the program asked for everything that is recorded.

        Raises:
            RunDiverged: the program left a recorded action out.
        """
        if self.has_record:
            self._recording.check_used_up()
