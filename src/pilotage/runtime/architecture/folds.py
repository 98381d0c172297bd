"""Folding: one row holds what a finished branch or turn came to, and replay does not enter it again.

The rows of what happened inside stay; what it spent is counted from them, what it left known is in the fold's row.
"""

from __future__ import annotations

from typing import cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.door.run import Effects
from pilotage.runtime.exposure.trust import RUN_INPUT
from pilotage.runtime.journal.action import Action
from pilotage.safety.trust import TrustLabel


class Folds:
    """The folded branches and turns of one attempt at a run."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    def take(self, path: str, label: str) -> JsonObject | None:
        """What a branch or turn came to, where it is folded; what it spent counts from here on.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        recorded = self._effects.recording.take(self._action(path, label))
        if recorded is None or recorded.after is None:
            return None
        return self._entered(recorded.after)

    def turns(self, loop_id: str) -> list[JsonObject]:
        """What the finished turns of a loop came to, in order."""
        recording = self._effects.recording
        rows = [
            recording.outcome_of(f"{loop_id}/{turn + 1}") for turn in range(recording.finished_turns(loop_id))
        ]
        return [self._entered(row) for row in rows if row is not None]

    def add(self, path: str, label: str, record: JsonObject) -> None:
        """Write down what a branch or turn came to, and what it leaves known to the program."""
        effects = self._effects
        if effects.trust != RUN_INPUT:
            record = {**record, "trust": effects.trust.to_payload()}
        view = effects.redactor.json(record)
        effects.ledger.append(self._action(path, label), JournalStage.FOLDED, 1, record, view)

    def _entered(self, row: JournalRow) -> JsonObject:
        effects = self._effects
        inside = effects.recording.inside(row.action_id)
        count_rows(inside, effects.spending)
        effects.inbox.recall(inside)
        record = cast(JsonObject, row.record)
        if "trust" in record:
            effects.trust = effects.trust.join(TrustLabel.from_payload(cast(JsonObject, record["trust"])))
        return record

    def _action(self, path: str, label: str) -> Action:
        kind = AgentActionKind.STEP
        fingerprint = self._effects.fingerprint(path, kind, label)
        return Action(path, kind, label, None, None, Idempotency.IDEMPOTENT, True, fingerprint)
