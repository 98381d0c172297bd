"""The ids of what models say: from structure, and from the epoch, since a call made again says something else."""

from __future__ import annotations

from pilotage.runtime.actions.action import message_id_of
from pilotage.runtime.actions.scope import scope_for
from pilotage.runtime.door.effects import Effects


def next_message_id(effects: Effects) -> str:
    """The id of what the model will say in the next call of this scope: in replay the one it had."""
    action_id, ledger = scope_for("model").coming_id("model"), effects.ledger
    recorded = effects.recording.outcome_of(action_id) if effects.has_record else None
    return message_id_of(ledger.run.run_id, action_id, ledger.epoch if recorded is None else recorded.epoch)
