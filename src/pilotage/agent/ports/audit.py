"""The audit port: who did what, without how it was done. A projection of evidence, append only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from pilotage.agent.principal import Principal
from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import value


@value
class AuditEntry:
    """One line of the audit log; `evidence_ref` leads to the evidence it was made from."""

    run_id: str
    principal: Principal
    act: str
    outcome: str
    occurred_at: datetime
    evidence_ref: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(
            self, run_id=self.run_id, act=self.act, outcome=self.outcome, evidence_ref=self.evidence_ref
        )
        reject_naive(self, occurred_at=self.occurred_at)


class IAgentAuditLog(ABC):
    """Keeps audit entries. There is no way to change or delete one.

    The runtime writes one for each row of a run's journal that is worth it, when an attempt at the run ends.
    """

    @abstractmethod
    async def record(self, entry: AuditEntry) -> None:
        """Append an entry; durable on return. Of a run, an entry about the same evidence is kept once, the first."""

    @abstractmethod
    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        """The entries of a run of the principal's tenant, in the order they were recorded."""
