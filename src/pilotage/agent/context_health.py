"""What can be wrong with a context, and what was done about it.

Pure values. A health signal names a symptom; an optimisation action answers signals; both can be put into
evidence before and after the action.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum

from pilotage.checks import reject_blank, reject_naive, reject_outside_unit
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import value


class ContextRotSymptom(StrEnum):
    """The ways in which a context goes bad; the set is closed."""

    STALE = "stale"
    CONTRADICTORY = "contradictory"
    LOW_RELEVANCE = "low_relevance"
    OVER_BUDGET = "over_budget"
    POLLUTED = "polluted"


class ContextOptimizationActionKind(StrEnum):
    """What can be done about it; the set is closed."""

    COMPRESSION = "compression"
    RETRIEVAL_REFRESH = "retrieval_refresh"
    DELEGATION = "delegation"
    CONTEXT_SLICE_DROP = "context_slice_drop"


class ContextOptimizationEvidenceStage(StrEnum):
    """Whether a record was made before or after the action."""

    BEFORE = "before"
    AFTER = "after"


@value
class ContextHealthSignal:
    """One symptom, where it was seen and how strong it is: `score` goes from 0 to 1."""

    id: str
    symptom: ContextRotSymptom
    manifest_ref: str | None = None
    pack_id: str | None = None
    evidence_ref: str | None = None
    score: float | None = None
    observed_at: datetime | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(
            self,
            id=self.id,
            manifest_ref=self.manifest_ref,
            pack_id=self.pack_id,
            evidence_ref=self.evidence_ref,
        )
        reject_outside_unit(self, score=self.score)
        reject_naive(self, observed_at=self.observed_at)

    def evidence_payload(self) -> JsonObject:
        """The signal as JSON, every key present."""
        return {
            "id": self.id,
            "symptom": self.symptom.value,
            "manifest_ref": self.manifest_ref,
            "pack_id": self.pack_id,
            "evidence_ref": self.evidence_ref,
            "score": self.score,
            "observed_at": self.observed_at.isoformat() if self.observed_at else None,
            "metadata": self.metadata,
        }


@value
class ContextOptimizationAction:
    """One thing done to a context, the signals it answers and the packs it touches."""

    id: str
    kind: ContextOptimizationActionKind
    signal_refs: tuple[str, ...] = ()
    target_pack_ids: tuple[str, ...] = ()
    manifest_ref: str | None = None
    digest_ref: str | None = None
    delegation_ref: str | None = None
    result_evidence_ref: str | None = None
    reason: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(
            self,
            id=self.id,
            manifest_ref=self.manifest_ref,
            digest_ref=self.digest_ref,
            delegation_ref=self.delegation_ref,
            result_evidence_ref=self.result_evidence_ref,
            reason=self.reason,
        )

    def evidence_payload(self) -> JsonObject:
        """The action as JSON, every key present."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "signal_refs": tuple(self.signal_refs),
            "target_pack_ids": tuple(self.target_pack_ids),
            "manifest_ref": self.manifest_ref,
            "digest_ref": self.digest_ref,
            "delegation_ref": self.delegation_ref,
            "result_evidence_ref": self.result_evidence_ref,
            "reason": self.reason,
            "metadata": self.metadata,
        }
