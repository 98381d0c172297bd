"""Folding: one row holds what a finished branch or turn came to, and replay does not enter it again.

The rows of what happened inside stay; what it spent is counted from them, what it left known is in the fold's row.
"""

from __future__ import annotations

from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.door.run import Run
from pilotage.runtime.exposure.trust import label_in, with_label
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.record_fields import record_of


class Folds:
    """The folded branches and turns of one attempt at a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def take(self, path: str, label: str) -> JsonObject | None:
        """What a branch or turn came to, where it is folded; what it spent counts from here on.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        row = self._run.replay.folded(self._action(path, label))
        return None if row is None else self._entered(row)

    def turns(self, loop_id: str) -> list[JsonObject]:
        """What the finished turns of a loop came to, in order."""
        return [self._entered(row) for row in self._run.replay.finished_turns(loop_id)]

    def add(self, path: str, label: str, record: JsonObject) -> None:
        """Write down what a branch or turn came to, and what it leaves known to the program."""
        self._run.outcomes.fold(self._action(path, label), with_label(record, self._run.trust))

    def _entered(self, row: JournalRow) -> JsonObject:
        run = self._run
        inside = run.replay.inside(row.action_id)
        count_rows(inside, run.spending)
        run.signals.recall(inside)
        record = record_of(row)
        run.trust = run.trust.join(label_in(record))
        return record

    def _action(self, path: str, label: str) -> Action:
        kind = AgentActionKind.STEP
        fingerprint = self._run.fingerprint(path, kind, label)
        return Action(path, kind, label, None, None, Idempotency.IDEMPOTENT, True, fingerprint)
