"""Evidence: the append-only record of what a run did and on what it stood.

Pure values. A candidate becomes evidence when it gets an id and a run. Order is the run's sequence, which the store
keeps. A tool's result is captured as its `EvidenceCapture` asks; what cannot be captured so is captured as less, never
as more, and the outcome names the capture that was applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.checks import reject_blank, reject_naive
from pilotage.filling import unchecked
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    canonical_json,
    empty_object,
    text_digest,
    to_bytes,
    to_json_value,
)
from pilotage.safety.fields import REDACTED_VALUE, SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy, guard_json_value
from pilotage.values import value


class AgentEvidenceKind(StrEnum):
    """The subject of a record."""

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
    """One record of one run. Its payload is guarded already: every reader of the run may read it."""

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
    """Evidence to be recorded, before it belongs to a run."""

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
        """Return the outcome of a tool call, as much of it as the tool's capture and the policy allow.

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
        captured = capture_result(result, capture, sensitive_fields=sensitive_fields, policy=policy)
        return cls(
            AgentEvidenceKind.TOOL,
            {
                "tool_identity": tool_identity,
                "tool_schema_name": tool_schema_name,
                "capture": captured.applied.value,
                **captured.entries,
            },
            summary,
            digest=captured.digest,
            sensitive_fields=tuple(sensitive_fields) if policy.include_sensitive_metadata else (),
        )

    @classmethod
    def model_decision(
        cls, *, model: str, decision: JsonValue, summary: str | None = None
    ) -> AgentEvidenceCandidate:
        """Return the evidence of a decision of a model."""
        reject_blank("AgentEvidenceCandidate.model_decision", model=model)
        return cls(AgentEvidenceKind.MODEL, {"model": model, "decision": decision}, summary)

    @classmethod
    def tool_decision(
        cls, *, tool_identity: str, decision: JsonValue, summary: str | None = None
    ) -> AgentEvidenceCandidate:
        """Return the evidence of a decision about a tool call: allowed, refused, modified."""
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
        """Return the evidence of a change of a context, before or after it."""
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
        """Return the record, now that it has an id and a run."""
        reject_blank(
            "AgentEvidenceCandidate.to_evidence", evidence_id=evidence_id, agent_state_id=agent_state_id
        )
        return AgentEvidence(
            id=evidence_id,
            agent_state_id=agent_state_id,
            kind=self.kind,
            payload=self.payload,
            summary=self.summary,
            digest=self.digest,
            manifest_ref=self.manifest_ref,
            reference=self.reference,
            sensitive_fields=self.sensitive_fields,
            created_at=created_at,
        )


STRUCTURED_RESULT_LIMIT = 16_384
"""Bytes of canonical JSON above which a STRUCTURED result is kept as a reference."""
_SHORT = STRUCTURED_RESULT_LIMIT // 6 - 1
"""No character takes more than six bytes, and around them there are quotes."""


@value
class CapturedResult:
    """The captured part of a result: the capture that was applied, and the entries it adds to the payload."""

    applied: EvidenceCapture
    entries: JsonObject
    digest: str | None = None


_captured = unchecked(CapturedResult)


def capture_result(
    result: object,
    capture: EvidenceCapture,
    *,
    sensitive_fields: Sequence[SensitiveFieldDescriptor],
    policy: EvidenceExposurePolicy,
) -> CapturedResult:
    """Keep of a result what the capture asks for and the policy allows.

    STRUCTURED becomes REFERENCE_ONLY above `STRUCTURED_RESULT_LIMIT`. It, RAW and REFERENCE_ONLY become
    REDACTED when the result has no JSON form or is sensitive as a whole. RAW ignores the policy, except that
    secrets are in no record.
    """
    match capture:
        case EvidenceCapture.STRUCTURED | EvidenceCapture.REFERENCE_ONLY:
            return _guarded_result(result, capture, sensitive_fields, policy)
        case EvidenceCapture.NONE | EvidenceCapture.SUMMARY:
            return CapturedResult(capture, {})
        case EvidenceCapture.REDACTED:
            return _redacted(result)
        case EvidenceCapture.RAW:
            secrets = [each for each in sensitive_fields if isinstance(each.field, SecretField)]
            return _guarded_result(result, capture, secrets, policy)
        case _:
            assert_never(capture)


def _guarded_result(
    result: object,
    capture: EvidenceCapture,
    descriptors: Sequence[SensitiveFieldDescriptor],
    policy: EvidenceExposurePolicy,
) -> CapturedResult:
    try:
        value = to_json_value(result)
        guarded = guard_json_value(value, descriptors, policy)
        if guarded is value and capture is not EvidenceCapture.REFERENCE_ONLY and _is_short_text(value):
            return _captured(capture, {"result": value})
        text = canonical_json(guarded)
    except (TypeError, ValueError, RecursionError):
        return _redacted(result)
    if _is_container(value) and not _is_container(guarded):
        return CapturedResult(EvidenceCapture.REDACTED, {"result": guarded})
    is_too_large = capture is EvidenceCapture.STRUCTURED and len(to_bytes(text)) > STRUCTURED_RESULT_LIMIT
    if capture is EvidenceCapture.REFERENCE_ONLY or is_too_large:
        return _referenced(text)
    return CapturedResult(capture, {"result": guarded})


def _is_short_text(value: JsonValue) -> bool:
    """Return whether it is text that cannot be too large, whatever its characters become in JSON."""
    return type(value) is str and len(value) <= _SHORT


def _referenced(text: str) -> CapturedResult:
    # The digest is of the guarded result: one of the whole would let a reader test guesses at what is hidden.
    digest = text_digest(text)
    reference: JsonObject = {"digest": digest, "size": len(to_bytes(text))}
    return CapturedResult(EvidenceCapture.REFERENCE_ONLY, {"result": reference}, digest)


def _redacted(result: object) -> CapturedResult:
    try:
        shape = _masked(to_json_value(result))
    except (TypeError, ValueError, RecursionError):
        shape = REDACTED_VALUE
    return CapturedResult(EvidenceCapture.REDACTED, {"result": shape})


def _masked(value: JsonValue) -> JsonValue:
    """Return the same shape with every leaf masked; the names of fields stay."""
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return REDACTED_VALUE


def _is_container(value: JsonValue) -> bool:
    return isinstance(value, Mapping | list | tuple)
