"""An action of a run: its outcome is not a pure function of the run's earlier inputs and outcomes."""

from __future__ import annotations

from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest
from pilotage.runtime.journal.positions import CallIdentity
from pilotage.values import value


@value
class Action:
    """A requested action. `fingerprint` covers place, kind, name and the arguments as requested.

    `is_read_only` actions may run ahead of the journal; all others are recorded before they begin. With `hides=False`
    no declaration hides a part of its records: a view may differ from its record in form or size only.
    """

    id: str
    kind: AgentActionKind
    name: str
    asked: JsonValue
    view: JsonValue
    idempotency: Idempotency
    is_read_only: bool
    fingerprint: str
    hides: bool = True

    def fits(self, recorded: CallIdentity, /) -> bool:
        """Return whether a recorded call is this action; of one with only a question or signal the id is recorded."""
        if recorded.fingerprint:
            return recorded.fingerprint == self.fingerprint
        return recorded.label == self.id

    @property
    def may_be_repeated(self) -> bool:
        """Return whether an attempt with an unknown outcome may be repeated with the same key."""
        return self.is_read_only or self.idempotency in MAY_BE_REPEATED


new_action = unchecked(Action)

_LENGTH = 32
"""Digits of a fingerprint: enough to distinguish the actions of a run; every row has one."""

RESULT = "run/result#1"
"""The action that records the result of a run; actions below it are requested by the end of the run."""

MAY_BE_REPEATED = frozenset({Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT})


def idempotency_key(run: RunKey, action_id: str) -> str:
    """Return the key of an action: the same for every attempt at it and different from that of any other action."""
    return text_digest(f"{run.tenant_id}\n{run.run_id}\n{action_id}")[:_LENGTH]


def fingerprint_of(salt: str, action_id: str, kind: AgentActionKind, name: str, asked: JsonValue) -> str:
    """Return the fingerprint of a request: equal at equal places; the salt prevents guessing the arguments."""
    arguments = "null" if asked is None else canonical_json(asked)
    return text_digest(f"{salt}\n{action_id}\n{kind}\n{name}\n{arguments}")[:_LENGTH]
