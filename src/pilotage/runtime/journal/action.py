"""An action: something a run does whose outcome is not a pure function of what it already knows."""

from __future__ import annotations

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest
from pilotage.values import value


@value
class Action:
    """What is asked for. `fingerprint` covers place, kind, name and the arguments as asked.

    `is_read_only` actions may run ahead of the journal; all others are written down before they begin.
    """

    id: str
    kind: AgentActionKind
    name: str
    asked: JsonValue
    view: JsonValue
    idempotency: Idempotency
    is_read_only: bool
    fingerprint: str

    @property
    def may_be_repeated(self) -> bool:
        """Whether an attempt whose outcome is unknown may simply be made again, with the same key."""
        return self.is_read_only or self.idempotency in MAY_BE_REPEATED


new_action = unchecked(Action)

_LENGTH = 32
"""So many digits tell the questions of a run apart; every row has a fingerprint."""

RESULT = "run/result#1"
"""The action in which a run keeps its answer; what belongs to it is asked for by the end of the run."""

MAY_BE_REPEATED = frozenset({Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT})


def message_id_of(run_id: str, action_id: str, epoch: int) -> str:
    """The id of what a model says in one call; a call that is made again in another epoch says something else."""
    return f"{run_id}:{action_id.removeprefix('run/')}@{epoch}"


def fingerprint_of(salt: str, action_id: str, kind: AgentActionKind, name: str, asked: JsonValue) -> str:
    """Equal questions at equal places have equal fingerprints; the salt keeps them from betraying anything."""
    said = "null" if asked is None else canonical_json(asked)
    return text_digest(f"{salt}\n{action_id}\n{kind}\n{name}\n{said}")[:_LENGTH]
