"""Evidence: how much of a result each capture keeps, and candidates that become records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextOptimizationEvidenceStage,
    ContextRotSymptom,
)
from pilotage.agent.evidence import STRUCTURED_RESULT_LIMIT, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.jsonvalue import JsonValue, canonical_json, json_digest
from pilotage.safety.fields import PII, SecretField, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy

RESULT = {"id": 7, "email": "ada@example.org", "key": "k-123", "tags": ["a", None]}
EMAIL = SensitiveFieldDescriptor(("email",), SensitiveField(PII.EMAIL))
KEY = SensitiveFieldDescriptor(("key",), SecretField())
WHOLE = SensitiveFieldDescriptor((), SensitiveField(PII.EMAIL))
GUARDED = {"id": 7, "email": "[REDACTED]", "key": "[SECRET]", "tags": ["a", None]}


def tool_result(
    result: object,
    capture: EvidenceCapture,
    *descriptors: SensitiveFieldDescriptor,
    policy: EvidenceExposurePolicy | None = None,
) -> AgentEvidenceCandidate:
    return AgentEvidenceCandidate.tool_result(
        tool_identity="shop.Tools:find",
        tool_schema_name="find",
        result=result,
        capture=capture,
        sensitive_fields=descriptors,
        exposure_policy=policy,
        summary="one customer",
    )


@pytest.mark.parametrize(
    ("capture", "kept"),
    [
        (EvidenceCapture.NONE, {}),
        (EvidenceCapture.SUMMARY, {}),
        (
            EvidenceCapture.REFERENCE_ONLY,
            {"result": {"digest": json_digest(GUARDED), "size": len(canonical_json(GUARDED))}},
        ),
        (EvidenceCapture.STRUCTURED, {"result": GUARDED}),
        (EvidenceCapture.RAW, {"result": {**RESULT, "key": "[SECRET]"}}),
        (
            EvidenceCapture.REDACTED,
            {
                "result": {
                    "id": "[REDACTED]",
                    "email": "[REDACTED]",
                    "key": "[REDACTED]",
                    "tags": ["[REDACTED]", "[REDACTED]"],
                }
            },
        ),
    ],
)
def test_each_capture_keeps_what_its_name_says(capture: EvidenceCapture, kept: dict[str, JsonValue]) -> None:
    candidate = tool_result(RESULT, capture, EMAIL, KEY)
    assert candidate.kind is AgentEvidenceKind.TOOL
    assert candidate.summary == "one customer"
    assert candidate.payload == {
        "tool_identity": "shop.Tools:find",
        "tool_schema_name": "find",
        "capture": capture.value,
        **kept,
    }


@dataclass(frozen=True)
class Customer:
    id: int
    email: str


@pytest.mark.parametrize(
    ("result", "descriptors", "capture", "applied", "kept"),
    [
        pytest.param("plain", (), "structured", "structured", "plain", id="a text is kept"),
        pytest.param([1, 2], (), "structured", "structured", [1, 2], id="a list is kept"),
        pytest.param(None, (), "structured", "structured", None, id="nothing is kept as nothing"),
        pytest.param(
            Customer(7, "ada@example.org"),
            (EMAIL,),
            "structured",
            "structured",
            {"id": 7, "email": "[REDACTED]"},
            id="a dataclass is kept as its JSON form, guarded",
        ),
        pytest.param(
            [{"email": "a@b.c"}],
            (EMAIL,),
            "structured",
            "structured",
            [{"email": "[REDACTED]"}],
            id="elements are guarded",
        ),
        pytest.param(RESULT, (WHOLE,), "structured", "redacted", "[REDACTED]", id="sensitive as a whole"),
        pytest.param(b"bytes", (), "structured", "redacted", "[REDACTED]", id="no JSON form"),
        pytest.param(float("nan"), (), "raw", "redacted", "[REDACTED]", id="no canonical form"),
        pytest.param(object(), (), "redacted", "redacted", "[REDACTED]", id="redacted without a JSON form"),
        pytest.param({}, (), "redacted", "redacted", {}, id="an empty shape has nothing to mask"),
    ],
)
def test_the_payload_says_what_was_applied(
    result: object,
    descriptors: tuple[SensitiveFieldDescriptor, ...],
    capture: str,
    applied: str,
    kept: JsonValue,
) -> None:
    payload = tool_result(result, EvidenceCapture(capture), *descriptors).payload
    assert (payload["capture"], payload["result"]) == (applied, kept)


@pytest.mark.parametrize(
    ("capture", "extra", "applied"),
    [
        ("structured", 0, "structured"),
        ("structured", 1, "reference_only"),
        ("raw", 1, "raw"),
    ],
)
def test_only_a_structured_result_above_the_limit_becomes_a_reference(
    capture: str, extra: int, applied: str
) -> None:
    quotes = 2
    text = "x" * (STRUCTURED_RESULT_LIMIT - quotes + extra)
    candidate = tool_result(text, EvidenceCapture(capture))
    assert candidate.payload["capture"] == applied
    assert candidate.digest == (json_digest(text) if applied == "reference_only" else None)


def test_a_reference_does_not_depend_on_what_is_hidden() -> None:
    references = {
        tool_result({"email": email}, EvidenceCapture.REFERENCE_ONLY, EMAIL).digest
        for email in ("ada@example.org", "bob@example.org")
    }
    assert len(references) == 1


@pytest.mark.parametrize(("is_included", "kept"), [(True, (EMAIL,)), (False, ())])
def test_sensitive_fields_stay_on_the_record_only_where_the_policy_says_so(
    is_included: bool, kept: tuple[SensitiveFieldDescriptor, ...]
) -> None:
    policy = EvidenceExposurePolicy(include_sensitive_metadata=is_included)
    assert tool_result(RESULT, EvidenceCapture.NONE, EMAIL, policy=policy).sensitive_fields == kept


def test_a_policy_that_allows_a_value_keeps_it() -> None:
    policy = EvidenceExposurePolicy(include_pii_values=True)
    payload = tool_result(RESULT, EvidenceCapture.STRUCTURED, EMAIL, KEY, policy=policy).payload
    assert payload["result"] == {**RESULT, "key": "[SECRET]"}


def test_decisions_are_recorded_with_who_made_them() -> None:
    model = AgentEvidenceCandidate.model_decision(model="m", decision={"tool": "find"}, summary="find")
    tool = AgentEvidenceCandidate.tool_decision(tool_identity="shop.Tools:find", decision={"allowed": True})
    assert (model.kind, model.payload) == (
        AgentEvidenceKind.MODEL,
        {"model": "m", "decision": {"tool": "find"}},
    )
    assert (tool.kind, tool.payload) == (
        AgentEvidenceKind.TOOL,
        {"tool_identity": "shop.Tools:find", "decision": {"allowed": True}},
    )


def test_a_context_optimisation_is_recorded_with_its_references() -> None:
    action = ContextOptimizationAction(
        "a-1",
        ContextOptimizationActionKind.COMPRESSION,
        manifest_ref="m-1",
        digest_ref="d-1",
        result_evidence_ref="e-9",
    )
    signal = ContextHealthSignal("h-1", ContextRotSymptom.OVER_BUDGET)
    candidate = AgentEvidenceCandidate.context_optimization(
        action=action, stage=ContextOptimizationEvidenceStage.AFTER, signals=[signal], summary="shorter"
    )
    assert candidate == AgentEvidenceCandidate(
        AgentEvidenceKind.CONTEXT_OPTIMIZATION,
        {
            "stage": "after",
            "action": action.evidence_payload(),
            "signals": (signal.evidence_payload(),),
        },
        "shorter",
        digest="d-1",
        manifest_ref="m-1",
        reference="e-9",
    )


def test_a_candidate_becomes_evidence_without_losing_anything() -> None:
    candidate = AgentEvidenceCandidate(
        AgentEvidenceKind.CHECKPOINT, {"a": 1}, "s", "d", "m", "r", sensitive_fields=(EMAIL,)
    )
    created = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=9)))
    evidence = candidate.to_evidence(evidence_id="e-1", agent_state_id="run-1", created_at=created)
    assert (evidence.id, evidence.agent_state_id, evidence.created_at) == ("e-1", "run-1", created)
    kept = (evidence.kind, evidence.payload, evidence.summary, evidence.digest, evidence.manifest_ref)
    assert kept == (AgentEvidenceKind.CHECKPOINT, {"a": 1}, "s", "d", "m")
    assert (evidence.reference, evidence.sensitive_fields) == ("r", (EMAIL,))
    assert evidence.created_at != datetime(2026, 1, 1, tzinfo=UTC)
