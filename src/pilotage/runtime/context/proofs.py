"""Evidence of what is done to a context, recorded together with the row of the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.ledger import Ledger

_STAGES = ContextOptimizationEvidenceStage


class Proofs:
    """Collects the evidence of one context change; a change that is made again proves the same again."""

    def __init__(self, ledger: Ledger, redactor: Redactor, action_id: str) -> None:
        self._ledger = ledger
        self._redactor = redactor
        # Evidence is never repeated: a change that was not committed is proven again by another attempt.
        attempt = f"@{ledger.epoch}" if ledger.epoch > 1 else ""
        self._prefix = f"{ledger.run.run_id}:{action_id}{attempt}"
        self._evidence: list[AgentEvidence] = []

    def add(self, candidate: AgentEvidenceCandidate, name: str) -> None:
        """Add one piece of evidence, redacted."""
        shown = self._redactor.json(candidate.payload)
        self._evidence.append(
            replace(candidate, payload=shown).to_evidence(
                evidence_id=f"{self._prefix}:{name}", agent_state_id=self._ledger.run.run_id
            )
        )

    def add_action(
        self,
        action: ContextOptimizationAction,
        signals: Sequence[ContextHealthSignal],
        name: str,
        outcome: JsonObject,
    ) -> None:
        """Add the evidence of an action before and after it; the outcome is in the metadata of the latter."""
        ended = replace(action, metadata={**action.metadata, **outcome})
        record = AgentEvidenceCandidate.context_optimization
        self.add(record(action=action, stage=_STAGES.BEFORE, signals=signals), f"{name}-before")
        self.add(record(action=ended, stage=_STAGES.AFTER, signals=signals), f"{name}-after")

    def record(self) -> None:
        """Record the evidence with the next commit."""
        evidence, self._evidence = self._evidence, []
        for each in evidence:
            self._ledger.add_evidence(each)


def refused(reason: str) -> JsonObject:
    """Return the outcome of an action that is not carried out."""
    return {"outcome": "refused", "refused_because": reason}


def done(**facts: JsonValue) -> JsonObject:
    """Return the outcome of an action that was carried out."""
    return {"outcome": "done", **facts}
