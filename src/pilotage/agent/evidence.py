"""Evidence: the append-only record of what a run did and on what it stood.

Pure values. A candidate is what a piece of code has to say; it becomes evidence when it gets an id and a
run. Order is the run's sequence, kept by the store, not by anything in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from pilotage.agent.context_health import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.evidence_capture import capture_result
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy
from pilotage.values import value


class AgentEvidenceKind(StrEnum):
    """What a record is about."""

    ACTION_BOUNDARY = "action_boundary"
    MODEL = "model"
    TOOL = "tool"
    CONTEXT = "context"
    CONTEXT_MANIFEST = "context_manifest"
    CONTEXT_DIGEST = "context_digest"
    CONTEXT_OPTIMIZATION = "context_optimization"
    EVALUATION = "evaluation"
    APPROVAL = "approval"
    CANCELLATION = "cancellation"
    DELEGATION = "delegation"
    OUTPUT_GUARD = "output_guard"
    SIGNAL = "signal"
    CHECKPOINT = "checkpoint"
    STEP = "step"
    VALUE = "value"


@value
class AgentEvidence:
    """One record of one run. Its payload is guarded already: whoever may read the run may read it."""

    id: str
    agent_state_id: str
    kind: AgentEvidenceKind
    payload: JsonObject = field(default_factory=empty_object)
    summary: str | None = None
    digest: str | None = None
    manifest_ref: str | None = None
    reference: str | None = None
    sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, agent_state_id=self.agent_state_id)
        reject_naive(self, created_at=self.created_at)


@value
class AgentEvidenceCandidate:
    """What is to be recorded, before it belongs to a run."""

    kind: AgentEvidenceKind
    payload: JsonObject = field(default_factory=empty_object)
    summary: str | None = None
    digest: str | None = None
    manifest_ref: str | None = None
    reference: str | None = None
    sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()

    @classmethod
    def tool_result(
        cls,
        *,
        tool_identity: str,
        tool_schema_name: str,
        result: object,
        capture: EvidenceCapture,
        sensitive_fields: Sequence[SensitiveFieldDescriptor] = (),
        exposure_policy: EvidenceExposurePolicy | None = None,
        summary: str | None = None,
    ) -> AgentEvidenceCandidate:
        """The outcome of a tool call, as much of it as the tool's capture and the policy allow.

        | capture        | `payload["result"]`                                         |
        |----------------|-------------------------------------------------------------|
        | NONE, SUMMARY  | absent; the summary is the record's `summary`               |
        | REFERENCE_ONLY | `{"digest", "size"}` of the guarded result's canonical JSON |
        | STRUCTURED     | the guarded result                                          |
        | RAW            | the result; only secrets are masked                         |
        | REDACTED       | the shape of the result, every leaf masked                  |

        `payload["capture"]` is what was applied: a STRUCTURED result that is too large is kept as
        REFERENCE_ONLY, one that cannot be shown at all as REDACTED.
        """
        reject_blank(
            "AgentEvidenceCandidate.tool_result",
            tool_identity=tool_identity,
            tool_schema_name=tool_schema_name,
        )
        policy = exposure_policy or EvidenceExposurePolicy()
        kept = capture_result(result, capture, sensitive_fields=sensitive_fields, policy=policy)
        return cls(
            AgentEvidenceKind.TOOL,
            {
                "tool_identity": tool_identity,
                "tool_schema_name": tool_schema_name,
                "capture": kept.applied.value,
                **kept.entries,
            },
            summary,
            digest=kept.digest,
            sensitive_fields=tuple(sensitive_fields) if policy.include_sensitive_metadata else (),
        )

    @classmethod
    def model_decision(
        cls, *, model: str, decision: JsonValue, summary: str | None = None
    ) -> AgentEvidenceCandidate:
        """What a model decided."""
        reject_blank("AgentEvidenceCandidate.model_decision", model=model)
        return cls(AgentEvidenceKind.MODEL, {"model": model, "decision": decision}, summary)

    @classmethod
    def tool_decision(
        cls, *, tool_identity: str, decision: JsonValue, summary: str | None = None
    ) -> AgentEvidenceCandidate:
        """What was decided about a tool call: allowed, refused, modified."""
        reject_blank("AgentEvidenceCandidate.tool_decision", tool_identity=tool_identity)
        return cls(AgentEvidenceKind.TOOL, {"tool_identity": tool_identity, "decision": decision}, summary)

    @classmethod
    def context_optimization(
        cls,
        *,
        action: ContextOptimizationAction,
        stage: ContextOptimizationEvidenceStage,
        signals: Sequence[ContextHealthSignal] = (),
        summary: str | None = None,
    ) -> AgentEvidenceCandidate:
        """What is about to be done to a context, or was done."""
        return cls(
            AgentEvidenceKind.CONTEXT_OPTIMIZATION,
            {
                "stage": stage.value,
                "action": action.evidence_payload(),
                "signals": tuple(signal.evidence_payload() for signal in signals),
            },
            summary,
            digest=action.digest_ref,
            manifest_ref=action.manifest_ref,
            reference=action.result_evidence_ref,
        )

    def to_evidence(
        self, *, evidence_id: str, agent_state_id: str, created_at: datetime | None = None
    ) -> AgentEvidence:
        """The record, now that it has an id and a run."""
        reject_blank(
            "AgentEvidenceCandidate.to_evidence", evidence_id=evidence_id, agent_state_id=agent_state_id
        )
        return AgentEvidence(
            evidence_id,
            agent_state_id,
            self.kind,
            self.payload,
            self.summary,
            self.digest,
            self.manifest_ref,
            self.reference,
            self.sensitive_fields,
            created_at,
        )
