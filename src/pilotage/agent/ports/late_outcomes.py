"""The port for late outcomes: what came of an action when its run had been lost to another owner.

Whoever lost a run writes nothing into its journal any more. But it may know what the new owner has to ask a person
about: whether the action took effect. It is kept beside the journal and shown with the question; it decides nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.providers import persistence_port
from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.values import value


@value
class LateOutcome:
    """What an owner of `epoch` knows of its attempt at an action; `view` is what everybody may read of it.

    `created_at` is the store's clock and set by it.
    """

    run: RunKey
    action_id: str
    attempt: int
    epoch: int
    view: JsonObject
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id)
        reject_not_positive(self, attempt=self.attempt, epoch=self.epoch)
        reject_naive(self, created_at=self.created_at)

    def to_payload(self) -> JsonObject:
        """The outcome as a recovery request shows it."""
        at: JsonValue = self.created_at.isoformat() if self.created_at else None
        return {"attempt": self.attempt, "epoch": self.epoch, "at": at, **self.view}


@persistence_port
class IAgentLateOutcomes(ABC):
    """Keeps late outcomes: append only, and apart per run.

    Every adapter guarantees: an outcome is durable when `append` returns; of one run, action, attempt and epoch the
    first is kept and a further one changes nothing; nothing here touches the journal, the state or the head of the run.
    """

    @abstractmethod
    async def append(self, outcome: LateOutcome) -> None:
        """Keep an outcome.

        Raises:
            OSError: the store cannot be reached; whether it was kept is unknown, and it may be appended again.
        """

    @abstractmethod
    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        """What is known of an action, in the order it came."""
