"""The ids of what models say: from structure, and from the epoch, since a call made again says something else."""

from __future__ import annotations

from pilotage.runtime.actions.scope import scope_for
from pilotage.runtime.door.effects import Effects


def message_id_of(run_id: str, action_id: str, epoch: int) -> str:
    """The id of what a model says in one call; a call that is made again in another epoch says something else."""
    return f"{run_id}:{action_id.removeprefix('run/')}@{epoch}"


def next_message_id(effects: Effects) -> str:
    """The id of what the model will say in the next call of this scope: in replay the one it had."""
    action_id, ledger = scope_for("model").coming_id("model"), effects.ledger
    recorded = effects.recording.outcome_of(action_id) if effects.has_record else None
    return message_id_of(ledger.run.run_id, action_id, ledger.epoch if recorded is None else recorded.epoch)
