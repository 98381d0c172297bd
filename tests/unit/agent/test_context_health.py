"""Health signals and optimisation actions as evidence payloads."""

from __future__ import annotations

from datetime import UTC, datetime

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextRotSymptom,
)


def test_a_signal_payload_has_every_key_and_an_iso_time() -> None:
    observed = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    signal = ContextHealthSignal(
        "h-1", ContextRotSymptom.STALE, pack_id="note-1", score=0.9, observed_at=observed
    )
    assert signal.evidence_payload() == {
        "id": "h-1",
        "symptom": "stale",
        "manifest_ref": None,
        "pack_id": "note-1",
        "evidence_ref": None,
        "score": 0.9,
        "observed_at": "2026-01-02T03:04:00+00:00",
        "metadata": {},
    }


def test_a_signal_without_a_time_says_so() -> None:
    signal = ContextHealthSignal("h-1", ContextRotSymptom.POLLUTED)
    assert signal.evidence_payload()["observed_at"] is None


def test_an_action_payload_has_every_key() -> None:
    action = ContextOptimizationAction(
        "a-1", ContextOptimizationActionKind.COMPRESSION, ("h-1",), ("note-1",), reason="too long"
    )
    assert action.evidence_payload() == {
        "id": "a-1",
        "kind": "compression",
        "signal_refs": ("h-1",),
        "target_pack_ids": ("note-1",),
        "manifest_ref": None,
        "digest_ref": None,
        "delegation_ref": None,
        "result_evidence_ref": None,
        "reason": "too long",
        "metadata": {},
    }
